"""`tonnage why node/NAME`."""

import json

import msgspec
import pytest
from click.testing import CliRunner, Result

from tonnage.autoscaler.scaledown.removals import NodeRemoval, Stage
from tonnage.autoscaler.scaledown.report import ScaleDownDocument, ScaleDownReport, document
from tonnage.cli import running_autoscaler
from tonnage.cli.app import program
from tonnage.scaledown.plan import Action, Move, NodeDecision, ScaleDownPlan, Utilisation

BLOCKED = NodeDecision(
    node="worker-1",
    group="g",
    candidate=True,
    utilisation=Utilisation(cpu=0.05, memory=0.02, resource="cpu", value=0.05),
    action=Action.KEEP,
    reason="BlockedByPod",
    code="blocked-by-pod",
    pod="shop/web-2",
    pod_reason="NotEnoughPdb",
    since="2026-01-01T11:50:00Z",
    frees="one more allowed disruption of shop/web",
)
GOES = NodeDecision(
    node="worker-2",
    group="g",
    candidate=True,
    action=Action.DRAIN,
    wave=1,
    moves=(Move(pod="shop/db-0", to="worker-1", wave=1),),
)
GOING = NodeRemoval(
    node="worker-3", uid="u", group="g", reason="empty", drain=False, since=0.0, started=0.0,
    at=0.0, stage=Stage.DETACHING,
)  # fmt: skip
ROUND = ScaleDownReport(
    enabled=True, plan=ScaleDownPlan(nodes=(BLOCKED, GOES)), removals={"worker-3": GOING}
)


@pytest.fixture
def answered(monkeypatch: pytest.MonkeyPatch):
    """An autoscaler that answers with a round."""

    def answer(told: ScaleDownDocument) -> None:
        data = msgspec.json.encode(told)
        monkeypatch.setattr(running_autoscaler, "get", lambda *_: data)

    answer(document(ROUND, time="2026-01-01T12:00:00Z"))
    return answer


def run(*arguments: str) -> Result:
    return CliRunner().invoke(program, ["why", *arguments, "--url", "http://127.0.0.1:1"])


@pytest.mark.usefixtures("answered")
def test_a_node_that_stays_has_its_code_its_pod_and_what_would_free_it() -> None:
    result = run("node/worker-1")
    assert "worker-1: stays, blocked-by-pod, shop/web-2 (NotEnoughPdb)" in result.output
    assert "one more allowed disruption of shop/web" in result.output


@pytest.mark.usefixtures("answered")
def test_a_node_that_goes_has_its_wave_and_the_places_of_its_pods() -> None:
    result = run("node/worker-2")
    assert "worker-2: goes in wave 1" in result.output
    assert "shop/db-0 to worker-1" in result.output


@pytest.mark.usefixtures("answered")
def test_a_node_that_is_going_says_how_far_it_is() -> None:
    assert "worker-3: is going (detaching), empty" in run("node/worker-3").output


@pytest.mark.usefixtures("answered")
def test_the_document_is_a_why_of_the_node() -> None:
    told = json.loads(run("node/worker-1", "-o", "json").output)
    assert (told["kind"], told["node"], told["decision"]["code"]) == (
        "Why", "worker-1", "blocked-by-pod",
    )  # fmt: skip


@pytest.mark.usefixtures("answered")
def test_a_name_that_is_none_has_near_matches() -> None:
    result = run("node/worker-9")
    assert result.exit_code == 2
    assert "no node 'worker-9'; near matches: worker-" in result.output


def test_with_scale_down_off_that_is_what_is_said(answered) -> None:
    answered(document(ScaleDownReport(), time="2026-01-01T12:00:00Z"))
    result = run("node/worker-1")
    assert (result.exit_code, "scaleDownEnabled is false" in result.output) == (2, True)


@pytest.mark.usefixtures("answered")
def test_there_is_no_file_about_nodes() -> None:
    assert "expected no -f" in run("node/worker-1", "-f", "x").output
