"""What made a report, for who finds it later."""

import importlib.metadata
import shlex
import sys
from datetime import UTC, datetime

from tonnage.report.page import Origin


def origin() -> Origin:
    """This program, this command line and this moment."""
    words = ["tonnage", *sys.argv[1:]]
    return Origin(
        version=importlib.metadata.version("tonnage"),
        command=shlex.join(words),
        date=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
    )
