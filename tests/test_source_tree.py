"""How the source is laid out: what a reader may rely on when looking for something."""

import re
from collections import Counter
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent / "src" / "tonnage"
GERUNDS = {"balancing", "packing", "volume_binding", "volume_matching"}
"""Modules whose gerund is the noun of the trade."""


def test_no_class_name_stands_twice() -> None:
    names = Counter(
        name
        for path in SOURCE.rglob("*.py")
        for name in re.findall(r"^class ([A-Za-z]\w*)", path.read_text(), re.MULTILINE)
    )
    assert {name for name, count in names.items() if count > 1} == set()


def test_modules_are_named_by_nouns() -> None:
    assert {path.stem for path in SOURCE.rglob("*ing.py")} == GERUNDS
