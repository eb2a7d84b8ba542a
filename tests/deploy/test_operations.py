"""docs/operations.md has a line on every metric and every reason of an event."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import prometheus_client
import pytest

import tonnage.autoscaler
from tests.autoscaler.harness import Cloud, a_program
from tests.cluster.apiserver import ApiServer
from tests.deploy.manifests import DEPLOY
from tonnage.testing.clock import VirtualClock

DOCUMENT = (DEPLOY.parent / "docs" / "operations.md").read_text()
PACKAGE = Path(tonnage.autoscaler.__file__).parent
TREES = {
    str(path.relative_to(PACKAGE)): ast.parse(path.read_text())
    for path in sorted(PACKAGE.rglob("*.py"))
}


def metric_names() -> list[str]:
    """All that a replica has to tell, however it was registered."""
    server = ApiServer()
    program = a_program(server, Cloud(server), VirtualClock())
    return [
        f"{family.name}_total" if family.type == "counter" else family.name
        for family in program.metrics.registry.collect()
    ]


def event_reasons() -> set[str]:
    return {reason for tree in TREES.values() for reason in _reasons(tree)}


def _reasons(tree: ast.AST) -> Iterator[str]:
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for call in _calls(function, "_actuator.tell"):
                yield from _said(call, function)


def _calls(tree: ast.AST, called: str) -> Iterator[ast.Call]:
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and ast.unparse(call.func).endswith(called):
            yield call


def _said(call: ast.Call, function: ast.AST) -> Iterator[str]:
    """The reason: a text, or a variable the function sets to texts; anything else is a failure."""
    named = [one.value for one in call.keywords if one.arg == "reason"]
    reason = (named or call.args[1:2])[0]
    if isinstance(reason, ast.Constant):
        yield str(reason.value)
        return
    assert isinstance(reason, ast.Name), f"not understood: {ast.unparse(call)}"
    found = list(_assigned(function, reason.id))
    assert found, f"not understood: {ast.unparse(call)}"
    yield from found


def _assigned(function: ast.AST, name: str) -> Iterator[str]:
    for one in ast.walk(function):
        if (
            isinstance(one, ast.Assign)
            and isinstance(one.value, ast.Constant)
            and [ast.unparse(target) for target in one.targets] == [name]
        ):
            yield str(one.value.value)


def test_metrics_and_reasons_are_found_in_the_code() -> None:
    assert "tonnage_leader" in metric_names()
    assert {"TriggeredScaleUp", "ScaleUpTimedOut"} <= event_reasons()


def test_events_are_recorded_in_one_place() -> None:
    places = [name for name, tree in TREES.items() for _ in _calls(tree, "recorder.record")]
    assert places == ["actuator.py"]


def test_that_place_is_only_ever_called() -> None:
    """Handed on under another name, what it is given would not be seen here."""
    for name, tree in TREES.items():
        named = [
            one
            for one in ast.walk(tree)
            if isinstance(one, ast.Attribute) and ast.unparse(one).endswith("_actuator.tell")
        ]
        assert len(named) == len(list(_calls(tree, "_actuator.tell"))), name


def test_no_metric_is_registered_where_nobody_scrapes() -> None:
    strangers = {family.name for family in prometheus_client.REGISTRY.collect()}
    assert not {name for name in strangers if name.startswith(("tonnage", "cluster_autoscaler"))}


@pytest.mark.parametrize("name", metric_names())
def test_a_metric_has_its_line(name: str) -> None:
    assert f"\n| `{name}` |" in DOCUMENT


@pytest.mark.parametrize("reason", sorted(event_reasons()))
def test_a_reason_of_an_event_has_its_line(reason: str) -> None:
    assert f"\n| `{reason}` |" in DOCUMENT


def test_no_line_is_about_a_metric_or_reason_that_is_gone() -> None:
    told = set(re.findall(r"^\| `([A-Za-z_]+)` \|", DOCUMENT, re.MULTILINE))
    assert told - set(metric_names()) - event_reasons() == set()
