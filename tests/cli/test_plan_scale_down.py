"""`tonnage plan --scale-down`: what it prints."""

import json

import pytest

from tests.cli.conftest import Written
from tests.cli.planning import run
from tests.scaledown.clusters import WEB, budget, group, web
from tonnage.objects.kinds import KubeObject
from tonnage.testing import builders as make


def cluster(*more: KubeObject) -> list[KubeObject]:
    return [
        WEB,
        group("a", "b", "c", price="0.5"),
        *(make.node(name) for name in "abc"),
        web("w1", "a"),
        web("w2", "b"),
        *more,
    ]


def test_the_first_line_is_the_plan_in_a_sentence(written: Written) -> None:
    told = run("-f", written(*cluster()), "--scale-down").stdout.splitlines()[0]
    assert told == (
        "2 of 3 nodes can go, in 1 wave, 1 pod moved, 1 an hour saved; 1 stay,"
        " no fewer than 1 can hold the pods."
    )


@pytest.mark.parametrize("form", ["table", "wide"])
def test_what_keeps_a_node_is_printed(written: Written, form: str) -> None:
    text = run("-f", written(*cluster(budget(0))), "--scale-down", "-o", form).stdout
    assert "blocked-by-pod" in text
    assert "one more allowed disruption of default/web" in text


def test_wide_has_every_move(written: Written) -> None:
    text = run("-f", written(*cluster()), "--scale-down", "-o", "wide").stdout
    assert "default/w2  b     a" in text


def test_json_is_the_whole_plan(written: Written) -> None:
    printed = json.loads(run("-f", written(*cluster()), "--scale-down", "-o", "json").stdout)
    assert printed["kind"] == "ScaleDownPlan"
    assert {node["node"] for node in printed["nodes"]} == {"a", "b", "c"}


def test_what_if_a_budget_were_not_there(written: Written) -> None:
    file = written(*cluster(budget(0)))
    text = run("-f", file, "--scale-down", "--what-if", "ignore-pdb=default/web").stdout
    assert text.startswith("2 of 3 nodes can go")


@pytest.mark.parametrize(
    ("change", "action"), [((), "keep"), (("--what-if", "remove-node=b"), "drain")]
)
def test_what_if_a_busy_node_were_removed(
    written: Written, change: tuple[str, ...], action: str
) -> None:
    file = written(*cluster(web("w3", "b", cpu="2")))
    printed = json.loads(run("-f", file, "--scale-down", *change, "-o", "json").stdout)
    assert [node["action"] for node in printed["nodes"] if node["node"] == "b"] == [action]


@pytest.mark.parametrize("change", ["ignore-pdb=default/nobody", "remove-node=nobody"])
def test_what_if_about_nobody_is_an_error(written: Written, change: str) -> None:
    ended = run("-f", written(*cluster()), "--scale-down", "--what-if", change)
    assert ended.exit_code == 2
    assert "nobody" in ended.stderr
