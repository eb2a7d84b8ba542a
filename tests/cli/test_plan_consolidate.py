"""`tonnage plan --consolidate`: what it prints."""

import json

import pytest

from tests.cli.conftest import Written
from tests.cli.planning import run
from tests.consolidation.clusters import group
from tests.scaledown.clusters import WEB, web
from tonnage.objects.kinds import KubeObject
from tonnage.optimise import highs


def cluster(*more: KubeObject) -> list[KubeObject]:
    return [
        WEB,
        *group("dear", "a", "b", price="1"),
        *group("cheap", price="0.5"),
        web("w1", "a", cpu="1500m"),
        web("w2", "b", cpu="1500m"),
        web("w3", "b", cpu="500m"),
        *more,
    ]


def test_the_first_line_is_the_plan_in_a_sentence(written: Written) -> None:
    told = run("-f", written(*cluster()), "--consolidate").stdout.splitlines()[0]
    # The bound is proven: pods need one node at least, and none costs less than 0.5. Patterns hold
    # no more pods than there are, so that the linear program too has one whole node of `cheap`.
    assert told == (
        "2 nodes can go, 1 bought instead, 3 pods moved in 2 waves: 0.5 an hour instead of 2 an"
        " hour; no plan costs less than 0.5 an hour."
    )


def test_without_a_solver_the_bound_is_that_of_nodes_bought_in_part(
    written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(highs, "installed", lambda: False)
    told = run("-f", written(*cluster()), "--consolidate").stdout.splitlines()[0]
    # 3.5 CPUs at 0.5 for 4.
    assert told.endswith(
        "0.5 an hour instead of 2 an hour; no plan costs less than 0.4375 an hour."
    )


def test_wide_has_every_move_and_what_it_costs(written: Written) -> None:
    text = run("-f", written(*cluster()), "--consolidate", "-o", "wide").stdout
    assert "default/w1  a     cheap-new-1  -        60 s" in text


def test_json_is_the_whole_plan(written: Written) -> None:
    printed = json.loads(run("-f", written(*cluster()), "--consolidate", "-o", "json").stdout)
    assert printed["kind"] == "ConsolidationPlan"
    assert printed["buys"][0]["nodes"] == ["cheap-new-1"]


def test_settings_are_fields_of_consolidation(written: Written) -> None:
    setting = ("--option", "consolidation.minSaving=3")
    text = run("-f", written(*cluster()), "--consolidate", *setting).stdout
    assert "1.5        saves-too-little" in text


def test_what_is_not_worth_anything_is_not_asked_for(written: Written) -> None:
    file = written(*cluster())
    assert run("-f", file, "--consolidate", "--scale-down").exit_code == 2
    assert run("-f", file, "--consolidate", "--what-if", "remove-node=a").exit_code == 2
