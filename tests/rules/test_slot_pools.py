"""SlotPools: drivers that share slots of a node, as the plan and an extender ask about them."""

from collections.abc import Mapping, Sequence

from tonnage.objects.kinds import KubeObject
from tonnage.rules import features, pipeline, slot_pools
from tonnage.rules.causes import Cause
from tonnage.rules.framework import Ask
from tonnage.snapshot.slot_pools import Pool, set_pools
from tonnage.snapshot.snapshot import Snapshot
from tonnage.testing import builders as make

DISK, FILE = "disk.example.com", "file.example.com"
FEATURES = features.of_version(returning_volume_once=True)
BASE: tuple[KubeObject, ...] = (
    make.storage_class("disk", DISK),
    make.storage_class("file", FILE),
    make.node("a"),
    make.node("b"),
    make.csinode("a", {DISK: 10, FILE: 10}),
    make.csinode("b", {DISK: 10, FILE: 10}),
)


def waiting(**claims: int) -> list[KubeObject]:
    """A pod that waits with so many claims of each class."""
    made = [
        make.pvc(f"{name}-{number}", storage_class=name)
        for name, count in claims.items()
        for number in range(count)
    ]
    return [*made, make.pod("waits", pvcs=[claim.metadata.name for claim in made])]


def running(node: str, storage_class: str, driver: str, count: int) -> list[KubeObject]:
    made: list[KubeObject] = []
    for number in range(count):
        name = f"{storage_class}-{node}-{number}"
        claim = make.pvc(name, storage_class=storage_class, volume=f"pv-{name}")
        made += [claim, make.pv(f"pv-{name}", driver=driver, claim=claim)]
        made.append(make.pod(f"pod-{name}", on=node, pvcs=[name]))
    return made


def pooled(objects: Sequence[KubeObject], pools: Mapping[str, Pool]) -> Snapshot:
    snapshot = Snapshot.of((*BASE, *objects))
    set_pools(snapshot, {snapshot.nodes[name].row: [pool] for name, pool in pools.items()})
    return snapshot


def shared(free: int, **weights: int) -> Pool:
    members = {DISK: weights.get("disk", 1), FILE: weights.get("file", 1)}
    return Pool("shared", tuple(members.items()), free)


def fitting(snapshot: Snapshot) -> list[str]:
    (pod,) = snapshot.pending_pods()
    fits = pipeline.evaluate(snapshot, pod, FEATURES).fits
    return [name for name, record in snapshot.nodes.items() if fits[record.row]]


def test_volumes_of_all_members_count_against_the_pool() -> None:
    full = [*running("a", "disk", DISK, 2), *running("a", "file", FILE, 2)]
    pools = {"a": shared(5), "b": shared(5)}

    assert fitting(pooled([*full, *waiting(disk=1, file=1)], pools)) == ["b"]


def test_a_node_without_a_pool_goes_by_its_drivers_limits() -> None:
    assert fitting(pooled(waiting(disk=3, file=3), {"a": shared(5)})) == ["b"]


def test_a_member_may_take_several_slots() -> None:
    pools = {"a": shared(5, file=2), "b": shared(6, file=2)}

    assert fitting(pooled(waiting(disk=2, file=2), pools)) == ["b"]


def test_pods_without_volumes_of_members_do_not_mind() -> None:
    snapshot = pooled([make.pod("waits")], {"a": shared(0), "b": shared(0)})

    assert fitting(snapshot) == ["a", "b"]


def test_a_volume_that_is_there_already_takes_no_slot_again() -> None:
    claim = make.pvc("data", storage_class="disk", volume="pv")
    there: list[KubeObject] = [
        claim,
        make.pv("pv", driver=DISK, claim=claim),
        make.pod("one", on="a", pvcs=["data"]),
    ]

    snapshot = pooled([*there, make.pod("waits", pvcs=["data"])], {"a": shared(1), "b": shared(0)})

    assert fitting(snapshot) == ["a"]


def test_a_volume_that_is_still_attached_holds_its_slot() -> None:
    claim = make.pvc("gone", storage_class="disk", volume="pv")
    held: list[KubeObject] = [
        claim,
        make.pv("pv", driver=DISK, claim=claim),
        make.attachment("pv", "a", attacher=DISK),
    ]

    assert fitting(pooled([*held, *waiting(file=1)], {"a": shared(1), "b": shared(1)})) == ["b"]


def test_the_refusal_names_the_pool_with_its_numbers() -> None:
    snapshot = pooled([*running("a", "disk", DISK, 3), *waiting(file=2)], {"a": shared(4)})
    (pod,) = snapshot.pending_pods()

    (reason,) = pipeline.evaluate(snapshot, pod, FEATURES).on("a").reasons

    assert reason.cause is Cause.SLOT_POOL_EXHAUSTED
    assert reason.facts == {"pool": "shared", "used": 3, "wanted": 2, "limit": 4}
    assert str(reason) == "node(s) have too few slots left in pool shared"


def test_one_pod_is_screened_against_all_nodes_at_once() -> None:
    snapshot = pooled(waiting(disk=2), {"a": shared(1), "b": shared(2)})
    (pod,) = snapshot.pending_pods()

    results = slot_pools.results(Ask(snapshot, pod, FEATURES))

    refused = {name for name, one in snapshot.nodes.items() if results.codes[one.row]}
    assert refused == {"a"}


def test_pools_are_gone_with_the_trial_they_were_set_in() -> None:
    snapshot = Snapshot.of((*BASE, *waiting(disk=2)))
    columns = len(snapshot.table._columns)

    with snapshot.trial():
        set_pools(snapshot, {record.row: [shared(0)] for record in snapshot.nodes.values()})
        inside = fitting(snapshot)

    assert inside == []
    assert not snapshot.slot_pools.columns
    assert len(snapshot.table._columns) == columns
    assert fitting(snapshot) == ["a", "b"]
