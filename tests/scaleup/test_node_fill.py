"""What the new nodes of a plan are full of."""

from collections.abc import Iterable

from tests.scaleup.asking import assessed
from tests.scaleup.groups import DRIVER, group, owned_by
from tonnage.objects.kinds import KubeObject
from tonnage.scaleup.decision import Decision
from tonnage.scaleup.node_fill import Filling, fillings
from tonnage.scaleup.plan import GroupLimit, NewNode, Plan, ScaleUp
from tonnage.testing import builders as make

NOW = 1_800_000_000.0


def filled(objects: Iterable[KubeObject], *nodes: Iterable[str], slots: int = 5) -> list[Filling]:
    """What new nodes of group g with these pods are full of."""
    new = tuple(
        NewNode(name=f"g-new-{number}", pods=tuple(f"default/{pod}" for pod in pods))
        for number, pods in enumerate(nodes)
    )
    made = Plan(
        scale_ups=(ScaleUp(group="g", delta=len(new), nodes=new),),
        limits=(GroupLimit(group="g", driver=DRIVER, count=slots, source="provider"),),
    )
    found = assessed(objects)
    return fillings(Decision(made, found.templates, found.readiness, found.inputs))["g"]


def database(name: str, claim: str) -> list[KubeObject]:
    return [make.pod(name, cpu="1", pvcs=[claim]), make.pvc(claim, storage_class="disks")]


STORAGE: list[KubeObject] = [
    make.storage_class("disks", DRIVER),
    group("g", cpu="4", slots={DRIVER: 5}),
]


def test_the_fullest_resource_is_first() -> None:
    objects: list[KubeObject] = [group("g", cpu="4"), make.pod("web", cpu="3", memory="1Gi")]
    assert filled(objects, ["web"])[0] == Filling("cpu", 3000, 4000)


def test_attach_slots_count_like_any_resource() -> None:
    objects: list[KubeObject] = [*STORAGE, *database("db-0", "a"), *database("db-1", "b")]
    assert filled(objects, ["db-0", "db-1"], slots=2)[0] == Filling(DRIVER, 2, 2)


def test_a_volume_shared_on_one_node_takes_one_slot() -> None:
    objects: list[KubeObject] = [*STORAGE, *database("db-0", "a"), make.pod("db-1", pvcs=["a"])]
    assert Filling(DRIVER, 1, 5) in filled(objects, ["db-0", "db-1"])


def test_a_volume_shared_over_nodes_takes_a_slot_on_each() -> None:
    objects: list[KubeObject] = [*STORAGE, *database("db-0", "a"), make.pod("db-1", pvcs=["a"])]
    assert Filling(DRIVER, 2, 10) in filled(objects, ["db-0"], ["db-1"])


def test_pods_that_come_with_the_node_count_too() -> None:
    agent = make.pod("agent", on="n1", cpu="1", owner=owned_by("DaemonSet"))
    objects: list[KubeObject] = [
        make.node("n1", cpu="4"),
        agent,
        group("g", nodes=["n1"]),
        make.pod("web", cpu="2"),
    ]
    assert Filling("cpu", 3000, 4000) in filled(objects, ["web"])


def test_a_resource_without_a_limit_is_not_mentioned() -> None:
    objects: list[KubeObject] = [
        group("g"),
        make.pod("db", pvcs=["a"]),
        make.pvc("a", storage_class="others"),
    ]
    others = make.storage_class("others", "unlimited.example.com")
    found = filled([*objects, others], ["db"])
    assert "unlimited.example.com" not in {one.resource for one in found}
