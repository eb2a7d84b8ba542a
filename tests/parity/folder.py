"""Where all recordings are; `make parity` names the folder."""

import os
from pathlib import Path

FOLDER = Path(os.environ["TONNAGE_ORACLE"])
