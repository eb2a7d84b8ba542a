"""What the chart is made of, without Helm: rights, schema, rules and board fit the code."""

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.autoscaler.harness import Cloud, a_program
from tests.chart.helm import CHART, REPOSITORY
from tests.cluster.apiserver import ApiServer
from tonnage.capacity.report import CapacityMetrics as CapacityMetrics
from tonnage.nodeagent.metrics import NodeAgentMetrics as AgentMetrics
from tonnage.scheduler.extender.metrics import ExtenderMetrics as ExtenderMetrics
from tonnage.scheduler.metrics import SchedulerMetrics as SchedulerMetrics
from tonnage.scheduler.queue import SchedulingQueue
from tonnage.snapshot.reservations import Reservations
from tonnage.testing.clock import VirtualClock

RULES = yaml.safe_load((CHART / "files" / "rules.yaml").read_text())
BOARD = json.loads((CHART / "files" / "dashboard.json").read_text())
TESTS = yaml.safe_load((REPOSITORY / "tests" / "chart" / "rules_test.yaml").read_text())
SCHEMA = json.loads((CHART / "values.schema.json").read_text())
ALERTS = [rule for group in RULES["groups"] for rule in group["rules"]]
PANELS = [panel for panel in BOARD["panels"] if panel["type"] != "row"]
SERIES = re.compile(r"\b(?:tonnage|cluster_autoscaler|scheduler)_[a-z_]+")


def exported() -> set[str]:
    """Names of all series that components have, as Prometheus stores them."""
    server, clock = ApiServer(), VirtualClock()
    registries = [
        a_program(server, Cloud(server), clock).metrics.registry,
        CapacityMetrics().registry,
        AgentMetrics().registry,
        ExtenderMetrics(Reservations()).registry,
        SchedulerMetrics(SchedulingQueue(), profile="tonnage").registry,
    ]
    suffixes = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count")}
    return {
        family.name + suffix
        for registry in registries
        for family in registry.collect()
        for suffix in suffixes.get(family.type, ("",))
    }


EXPORTED = exported()


def queries() -> Iterator[tuple[str, str]]:
    for rule in ALERTS:
        yield rule["alert"], rule["expr"]
    for panel in PANELS:
        for target in panel["targets"]:
            yield f"panel {panel['title']}", target["expr"]


def test_rights_and_schema_are_made_from_what_they_come_from() -> None:
    tool = REPOSITORY / "tools" / "make-chart"
    told = subprocess.run([sys.executable, tool, "check"], capture_output=True, text=True)
    assert told.stderr == ""


@pytest.mark.parametrize(("where", "query"), list(queries()))
def test_every_series_that_is_asked_for_is_exported(where: str, query: str) -> None:
    named = set(SERIES.findall(query))
    assert named, where
    assert named - EXPORTED == set()


@pytest.mark.parametrize("alert", [rule["alert"] for rule in ALERTS])
def test_an_alert_has_a_test_that_fires_it_and_one_that_does_not(alert: str) -> None:
    tested = {
        case["name"]: bool(check["exp_alerts"])
        for case in TESTS["tests"]
        for check in case["alert_rule_test"]
        if check["alertname"] == alert
    }
    assert tested == {f"{alert} fires": True, f"{alert} stays silent": False}


def test_the_readme_of_the_chart_lists_every_alert() -> None:
    text = (CHART / "README.md").read_text()
    assert re.findall(r"^\| (Tonnage\w+) \|", text, re.MULTILINE) == [
        rule["alert"] for rule in ALERTS
    ]


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: rule["alert"])
def test_an_alert_says_what_is_wrong_and_how_bad(rule: dict[str, Any]) -> None:
    assert rule["annotations"]["summary"]
    assert rule["labels"]["severity"] in ("critical", "warning", "info")


@pytest.mark.parametrize(
    "subject", ["Slots", "Waiting by reason", "Purchases and removals", "From waiting", "disagree",
                "Cost"],
)  # fmt: skip
def test_the_board_has_a_panel_on_it(subject: str) -> None:
    assert any(subject in panel["title"] for panel in PANELS)


def test_panels_do_not_overlap() -> None:
    taken = [
        (panel["gridPos"]["x"] + x, panel["gridPos"]["y"] + y)
        for panel in BOARD["panels"]
        for x in range(panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["h"])
    ]
    assert len(taken) == len(set(taken))


def test_every_value_is_in_the_schema_and_the_other_way_round() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert values.keys() == SCHEMA["properties"].keys() - {"global"}
    for name, value in values.items():
        known = SCHEMA["properties"][name].get("properties")
        if known:
            assert value.keys() == known.keys(), name


def test_the_chart_has_the_version_of_the_package() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    assert (chart["version"], chart["appVersion"]) == (project["version"],) * 2
    images = yaml.safe_load(chart["annotations"]["artifacthub.io/images"])
    assert all(one["image"].endswith(f":{project['version']}") for one in images)
