"""Pending pods in groups: what makes pods interchangeable, and what sets one apart."""

from collections.abc import Iterable

import pytest

from tests.scaleup.asking import CLASS, EBS, running, stateful
from tonnage.objects.kinds import KubeObject
from tonnage.objects.pods import Pod, PodAffinityTerm
from tonnage.scaleup import pod_groups
from tonnage.scaleup.pod_groups import PodGroup
from tonnage.snapshot.snapshot import Snapshot
from tonnage.testing import builders as make


def groups(*objects: KubeObject | Iterable[KubeObject]) -> list[PodGroup]:
    held: list[KubeObject] = [CLASS]
    for one in objects:
        if isinstance(one, Iterable):
            held.extend(one)
        else:
            held.append(one)
    snapshot = Snapshot.of(held)
    pending = sorted(snapshot.pending_pods(), key=lambda record: record.order)
    return pod_groups.group(snapshot, pending)


def sizes(*objects: KubeObject | Iterable[KubeObject]) -> list[int]:
    return [one.size for one in groups(*objects)]


def names(group: PodGroup) -> list[str]:
    return [pod.meta.name for pod in group.members]


def test_replicas_with_an_unbound_claim_each_are_one_group() -> None:
    (found,) = groups(stateful("db", 3))

    assert names(found) == ["db-0", "db-1", "db-2"]
    assert not found.tracked


def test_twenty_sets_of_250_pods_with_two_unbound_claims_each_are_twenty_groups() -> None:
    sets = [
        one
        for number in range(20)
        for one in stateful(f"s{number}", 250, claims=2, labels={"app": f"s{number}"})
    ]

    assert sizes(sets) == [250] * 20


def test_one_member_takes_a_slot_for_each_claim() -> None:
    (found,) = groups(stateful("db", 3, claims=2))

    assert found.footprint.slots == {EBS: 2}


def test_sets_that_differ_in_nothing_are_one_group() -> None:
    assert sizes(stateful("a", 2), stateful("b", 2)) == [4]


def claims_of(*names: str, **fields: object) -> list[KubeObject]:
    made = {"storage_class": "fast", **fields}
    return [make.pvc(name, **made) for name in names]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("size", "5Gi"),
        ("storage_class", "slow"),
        ("access_modes", ("ReadWriteMany",)),
        ("volume_mode", "Block"),
        ("selected_node", "n1"),
        ("attributes_class", "gold"),
        ("selector", make.selecting({"kind": "fast"})),
    ],
)
def test_a_difference_between_unbound_claims_makes_two_groups(field: str, value: object) -> None:
    found = sizes(
        make.storage_class("slow", "slow.csi.example"),
        claims_of("one", "two"),
        claims_of("other", **{field: value}),
        [make.pod(f"pod-{name}", pvcs=[name]) for name in ("one", "two", "other")],
    )

    assert found == [2, 1]


def bound(name: str, *, zone: str = "") -> list[KubeObject]:
    """A claim bound to a volume, which a zone may hold."""
    claim = make.pvc(name, storage_class="fast", volume=f"pv-{name}")
    reach = make.nodes_with(make.ZONE, zone) if zone else None
    return [
        claim,
        make.pv(f"pv-{name}", driver=EBS, storage_class="fast", claim=claim, node_affinity=reach),
    ]


def test_bound_claims_of_the_same_reach_are_one_group() -> None:
    found = sizes(
        bound("one", zone="a"),
        bound("two", zone="a"),
        make.pod("db-0", pvcs=["one"]),
        make.pod("db-1", pvcs=["two"]),
    )

    assert found == [2]


def test_bound_claims_in_two_zones_split_a_set() -> None:
    found = groups(
        *(bound(f"data-{number}", zone="ab"[number % 2]) for number in range(4)),
        [make.pod(f"db-{number}", pvcs=[f"data-{number}"]) for number in range(4)],
    )

    assert [names(one) for one in found] == [["db-0", "db-2"], ["db-1", "db-3"]]


def test_bound_and_unbound_claims_split_a_set() -> None:
    found = sizes(
        bound("data-0"),
        claims_of("data-1"),
        [make.pod(f"db-{number}", pvcs=[f"data-{number}"]) for number in range(2)],
    )

    assert found == [1, 1]


def test_pods_that_share_a_claim_stand_apart() -> None:
    found = groups(
        claims_of("shared", access_modes=("ReadWriteMany",)),
        [make.pod(f"web-{number}", pvcs=["shared"]) for number in range(3)],
    )

    assert [(one.size, one.tracked) for one in found] == [(1, True)] * 3


def test_one_shared_claim_among_a_pods_own_sets_it_apart() -> None:
    found = groups(
        claims_of("own-0", "own-1", "own-2"),
        claims_of("shared"),
        make.pod("db-0", pvcs=["own-0", "shared"]),
        make.pod("db-1", pvcs=["own-1", "shared"]),
        make.pod("db-2", pvcs=["own-2"]),
    )

    assert [(names(one), one.tracked) for one in found] == [
        (["db-0"], True),
        (["db-1"], True),
        (["db-2"], False),
    ]


def test_a_claim_of_the_same_name_in_another_namespace_is_another() -> None:
    found = groups(
        claims_of("data"),
        claims_of("data", namespace="other"),
        make.pod("db", pvcs=["data"]),
        make.pod("db", namespace="other", pvcs=["data"]),
    )

    assert [one.tracked for one in found] == [False, False]


def test_a_claim_that_a_running_pod_uses_sets_its_pod_apart() -> None:
    found = groups(make.node("n1"), running("db", "n1"), make.pod("reader", pvcs=["data-db-0"]))

    assert [one.tracked for one in found] == [True]


def test_a_volume_that_is_attached_somewhere_sets_its_pod_apart() -> None:
    found = groups(
        make.node("n1"),
        bound("data"),
        make.attachment("pv-data", "n1", attacher=EBS),
        make.pod("db", pvcs=["data"]),
    )

    assert [one.tracked for one in found] == [True]


def test_a_volume_set_aside_for_a_claim_is_a_fact_of_that_claim() -> None:
    first, second = (make.pvc(name, storage_class="fast") for name in ("one", "two"))
    aside = make.pv("aside", driver=EBS, storage_class="fast", claim=first, phase="Available")
    found = sizes(first, second, aside, make.pod("a", pvcs=["one"]), make.pod("b", pvcs=["two"]))

    assert found == [1, 1]


@pytest.mark.parametrize(
    "pod",
    [
        make.pod("other", cpu="2"),
        make.pod("other", cpu="1", host_ports=[80]),
        make.pod("other", cpu="1", node_selector={"disk": "ssd"}),
        make.pod("other", cpu="1", namespace="other"),
        make.pod("other", cpu="1", priority=5),
    ],
    ids=["size", "port", "selector", "namespace", "priority"],
)
def test_pods_that_differ_in_a_scheduling_fact_are_two_groups(pod: Pod) -> None:
    assert sizes(make.pod("web", cpu="1"), pod) == [1, 1]


def test_the_name_of_a_pod_is_no_scheduling_fact() -> None:
    assert sizes([make.pod(f"web-{number}", cpu="1") for number in range(5)]) == [5]


def test_pods_with_terms_about_others_interact() -> None:
    term = PodAffinityTerm(topology_key=make.HOSTNAME, label_selector=make.selecting({"a": "b"}))
    plain, minding = groups(make.pod("a"), make.pod("b", apart=[term]))

    assert (plain.interacting, minding.interacting) == (False, True)


def test_a_group_without_its_first_members_goes_on_with_the_next() -> None:
    (found,) = groups([make.pod(f"web-{number}") for number in range(5)])

    assert names(found.without(2)) == ["web-2", "web-3", "web-4"]
