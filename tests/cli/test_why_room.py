"""`tonnage why` for room: buffers, kept slots, requests, gangs."""

import json

import msgspec
import pytest
from click.testing import CliRunner, Result

from tonnage.autoscaler.room_report import (
    BufferReport,
    GangReport,
    PlaceOfPod,
    RequestReport,
    RoomDocument,
)
from tonnage.cli import running_autoscaler
from tonnage.cli.app import program
from tonnage.objects.provisioning_requests import ATOMIC_SCALE_UP
from tonnage.scaleup.plan import ChunksOnNode, GangOutcome, GroupReason, KeptRoomPlan

ROOM = KeptRoomPlan(
    name="CapacityBuffer shop/db",
    chunks=6,
    kept=3,
    bought=2,
    missing=1,
    nodes=(ChunksOnNode(node="n1", chunks=3), ChunksOnNode(node="g-new-1", chunks=2)),
    reasons=(GroupReason(group="g", reasons=("max node group size reached",)),),
)
TRAIN = GangOutcome(
    gang="PodGroup team/train (scheduling.x-k8s.io)",
    minimum=4,
    running=1,
    pods=("team/train-1", "team/train-2"),
    helped=False,
    reason="3 pods have to run at once beside the 1 that run, and there is room for 2",
)
DOCUMENT = RoomDocument(
    time="2026-01-01T12:00:00Z",
    buffers_read=True,
    requests_read=True,
    buffers=(
        BufferReport(name="shop/db", reason="AttributesSet", message="", is_good=True, room=ROOM),
        BufferReport(
            name="shop/bad", reason="BothReferences", message="one of them", is_good=False
        ),
    ),
    headroom=(KeptRoomPlan(name="headroom ebs@east", chunks=2, kept=2, bought=0, missing=0),),
    requests=(
        RequestReport(
            name="team/job",
            provisioning_class=ATOMIC_SCALE_UP,
            state="Provisioned",
            left=2,
            until="2026-01-01T12:10:00Z",
            nodes=(ChunksOnNode(node="n2", chunks=2),),
        ),
        RequestReport(
            name="team/later",
            provisioning_class=ATOMIC_SCALE_UP,
            state="Accepted",
            message="3 pods have to run at once, and there is room for 1",
        ),
    ),
    gangs=(GangReport(outcome=TRAIN, places=(PlaceOfPod(pod="team/train-1", node="n3"),)),),
)


@pytest.fixture(autouse=True)
def answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """An autoscaler that answers with the document."""
    monkeypatch.setattr(running_autoscaler, "get", lambda *_: msgspec.json.encode(DOCUMENT))


def run(*arguments: str) -> Result:
    return CliRunner().invoke(program, ["why", *arguments, "--url", "http://127.0.0.1:1"])


def lines(*arguments: str) -> list[list[str]]:
    return [line.split() for line in run(*arguments).stdout.splitlines() if line]


def test_a_buffer_has_what_it_holds_on_which_nodes_and_what_it_lacks() -> None:
    words = run("capacitybuffer/shop/db").stdout
    assert words.splitlines()[0] == (
        "CapacityBuffer shop/db: 3 chunks on nodes that are there or coming,"
        " 2 chunks on nodes that are bought, 1 chunk without room"
    )
    assert "max node group size reached" in words
    assert lines("capacitybuffer/shop/db")[-2:] == [["n1", "3"], ["g-new-1", "2"]]


def test_a_bad_buffer_has_its_reason() -> None:
    assert run("capacitybuffer/bad", "-n", "shop").stdout == (
        "CapacityBuffer shop/bad: no room is kept, BothReferences: one of them\n"
    )


def test_kept_slots_go_by_their_driver() -> None:
    words = run("headroom/ebs@east").stdout
    assert words == "headroom ebs@east: 2 chunks on nodes that are there or coming\n"


def test_a_request_has_its_room_and_until_when_it_is_booked() -> None:
    found = lines("provisioningrequest/job")
    assert " ".join(found[0]) == "ProvisioningRequest team/job: room for 2 pods is booked"
    assert ["booked", "until", "2026-01-01T12:10:00Z"] in found
    assert found[-1] == ["n2", "2"]


def test_a_request_without_room_has_what_it_waits_for() -> None:
    assert run("provisioningrequest/team/later").stdout.splitlines()[0] == (
        "ProvisioningRequest team/later: waits for room, 3 pods have to run at once, and there is"
        " room for 1"
    )


def test_a_gang_has_what_it_lacks_and_who_waits() -> None:
    words = run("podgroup/team/train").stdout
    assert words.splitlines()[0] == f"{TRAIN.gang}: {TRAIN.reason}"
    assert "team/train-1, team/train-2" in words
    assert ["team/train-1", "n3"] in lines("podgroup/train")


def test_programs_get_all_of_it() -> None:
    told = json.loads(run("provisioningrequest/job", "-o", "json").stdout)
    assert told["about"]["room"]["nodes"] == [{"node": "n2", "chunks": 2}]


def test_a_name_that_nobody_knows_has_a_hint() -> None:
    result = run("capacitybuffer/shop/d")
    assert result.exit_code == 2
    assert "near matches: shop/db" in result.output


def test_files_know_nothing_of_room() -> None:
    assert "expected no -f" in run("podgroup/train", "-f", "decisions.jsonl").output
