"""A pod that will fit soon is not bought a node that takes longer."""

from collections.abc import Iterable

import msgspec
import pytest

from tests.scaleup.asking import (
    CLASS,
    EBS,
    UPSTREAM,
    ago,
    bought,
    decide,
    group,
    running,
    stateful,
)
from tonnage.groups.memory import KEPT, ObservedTimes, TemplateMemory
from tonnage.objects.kinds import KubeObject
from tonnage.objects.meta import OwnerReference
from tonnage.objects.pods import Pod
from tonnage.objects.storage import VolumeAttachment
from tonnage.objects.workloads import StatefulSet, StatefulSetSpec
from tonnage.scaleup.plan import Plan
from tonnage.testing import builders as make

NODE = [make.node("n1", cpu="4"), make.csinode("n1", {EBS: 2})]
GROUP = group("g", slots={EBS: 2}, nodes=["n1"])
WAITING = stateful("db", 1)


def memory(*, detach: float = 10.0, start: float = 90.0) -> TemplateMemory:
    return TemplateMemory(times=ObservedTimes(detach={EBS: (detach,)}, start={"g": (start,)}))


def ending(objects: Iterable[KubeObject], seconds: float, owner: str = "") -> list[KubeObject]:
    """The pods among the objects are to be gone by then."""
    return [
        msgspec.structs.replace(
            one,
            metadata=msgspec.structs.replace(
                one.metadata,
                deletion_timestamp=ago(-seconds),
                owner_references=(
                    OwnerReference(
                        api_version="v1", kind=owner, name="own", uid="1", controller=True
                    ),
                )
                if owner
                else (),
            ),
        )
        if isinstance(one, Pod)
        else one
        for one in objects
    ]


def plan(*objects: KubeObject | Iterable[KubeObject], **settings: object) -> Plan:
    settings.setdefault("memory", memory())
    return decide(CLASS, NODE, GROUP, *objects, **settings)  # type: ignore[arg-type]


def waits(plan: Plan) -> dict[str, tuple[str, float]]:
    return {one.pod: (one.node, one.seconds) for one in plan.waiting}


FULL = running("old", "n1", 1)
LEAVES = ending(running("gone", "n1", 1), 20)


# Pods that end.


def test_a_pod_waits_for_a_slot_that_is_free_before_a_node_could_be_there() -> None:
    found = plan(FULL, LEAVES, WAITING)

    assert bought(found) == {}
    assert waits(found) == {"default/db-0": ("n1", 30.0)}
    (wait,) = found.waiting
    assert (wait.freed_by, wait.new_node) == (("pod default/gone-0",), 90.0)


def test_where_a_node_is_there_sooner_it_is_bought() -> None:
    found = plan(FULL, LEAVES, WAITING, memory=memory(start=50))

    assert bought(found) == {"g": 1}
    assert isinstance(found.waits, msgspec.UnsetType)


@pytest.mark.parametrize(
    ("mode", "start", "nodes"),
    [
        ("never", 900.0, 1),
        ("careful", 61.0, 0),
        ("careful", 59.0, 1),
        ("eager", 31.0, 0),
        ("eager", 29.0, 1),
    ],
)
def test_how_much_sooner_the_room_has_to_be_free_is_a_setting(
    mode: str, start: float, nodes: int
) -> None:
    found = plan(FULL, LEAVES, WAITING, memory=memory(start=start), waitForFreedRoom=mode)

    assert sum(bought(found).values()) == nodes


def test_only_as_many_wait_as_there_will_be_room_for() -> None:
    found = plan(FULL, LEAVES, stateful("db", 5))

    assert bought(found) == {"g": 2}
    assert len(found.waiting) == 1


def test_where_it_saves_no_node_nobody_waits() -> None:
    found = plan(FULL, LEAVES, stateful("db", 2))

    assert bought(found) == {"g": 1}
    assert not found.waiting


def test_cpu_is_waited_for_without_any_volume() -> None:
    held = ending([make.pod("old", on="n1", cpu="3")], 30)

    found = plan(held, make.pod("web", cpu="2"))

    assert waits(found) == {"default/web": ("n1", 30.0)}


def test_a_pod_that_fits_now_does_not_wait() -> None:
    held = ending([make.pod("old", on="n1", cpu="3")], 30)

    found = plan(held, make.pod("small", cpu="1"), make.pod("web", cpu="3"))

    assert {one.pod for one in found.fit_on_existing} == {"default/small"}
    assert set(waits(found)) == {"default/web"}


def test_a_pod_that_is_as_old_as_a_node_takes_waits_no_longer() -> None:
    old = make.pod("web", cpu="2")
    old = msgspec.structs.replace(
        old, metadata=msgspec.structs.replace(old.metadata, creation_timestamp=ago(70))
    )

    found = plan(ending([make.pod("old", on="n1", cpu="3")], 30), old)

    assert bought(found) == {"g": 1}


# Who comes back, and what is stuck.


@pytest.mark.parametrize(
    ("owner", "mode", "nodes"),
    [
        ("", "careful", 0),
        ("ReplicaSet", "careful", 0),
        ("Job", "careful", 0),
        ("DaemonSet", "eager", 1),
        ("StatefulSet", "eager", 1),
        ("Database", "careful", 1),
        ("Database", "eager", 0),
    ],
)
def test_room_that_a_successor_takes_does_not_count(owner: str, mode: str, nodes: int) -> None:
    leaves = ending(running("own", "n1", 1), 20, owner=owner)

    found = plan(FULL, leaves, WAITING, waitForFreedRoom=mode)

    assert sum(bought(found).values()) == nodes


@pytest.mark.parametrize(("replicas", "nodes"), [(0, 0), (1, 1)])
def test_a_pod_of_a_set_counts_once_the_set_has_shrunk(replicas: int, nodes: int) -> None:
    own = StatefulSet(
        metadata=msgspec.structs.replace(make.pod("own").metadata, uid="1"),
        spec=StatefulSetSpec(replicas=replicas),
    )

    found = plan(FULL, own, ending(running("own", "n1", 1), 20, owner="StatefulSet"), WAITING)

    assert sum(bought(found).values()) == nodes


def test_nobody_waits_for_a_pod_that_should_be_gone_for_long() -> None:
    found = plan(FULL, ending(running("gone", "n1", 1), -60), WAITING)

    assert bought(found) == {"g": 1}


def test_a_volume_that_another_pod_uses_stays() -> None:
    leaves = ending(running("gone", "n1", 1), 20)
    other = make.pod("other", on="n1", pvcs=["data-gone-0"])

    found = plan(FULL, leaves, other, WAITING)

    assert bought(found) == {"g": 1}


# Volumes that detach.


def detaching(since: float) -> list[KubeObject]:
    """A volume whose pod is gone, on its way off the node for so many seconds."""
    return [
        msgspec.structs.replace(
            one,
            metadata=msgspec.structs.replace(one.metadata, deletion_timestamp=ago(since)),
        )
        if isinstance(one, VolumeAttachment)
        else one
        for one in running("gone", "n1", 1)
        if not isinstance(one, Pod)
    ]


def test_a_volume_that_is_being_detached_is_waited_for() -> None:
    found = plan(FULL, detaching(4), WAITING)

    assert waits(found) == {"default/db-0": ("n1", 6.0)}
    assert found.waiting[0].freed_by == ("volume pv-gone-0",)


def test_a_volume_that_does_not_come_off_is_not_waited_for() -> None:
    assert bought(plan(FULL, detaching(60), WAITING)) == {"g": 1}


def test_an_idle_volume_that_nobody_detaches_stays() -> None:
    idle = [one for one in running("gone", "n1", 1) if not isinstance(one, Pod)]

    assert bought(plan(FULL, idle, WAITING)) == {"g": 1}


# Beside other rules.


def test_upstream_waits_for_nobody() -> None:
    assert bought(plan(FULL, LEAVES, WAITING, compatibility=UPSTREAM)) == {"g": 1}


def test_slots_that_are_kept_ready_wait_too() -> None:
    found = plan(FULL, LEAVES, headroom={"driver": EBS, "slots": 1}, judged=False)

    assert bought(found) == {}
    (room,) = found.kept_rooms
    assert (room.kept, room.bought, room.missing, room.waiting) == (0, 0, 0, 1)
    assert [one.node for one in found.waiting] == ["n1"]


def test_kept_slots_are_bought_where_nothing_leaves() -> None:
    held = [*FULL, *running("stays", "n1", 1)]

    found = plan(held, headroom={"driver": EBS, "slots": 1}, judged=False)

    assert bought(found) == {"g": 1}


# Times that were seen.


def test_the_careful_expect_the_slowest_detach_and_the_fastest_start() -> None:
    times = ObservedTimes(detach={EBS: (5.0, 30.0, 10.0)}, start={"g": (60.0, 90.0, 120.0)})

    assert times.detach_time(EBS, careful=True) == 30.0
    assert times.detach_time(EBS, careful=False) == 10.0
    assert times.start_time("g", careful=True) == 60.0
    assert times.start_time("g", careful=False) == 90.0


def test_only_the_latest_times_are_kept() -> None:
    times = ObservedTimes()
    for number in range(3 * KEPT):
        times = times.with_detach(EBS, number).with_start("g", number)

    assert times.detach[EBS] == times.start["g"] == tuple(range(2 * KEPT, 3 * KEPT))
