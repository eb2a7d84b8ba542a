"""docs/consolidation.md lists every setting with its default, and every code."""

import json
import re
from pathlib import Path

import msgspec

from tonnage.consolidation import cluster_problem, decision, steps
from tonnage.groups.consolidation_options import ConsolidationOptions

TEXT = (Path(__file__).parents[2] / "docs" / "consolidation.md").read_text()


def test_every_setting_is_listed_with_its_default() -> None:
    section = TEXT.split("\n## Configuration")[1].split("\n## ")[0]
    listed = dict(re.findall(r"^\| `(\w+)` \| (\S+) \|", section, re.MULTILINE))
    budgets = listed.pop("budgets")
    assert budgets == ConsolidationOptions().budgets[0].nodes
    known = {
        field.encode_name: getattr(ConsolidationOptions(), field.name)
        for field in msgspec.structs.fields(ConsolidationOptions)
        if field.name != "budgets"
    }
    assert {name: json.loads(text) for name, text in listed.items()} == known


def test_every_code_of_our_own_is_listed() -> None:
    codes = {
        decision.NOTHING_CHEAPER,
        decision.BUDGET_SPENT,
        steps.NOT_WORTH_THE_MOVES,
        steps.SAVES_TOO_LITTLE,
        cluster_problem.TOO_YOUNG,
        cluster_problem.NOT_PAID_BACK,
        cluster_problem.NO_PRICE,
    }
    assert codes <= set(re.findall(r"^\| `([a-z-]+)` \|", TEXT, re.MULTILINE))
