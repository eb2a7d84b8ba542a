"""docs/operations.md has a line on every metric and every reason of an event."""

import re
from pathlib import Path

import prometheus_client
import pytest

import tonnage.autoscaler
from tests.autoscaler.harness import Cloud, a_program
from tests.cluster.apiserver import ApiServer
from tests.deploy.manifests import DEPLOY
from tonnage.autoscaler.actuator import EventReason
from tonnage.testing.clock import VirtualClock

DOCUMENT = (DEPLOY.parent / "docs" / "operations.md").read_text()
PACKAGE = Path(tonnage.autoscaler.__file__).parent
SOURCES = {str(path.relative_to(PACKAGE)): path.read_text() for path in PACKAGE.rglob("*.py")}


def metric_names() -> list[str]:
    """All that a replica has to tell, however it was registered."""
    server = ApiServer()
    program = a_program(server, Cloud(server), VirtualClock())
    return [
        f"{family.name}_total" if family.type == "counter" else family.name
        for family in program.metrics.registry.collect()
    ]


def test_metrics_are_found() -> None:
    assert "tonnage_leader" in metric_names()


def test_events_are_recorded_in_one_place() -> None:
    places = [name for name, text in SOURCES.items() if "recorder.record(" in text]
    assert places == ["actuator.py"]


@pytest.mark.parametrize("reason", EventReason)
def test_a_reason_of_an_event_is_given(reason: EventReason) -> None:
    assert any(f"EventReason.{reason.name}" in text for text in SOURCES.values())


def test_no_metric_is_registered_where_nobody_scrapes() -> None:
    strangers = {family.name for family in prometheus_client.REGISTRY.collect()}
    assert not {name for name in strangers if name.startswith(("tonnage", "cluster_autoscaler"))}


@pytest.mark.parametrize("name", metric_names())
def test_a_metric_has_its_line(name: str) -> None:
    assert f"\n| `{name}` |" in DOCUMENT


@pytest.mark.parametrize("reason", EventReason)
def test_a_reason_of_an_event_has_its_line(reason: EventReason) -> None:
    assert f"\n| `{reason}` |" in DOCUMENT


def test_no_line_is_about_a_metric_or_reason_that_is_gone() -> None:
    told = set(re.findall(r"^\| `([A-Za-z_]+)` \|", DOCUMENT, re.MULTILINE))
    assert told - set(metric_names()) - set(EventReason) == set()
