"""Packing by arithmetic comes to what placing pod by pod with the plain filters comes to."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.scaleup.asking import CLASS, EBS, stateful
from tonnage.objects.kinds import KubeObject
from tonnage.objects.nodes import Node
from tonnage.objects.pods import Pod, PodAffinityTerm, TopologySpreadConstraint
from tonnage.objects.storage import CSINode
from tonnage.rules import features
from tonnage.scaleup import packed_counts, packing, pod_groups
from tonnage.scaleup.packed_counts import Demands
from tonnage.scaleup.packing import Packing
from tonnage.scaleup.pod_groups import PodGroup
from tonnage.snapshot import imagined
from tonnage.snapshot.slot_pools import Pool, set_pools
from tonnage.snapshot.snapshot import Snapshot
from tonnage.testing import builders as make
from tonnage.testing.reference import ReferenceCluster, verdict

GATES = features.of_version()


class Template(NamedTuple):
    """What a new node is like, but for its name."""

    cpu: int
    pods: int = 110
    slots: int | None = None
    zone: str = "a"

    def node(self, name: str) -> Node:
        return make.node(name, cpu=f"{self.cpu}m", pods=self.pods, zone=self.zone)

    def csinode(self, name: str) -> CSINode:
        return make.csinode(name, {EBS: self.slots})


class Packed(NamedTuple):
    """A packing and what it was made from."""

    packing: Packing
    groups: list[PodGroup]
    snapshot: Snapshot

    @property
    def nodes(self) -> dict[str, Counter[str]]:
        """The pods on each new node, by the set they are of."""
        found: dict[str, Counter[str]] = {}
        for placed in self.packing.placed:
            on_node = found.setdefault(self.snapshot.name_of(placed.row), Counter())
            on_node.update(_set_of(pod.meta.name) for pod in placed.pods)
        return found

    @property
    def order(self) -> list[tuple[str, str]]:
        """Pods and their nodes, as they were placed."""
        return [
            (pod.meta.name, self.snapshot.name_of(placed.row))
            for placed in self.packing.placed
            for pod in placed.pods
        ]


def pack(template: Template, objects: Sequence[KubeObject], *, limit: int = 100) -> Packed:
    snapshot = Snapshot.of([CLASS, *objects])
    row = imagined.add_template(
        snapshot, template.node("template"), template.csinode("template"), []
    )
    pending = sorted(snapshot.pending_pods(), key=lambda record: record.order)
    groups = pod_groups.group(snapshot, pending)
    made = packing.pack(snapshot, row, groups, GATES, limit=limit, prefix="new-")
    return Packed(made, groups, snapshot)


def repack(template: Template, objects: Sequence[KubeObject], *, nodes: int) -> Packed:
    """The same with so many nodes from the start, empty ones kept."""
    snapshot = Snapshot.of([CLASS, *objects])
    row = imagined.add_template(
        snapshot, template.node("template"), template.csinode("template"), []
    )
    pending = sorted(snapshot.pending_pods(), key=lambda record: record.order)
    groups = pod_groups.group(snapshot, pending)
    with snapshot.trial():
        first = packing.pack(snapshot, row, groups, GATES, limit=nodes, prefix="new-")
    made = packing.repack(first, groups, GATES, nodes=nodes, keep_empty=True)
    return Packed(made, groups, snapshot)


def one_by_one(
    template: Template, objects: Sequence[KubeObject], *, limit: int, start: int = 0
) -> dict[str, Counter[str]]:
    """First fit, pod by pod, asking the plain filters; a node is added when none takes the pod."""
    cluster = ReferenceCluster([CLASS, *objects])
    new: list[str] = []

    def add() -> str:
        name = f"new-{len(new) + 1}"
        cluster.add_node(template.node(name), template.csinode(name))
        new.append(name)
        return name

    def takes(pod: Pod, node: str) -> bool:
        return verdict(cluster, pod, node).code == "Success"

    for _ in range(start):
        add()
    found: dict[str, Counter[str]] = {}
    for pod in (one for one in objects if isinstance(one, Pod) and not one.spec.node_name):
        place = next((node for node in new if takes(pod, node)), None)
        if place is None and len(new) < limit:
            place = add()
            if not takes(pod, place):
                del cluster.nodes[new.pop()]
                place = None
        if place is not None:
            cluster.place(pod, place, assume_volumes=False)
            found.setdefault(place, Counter())[_set_of(pod.metadata.name)] += 1
    return found


def _set_of(pod: str) -> str:
    return pod.rpartition("-")[0]


# Pods that count only what they take.

shapes = st.fixed_dictionaries(
    {
        "replicas": st.integers(1, 7),
        "claims": st.integers(0, 2),
        "cpu": st.sampled_from(["0", "100m", "250m", "500m", "900m"]),
        "host_ports": st.sampled_from([(), (), (), (8080,)]),
    }
)
templates = st.builds(
    Template,
    cpu=st.sampled_from([500, 1000, 2100]),
    pods=st.sampled_from([2, 5, 110]),
    slots=st.sampled_from([None, 0, 1, 2, 5]),
)


def sets(shapes: list[dict[str, Any]]) -> list[KubeObject]:
    return [
        one
        for number, shape in enumerate(shapes)
        for one in stateful(f"s{number}", **{"labels": {"set": f"s{number}"}, **shape})
    ]


@settings(deadline=None, max_examples=60)
@given(st.lists(shapes, min_size=1, max_size=4), templates, st.integers(0, 8))
def test_many_at_once_are_placed_as_one_by_one(
    wanted: list[dict[str, Any]], template: Template, limit: int
) -> None:
    objects = sets(wanted)

    assert pack(template, objects, limit=limit).nodes == one_by_one(template, objects, limit=limit)


@settings(deadline=None, max_examples=60)
@given(
    st.lists(shapes, min_size=1, max_size=4),
    templates,
    st.integers(0, 8),
    st.sampled_from([None, 0, 2, 3]),
)
def test_counting_comes_to_what_placing_comes_to(
    wanted: list[dict[str, Any]], template: Template, limit: int, pool: int | None
) -> None:
    snapshot = Snapshot.of([CLASS, *sets(wanted)])
    row = imagined.add_template(snapshot, template.node("t"), template.csinode("t"), [])
    groups = pod_groups.group(snapshot, snapshot.pending_pods())
    with snapshot.trial():
        if pool is not None:
            set_pools(snapshot, {row.row: [Pool("shared", ((EBS, 1),), pool)]})
        demands = Demands(snapshot, np.array([row.row]), GATES)
        with snapshot.trial():
            placed = packing.pack(snapshot, row, groups, GATES, limit=limit, prefix="new-")
        found = demands.of(groups)
        assert (found is None) == any(shape["host_ports"] for shape in wanted)
        if found is None:
            return
        counted = packed_counts.pack(
            groups,
            found,
            demands.left(0),
            limit=limit,
            fresh={id(group.footprint): placed.fresh_room(group) for group in groups},
            stop=lambda: False,
        )

    assert counted.pods == placed.pods
    assert counted.node_count == placed.node_count
    assert counted.requested("cpu") == placed.requested("cpu")


# Pods that mind each other, on nodes that are all there.


def spread(key: str, skew: int, least: int | None = None) -> dict[str, object]:
    constraint = TopologySpreadConstraint(
        topology_key=key,
        max_skew=skew,
        min_domains=least,
        label_selector=make.selecting({"app": "web"}),
    )
    return {"spread": [constraint]}


def term(key: str) -> PodAffinityTerm:
    return PodAffinityTerm(topology_key=key, label_selector=make.selecting({"app": "web"}))


RULES: dict[str, dict[str, object]] = {
    "spread over hosts": spread(make.HOSTNAME, 1),
    "spread over hosts, loosely": spread(make.HOSTNAME, 2),
    "spread over three hosts at least": spread(make.HOSTNAME, 1, 3),
    "spread over zones": spread(make.ZONE, 2),
    "spread over three zones at least": spread(make.ZONE, 1, 3),
    "apart on hosts": {"apart": [term(make.HOSTNAME)]},
    "apart in zones": {"apart": [term(make.ZONE)]},
    "together in a zone": {"near": [term(make.ZONE)]},
    "together on a host": {"near": [term(make.HOSTNAME)]},
}


def minding(rule: str, count: int) -> list[KubeObject]:
    rules = {"labels": {"app": "web"}, "cpu": "300m", **RULES[rule]}
    return [make.pod(f"web-{number}", **rules) for number in range(count)]  # type: ignore[arg-type]


def standing(counts: Sequence[tuple[str, int]]) -> list[KubeObject]:
    """Nodes without room, each with so many of the pods the rules speak of."""
    made: list[KubeObject] = []
    for number, (zone, count) in enumerate(counts):
        made.append(make.node(f"n{number}", zone=zone, pods=count))
        made += [
            make.pod(f"old{number}-{one}", on=f"n{number}", labels={"app": "web"})
            for one in range(count)
        ]
    return made


clusters = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 3)), max_size=4)


@settings(deadline=None, max_examples=120)
@given(
    st.sampled_from(sorted(RULES)),
    st.integers(1, 12),
    st.lists(shapes, max_size=2),
    clusters,
    templates,
    st.integers(1, 5),
)
def test_pods_that_mind_each_other_are_no_fewer_than_one_by_one_and_all_fit(
    rule: str,
    count: int,
    others: list[dict[str, Any]],
    there: list[tuple[str, int]],
    template: Template,
    nodes: int,
) -> None:
    objects = [*standing(there), *sets(others), *minding(rule, count)]
    packed = repack(template, objects, nodes=nodes)
    plain = one_by_one(template, objects, limit=nodes, start=nodes)

    assert sum(one["web"] for one in packed.nodes.values()) >= sum(
        one["web"] for one in plain.values()
    )
    assert refusals(template, objects, packed.order, nodes=nodes) == []


def refusals(
    template: Template,
    objects: Sequence[KubeObject],
    order: Sequence[tuple[str, str]],
    *,
    nodes: int,
) -> list[tuple[str, str]]:
    """Placements that the plain filters refuse at their moment."""
    cluster = ReferenceCluster([CLASS, *objects])
    for number in range(1, nodes + 1):
        cluster.add_node(template.node(f"new-{number}"), template.csinode(f"new-{number}"))
    waiting = {pod.metadata.name: pod for pod in cluster.pending()}
    refused = []
    for name, node in order:
        if verdict(cluster, waiting[name], node).code != "Success":
            refused.append((name, node))
        cluster.place(waiting[name], node, assume_volumes=False)
    return refused


# Cases by hand.


def heights(packed: Packed, app: str = "web") -> list[int]:
    return [on_node[app] for _, on_node in sorted(packed.nodes.items())]


def test_rows_are_filled_from_the_front() -> None:
    packed = pack(Template(cpu=1000), stateful("db", 5, claims=0, cpu="400m"))

    assert heights(packed, "db") == [2, 2, 1]


def test_slots_are_filled_as_cpu_is() -> None:
    packed = pack(Template(cpu=4000, slots=4), stateful("db", 5, claims=2))

    assert heights(packed, "db") == [2, 2, 1]


def test_a_second_group_uses_the_room_the_first_left() -> None:
    large = stateful("large", 2, claims=0, cpu="600m")
    small = stateful("small", 4, claims=0, cpu="200m")

    assert pack(Template(cpu=1000), [*large, *small]).nodes == {
        "new-1": {"large": 1, "small": 2},
        "new-2": {"large": 1, "small": 2},
    }


def test_no_more_nodes_are_added_than_allowed() -> None:
    packed = pack(Template(cpu=1000), stateful("db", 9, claims=0, cpu="600m"), limit=3)

    assert heights(packed, "db") == [1, 1, 1]
    assert packed.packing.remaining(packed.groups[0]) == 6


def test_what_fits_no_empty_node_adds_none() -> None:
    packed = pack(Template(cpu=1000), stateful("db", 2, claims=0, cpu="1200m"))

    assert packed.nodes == {}
    assert packed.packing.names == []


def test_spread_over_hosts_fills_evenly() -> None:
    packed = repack(Template(cpu=4000), minding("spread over hosts", 7), nodes=3)

    assert heights(packed) == [3, 2, 2]


def test_a_full_host_holds_the_others_down() -> None:
    full = standing([("a", 1)])
    packed = repack(Template(cpu=4000), [*full, *minding("spread over hosts", 9)], nodes=2)

    assert heights(packed) == [2, 2]


def test_pods_that_keep_apart_take_a_node_each() -> None:
    assert heights(pack(Template(cpu=4000), minding("apart on hosts", 3))) == [1, 1, 1]


def test_pods_that_keep_apart_in_a_zone_are_one_in_it() -> None:
    assert heights(pack(Template(cpu=4000), minding("apart in zones", 3))) == [1]


def test_pods_that_keep_together_go_on_one_node() -> None:
    assert heights(pack(Template(cpu=1000), minding("together on a host", 5))) == [3]


def test_spread_over_hosts_depends_on_how_many_nodes_there_are() -> None:
    assert pack(Template(cpu=4000), minding("spread over hosts", 2)).packing.depends_on_node_count
    assert not pack(
        Template(cpu=4000), minding("spread over zones", 2)
    ).packing.depends_on_node_count


def test_nodes_that_stay_empty_are_not_kept() -> None:
    snapshot = Snapshot.of(minding("spread over hosts", 2))
    row = imagined.add_template(snapshot, make.node("template", cpu="4"), None, [])
    groups = pod_groups.group(snapshot, snapshot.pending_pods())
    with snapshot.trial():
        first = packing.pack(snapshot, row, groups, GATES, limit=9, prefix="new-")
    again = packing.repack(first, groups, GATES, nodes=5)

    assert len(again.names) == 2
    assert sorted(snapshot.nodes) == ["new-1", "new-2"]


def test_a_reverted_packing_leaves_no_trace() -> None:
    snapshot = Snapshot.of([CLASS, make.node("n1"), *stateful("db", 3)])
    template = Template(cpu=1000, slots=2)
    row = imagined.add_template(snapshot, template.node("t"), template.csinode("t"), [])
    groups = pod_groups.group(snapshot, list(snapshot.pending_pods()))
    before = (snapshot.table.size, sorted(snapshot.nodes), snapshot.columns.used[0].data.copy())
    with snapshot.trial():
        packing.pack(snapshot, row, groups, GATES, limit=9, prefix="new-")

    assert (snapshot.table.size, sorted(snapshot.nodes)) == before[:2]
    assert np.array_equal(snapshot.columns.used[0].data, before[2])


@pytest.mark.parametrize(
    ("room", "wanted", "taken"),
    [
        ([3, 2, 5], 0, [0, 0, 0]),
        ([3, 2, 5], 4, [3, 1, 0]),
        ([3, 2, 5], 10, [3, 2, 5]),
        ([3, 2, 5], 99, [3, 2, 5]),
        ([], 3, []),
    ],
)
def test_first_fit_takes_from_the_front(room: list[int], wanted: int, taken: list[int]) -> None:
    assert packing.first_fit(np.array(room, dtype=np.int64), wanted).tolist() == taken
