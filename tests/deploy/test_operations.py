"""docs/operations.md has a line on every metric and every reason of an event."""

import ast
import random
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import tonnage.autoscaler
from tests.cluster.apiserver import ApiServer
from tests.deploy.manifests import DEPLOY
from tonnage.autoscaler.metrics import Metrics
from tonnage.clock import SystemClock
from tonnage.cluster.mirror import Mirror
from tonnage.service.cachemetrics import CacheCollector

DOCUMENT = (DEPLOY.parent / "docs" / "operations.md").read_text()
PACKAGE = Path(tonnage.autoscaler.__file__).parent


def metric_names() -> list[str]:
    clock = SystemClock()
    mirror = Mirror(ApiServer().client(clock), clock=clock, rng=random.Random(1))
    registry = Metrics(clock=clock).registry
    registry.register(CacheCollector(mirror))
    return [
        f"{family.name}_total" if family.type == "counter" else family.name
        for family in registry.collect()
    ]


def event_reasons() -> set[str]:
    return {reason for path in PACKAGE.glob("*.py") for reason in _reasons(path)}


def _reasons(path: Path) -> Iterator[str]:
    for function in ast.walk(ast.parse(path.read_text())):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _told_in(function)


def _told_in(function: ast.AST) -> Iterator[str]:
    """What a function gives `tell` as the reason: a text, or a variable it sets to texts."""
    for call in ast.walk(function):
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)):
            continue
        if call.func.attr != "tell" or len(call.args) < 2:
            continue
        reason = call.args[1]
        if isinstance(reason, ast.Constant):
            yield str(reason.value)
        else:
            assert isinstance(reason, ast.Name), f"not understood: {ast.unparse(call)}"
            yield from _assigned(function, reason.id)


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


@pytest.mark.parametrize("name", metric_names())
def test_a_metric_has_its_line(name: str) -> None:
    assert f"\n| `{name}` |" in DOCUMENT


@pytest.mark.parametrize("reason", sorted(event_reasons()))
def test_a_reason_of_an_event_has_its_line(reason: str) -> None:
    assert f"\n| `{reason}` |" in DOCUMENT


def test_no_line_is_about_a_metric_or_reason_that_is_gone() -> None:
    told = set(re.findall(r"^\| `([A-Za-z_]+)` \|", DOCUMENT, re.MULTILINE))
    assert told - set(metric_names()) - event_reasons() == set()
