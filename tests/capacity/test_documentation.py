"""docs/capacity-templates.md has a line on every metric and every reason of an event."""

import re
from pathlib import Path

from tonnage.capacity import sync, wishes
from tonnage.capacity.desired import ProblemReason
from tonnage.capacity.report import CapacityMetrics

TEXT = (Path(__file__).parents[2] / "docs" / "capacity-templates.md").read_text()


def lines(under: str) -> set[str]:
    """What the first column of a table has."""
    table = TEXT.partition(f"\n| {under} |")[2].partition("\n\n")[0]
    return set(re.findall(r"^\| `(.+?)` \|", table, re.MULTILINE))


def test_every_event_has_its_line() -> None:
    assert lines("event") == {*(one.value for one in ProblemReason), sync.RESTORED, sync.FAILED}


def test_every_metric_has_its_line() -> None:
    names = {
        f"{family.name}_total" if family.type == "counter" else family.name
        for family in CapacityMetrics().registry.collect()
    }
    assert lines("metric") == names


def test_every_example_of_the_annotation_can_be_read() -> None:
    examples = lines("value")
    assert len(examples) == 7
    for example in examples:
        wishes.parse(example)
