"""docs/scale-down.md has every code and every option."""

import re
from pathlib import Path

import msgspec

from tonnage.groups.scale_down_options import ScaleDownOptions
from tonnage.scaledown.codes import NODE_REASONS, KeepCode, PodCode

TEXT = (Path(__file__).parents[2] / "docs" / "scale-down.md").read_text()


def test_every_code_is_listed_with_upstreams_names() -> None:
    rows = set(re.findall(r"^\| `([a-z-]+)` \| `(\w+)` \| `(\w+)` \|", TEXT, re.MULTILINE))
    assert rows == {(code.value, *NODE_REASONS[code]) for code in KeepCode}


def test_every_code_of_a_pod_is_named() -> None:
    assert [code for code in PodCode if f"`{code.value}`" not in TEXT] == []


def test_every_option_is_listed() -> None:
    names = [field.encode_name for field in msgspec.structs.fields(ScaleDownOptions)]
    assert [name for name in names if f"`{name}`" not in TEXT] == []
