"""Room that is kept ready, in virtual time: with and without, and beside bad buffers."""

from functools import cache
from typing import Any

import msgspec
import pytest

from tests.simulation.scenarios import example, played
from tonnage.simulation import runner
from tonnage.simulation.ensemble import Ensemble
from tonnage.simulation.scenario import Simulation

pytestmark = pytest.mark.xdist_group("examples")  # played once, for all tests

EBS = "ebs.csi.aws.com"


def stored(ensemble: Ensemble, group: str, version: str, plural: str) -> dict[str, dict[str, Any]]:
    collection = ensemble.server.store.collections[group, version, plural]
    return {one.meta["name"]: dict(one.tree) for one in collection.within()}


def conditions(ensemble: Ensemble, name: str) -> dict[str, tuple[str, str]]:
    buffers = stored(ensemble, "autoscaling.x-k8s.io", "v1beta1", "capacitybuffers")
    return {
        one["type"]: (one["status"], one["reason"]) for one in buffers[name]["status"]["conditions"]
    }


def bought(ensemble: Ensemble) -> list[tuple[int, int]]:
    """Minutes and nodes of what was asked for."""
    return [(int(one.at // 60), one.nodes) for one in ensemble.decisions if one.deed == "increase"]


@cache
def with_bad_buffers() -> Ensemble:
    simulation = example("headroom")
    spec = simulation.spec
    return runner.played(
        msgspec.structs.replace(
            simulation,
            spec=msgspec.structs.replace(spec, duration=300.0, script=()),
            objects=(
                *simulation.objects,
                buffer("both", podTemplateRef={"name": "x"}, scalableRef=_DB, replicas=1),
                buffer("negative", scalableRef=_DB, replicas=-5),
                buffer("missing", podTemplateRef={"name": "nothing"}, replicas=1),
                buffer("others", provisioningStrategy="example.com/standby", replicas=1),
            ),
        )
    )


_DB = {"apiGroup": "apps", "kind": "StatefulSet", "name": "db"}


def buffer(name: str, **spec: object) -> dict[str, Any]:
    return {
        "apiVersion": "autoscaling.x-k8s.io/v1beta1",
        "kind": "CapacityBuffer",
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    }


def test_two_nodes_are_kept_for_five_chunks_of_three_claims_on_ten_slots() -> None:
    assert bought(played("headroom"))[0] == (0, 2)
    assert played("headroom").samples[-1].nodes["ready"] == 2


def test_pods_that_come_while_there_are_no_machines_start_at_once() -> None:
    waited = played("headroom").timeline().summary.time_to_running.p99
    assert waited is not None
    assert waited < 10


def test_room_that_was_used_is_bought_again_and_once() -> None:
    later = [one for one in bought(played("headroom")) if one[0] >= 20]
    assert later == [(25, 1)]


def test_without_the_buffer_the_pods_wait_for_machines() -> None:
    timeline = runner.simulate(example("headroom").with_options({"capacityBuffers": False}))
    assert timeline.summary.time_to_running.p99 is not None
    assert timeline.summary.time_to_running.p99 > 600


def test_the_buffer_says_what_became_of_it() -> None:
    ensemble = played("headroom")
    assert conditions(ensemble, "db") == {
        "ReadyForProvisioning": ("True", "AttributesSet"),
        "Provisioning": ("True", "RoomKept"),
    }
    buffers = stored(ensemble, "autoscaling.x-k8s.io", "v1beta1", "capacitybuffers")
    assert buffers["db"]["status"]["replicas"] == 5


def test_bad_buffers_are_told_so_and_stop_nothing_else() -> None:
    ensemble = with_bad_buffers()
    for name, reason in (
        ("both", "BothReferences"),
        ("negative", "NegativeReplicas"),
        ("missing", "PodTemplateNotFound"),
    ):
        assert conditions(ensemble, name) == {
            "ReadyForProvisioning": ("False", reason),
            "Provisioning": ("False", reason),
        }
    assert bought(ensemble) == [(0, 2)]
    assert conditions(ensemble, "db")["Provisioning"] == ("True", "RoomKept")


def test_a_buffer_for_somebody_else_is_left_alone() -> None:
    buffers = stored(with_bad_buffers(), "autoscaling.x-k8s.io", "v1beta1", "capacitybuffers")
    assert "status" not in buffers["others"]


def test_an_event_tells_what_is_wrong_with_a_buffer() -> None:
    events = stored(with_bad_buffers(), "", "v1", "events").values()
    told = {
        one["involvedObject"]["name"]: one["message"]
        for one in events
        if one["reason"] == "BadCapacityBuffer"
    }
    assert told.keys() == {"both", "negative", "missing"}
    assert told["negative"] == "no room is kept: replicas: -5: expected 0 or more"


def kept_slots(simulation: Simulation, **entry: object) -> Simulation:
    entry = {"driver": EBS, **entry}
    return simulation.with_options({"capacityBuffers": False, "headroom": [entry]})


def test_kept_slots_are_bought_once_and_held_in_scale_down() -> None:
    ensemble = runner.played(kept_slots(example("headroom"), slots=15))

    assert bought(ensemble)[0] == (0, 2)
    # Nine of them are used while nothing can be bought; one more node, which goes at the end.
    assert ensemble.samples[-1].nodes["ready"] == 2
    summary = ensemble.timeline().summary
    assert summary.pending_at_end == 0
