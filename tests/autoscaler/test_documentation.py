"""docs/configuration.md and docs/scale-down.md list every field, and none there is not."""

import re
from pathlib import Path

import msgspec

from tonnage.autoscaler.config import AutoscalerConfig

DOCS = Path(__file__).parents[2] / "docs"
SECTIONS = (DOCS / "scale-down.md").read_text().split("\n## ")
"""Those of the plan and its reasons have tables, too."""
TEXT = "\n".join(
    (
        (DOCS / "configuration.md").read_text(),
        *(one for one in SECTIONS if one.startswith(("Options", "Settings"))),
    )
)
FIELDS = {field.encode_name for field in msgspec.structs.fields(AutoscalerConfig)}


def test_every_field_is_listed() -> None:
    rows = [line.split("|")[1] for line in TEXT.splitlines() if line.startswith("| `")]
    listed = {name for row in rows for name in re.findall(r"`([A-Za-z]+)`", row)}
    assert listed == FIELDS - {"apiVersion", "kind"}
