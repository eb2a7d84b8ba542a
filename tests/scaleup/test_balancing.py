"""Which groups stand in for each other, and how nodes are shared out between them."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.groups.model import CATALOGUE, PROVIDER, UNKNOWN, Limit, Template
from tonnage.objects.meta import ResourceList
from tonnage.scaleup.balancing import IGNORED_LABELS, distribute, similar_groups
from tonnage.testing import builders

EBS = "ebs.csi.aws.com"


def similar(one: Template, other: Template, **settings: Any) -> bool:
    return bool(similar_groups((one, other), **settings)[0])


def template(
    *,
    labels: Mapping[str, str] | None = None,
    capacity: ResourceList | None = None,
    allocatable: ResourceList | None = None,
    daemons: ResourceList | None = None,
    drivers: Mapping[str, int | None] | None = None,
    limits: tuple[Limit, ...] = (),
) -> Template:
    """4 cores and 16Gi, of which 3900m and 15Gi are allocatable and daemons take 100m."""
    node = builders.node("template", labels=labels)
    sizes: ResourceList = {"cpu": 4, "memory": "16Gi", "pods": 110, **(capacity or {})}
    offered: ResourceList = {"cpu": "3900m", "memory": "15Gi", "pods": 110, **(allocatable or {})}
    status = msgspec.structs.replace(node.status, capacity=sizes, allocatable=offered)
    return Template(
        group="g",
        node=msgspec.structs.replace(node, status=status),
        csinode=builders.csinode("template", drivers) if drivers is not None else None,
        daemon_pods=(builders.pod("daemon", requests=daemons or {"cpu": "100m"}),),
        limits=limits,
    )


def limit(count: int | None, source: str = PROVIDER) -> tuple[Limit, ...]:
    return (Limit(driver=EBS, count=count, source=source),)


ALIKE = [
    ("nothing differs", {}, {}),
    ("the same amounts in other words", {"capacity": {"cpu": "4000m"}}, {"capacity": {"cpu": 4.0}}),
    ("memory a little less", {}, {"capacity": {"memory": 2**34 - 2**27}}),
    ("allocatable 5 % less", {}, {"allocatable": {"cpu": "3705m"}, "daemons": {"cpu": 0}}),
    ("what daemons leave a little less", {}, {"daemons": {"cpu": "290m"}}),
    ("a zone", {"labels": {"topology.kubernetes.io/zone": "a"}}, {}),
    (
        "the number of slots, said by another source",
        {"limits": limit(25)},
        {"limits": limit(25, CATALOGUE)},
    ),
    (
        "the number of slots, known only from the driver",
        {"limits": limit(25)},
        {"drivers": {EBS: 25}},
    ),
    (
        "an override of what the driver says",
        {"limits": limit(20), "drivers": {EBS: 25}},
        {"limits": limit(20), "drivers": {EBS: 26}},
    ),
]

UNLIKE = [
    ("another number of cores", {}, {"capacity": {"cpu": "4001m"}}),
    ("another number of pods", {}, {"capacity": {"pods": 58}}),
    ("a device more", {}, {"capacity": {"nvidia.com/gpu": 1}}),
    ("a device that is not there, said", {}, {"capacity": {"nvidia.com/gpu": 0}}),
    ("memory much less", {}, {"capacity": {"memory": 2**34 - 2**28}}),
    ("no memory", {"capacity": {"memory": 0}}, {}),
    ("allocatable over 5 % less", {}, {"allocatable": {"cpu": "3704m"}, "daemons": {"cpu": 0}}),
    ("something else allocatable", {}, {"allocatable": {"hugepages-2Mi": 0}}),
    ("what daemons leave over 5 % less", {}, {"daemons": {"cpu": "291m"}}),
    ("daemons that take a device", {}, {"daemons": {"cpu": "100m", "example.com/fpga": 0}}),
    ("another label", {"labels": {"disk": "ssd"}}, {"labels": {"disk": "hdd"}}),
    ("a label more", {"labels": {"disk": ""}}, {}),
]

OTHER_SLOTS = [
    ("another number of slots", {"limits": limit(25)}, {"limits": limit(26)}),
    ("no limit instead of one", {"limits": limit(25)}, {"limits": limit(None)}),
    ("not known instead of no limit", {"limits": limit(None, UNKNOWN)}, {"limits": limit(None)}),
    ("no driver", {"limits": limit(25)}, {}),
    ("another number of slots, of the driver", {"drivers": {EBS: 25}}, {"drivers": {EBS: 24}}),
]


@pytest.mark.parametrize(("one", "other"), [r[1:] for r in ALIKE], ids=[r[0] for r in ALIKE])
def test_still_similar(one, other) -> None:
    assert similar(template(**one), template(**other))


@pytest.mark.parametrize(
    ("one", "other"),
    [r[1:] for r in UNLIKE + OTHER_SLOTS],
    ids=[r[0] for r in UNLIKE + OTHER_SLOTS],
)
def test_no_longer_similar(one, other) -> None:
    assert not similar(template(**one), template(**other))


@pytest.mark.parametrize(
    ("one", "other"), [r[1:] for r in OTHER_SLOTS], ids=[r[0] for r in OTHER_SLOTS]
)
def test_upstream_does_not_look_at_slots(one, other) -> None:
    assert similar(template(**one), template(**other), compare_csi=False)


@pytest.mark.parametrize("label", sorted(IGNORED_LABELS))
def test_a_label_that_tells_nodes_of_one_kind_apart_is_ignored(label: str) -> None:
    assert similar(template(labels={label: "a"}), template(labels={label: "b"}))


def test_more_labels_can_be_ignored() -> None:
    one, other = template(labels={"rack": "1"}), template(labels={"rack": "2"})
    assert similar(one, other, ignore_labels=["rack"])


def test_parts_of_one_azure_pool_are_similar_whatever_they_look_like() -> None:
    one = template(labels={"agentpool": "p"}, capacity={"cpu": 4})
    other = template(labels={"agentpool": "p"}, capacity={"cpu": 8})
    assert similar(one, other)


def test_parts_of_one_azure_pool_with_other_slots_are_not() -> None:
    labels = {"kubernetes.azure.com/agentpool": "p"}
    assert not similar(
        template(labels=labels, limits=limit(8)), template(labels=labels, limits=limit(16))
    )


def test_an_azure_pool_without_a_name_is_none() -> None:
    one = template(labels={"agentpool": ""}, capacity={"cpu": 4})
    other = template(labels={"agentpool": ""}, capacity={"cpu": 8})
    assert not similar(one, other)


def test_the_labels_to_compare_can_be_all_that_is_compared() -> None:
    one = template(labels={"kind": "db"}, capacity={"cpu": 4}, limits=limit(1))
    other = template(labels={"kind": "db", "x": "y"}, capacity={"cpu": 8})
    assert similar(one, other, only_labels=["kind"])


ONLY = [
    ("they differ", {"kind": "db"}, {"kind": "web"}),
    ("one lacks one", {"kind": "db"}, {}),
    ("both lack one", {}, {}),
]


@pytest.mark.parametrize(("one", "other"), [r[1:] for r in ONLY], ids=[r[0] for r in ONLY])
def test_with_labels_to_compare_groups_are_not_similar_when(one, other) -> None:
    ours, theirs = template(labels=one), template(labels=other)
    assert not similar(ours, theirs, only_labels=["kind"])


def test_ratios_can_be_set() -> None:
    one, other = template(), template(capacity={"memory": "15Gi"})
    assert similar(one, other, memory_ratio=0.1)


def test_each_group_has_its_own_similar_ones_since_near_to_near_may_be_far() -> None:
    sizes = [1000, 990, 980]
    chain = [template(capacity={"memory": size}, allocatable={"memory": 900}) for size in sizes]
    assert similar_groups(chain) == [(1,), (0, 2), (1,)]


def test_no_groups_have_no_similar_ones() -> None:
    assert similar_groups([]) == []


SHARED = [
    ("alone it takes all", [("a", 1, 10)], 3, {"a": 3}),
    ("equals share", [("a", 1, 10), ("b", 1, 10)], 4, {"a": 2, "b": 2}),
    ("the first named takes the odd one", [("a", 1, 10), ("b", 1, 10)], 3, {"a": 2, "b": 1}),
    ("the smaller catches up first", [("a", 3, 10), ("b", 1, 10)], 2, {"b": 2}),
    ("then they share", [("a", 3, 10), ("b", 1, 10)], 5, {"a": 1, "b": 4}),
    ("one that is full gets none", [("a", 5, 5), ("b", 9, 20)], 2, {"b": 2}),
    ("one beyond its maximum gets none", [("a", 7, 5), ("b", 9, 20)], 2, {"b": 2}),
    ("one that fills up leaves the rest", [("a", 1, 2), ("b", 1, 20)], 6, {"a": 1, "b": 5}),
    ("no more than there is room for", [("a", 1, 2), ("b", 1, 3)], 9, {"a": 1, "b": 2}),
    ("no room, no nodes", [("a", 2, 2)], 1, {}),
    ("no nodes to share", [("a", 1, 2)], 0, {}),
    ("no groups", [], 5, {}),
    (
        "three levels are filled from below",
        [("a", 5, 99), ("b", 0, 99), ("c", 3, 99)],
        6,
        {"b": 5, "c": 1},
    ),
]


@pytest.mark.parametrize(
    ("groups", "nodes", "expected"), [r[1:] for r in SHARED], ids=[r[0] for r in SHARED]
)
def test_nodes_are_shared_out(groups, nodes: int, expected: dict[str, int]) -> None:
    assert distribute(groups, nodes) == expected


sizes = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 15)), max_size=7).map(
    lambda pairs: [(f"g{index}", size, most) for index, (size, most) in enumerate(pairs)]
)


def one_by_one(groups: list[tuple[str, int, int]], nodes: int) -> dict[str, int]:
    """Gives each node to the smallest that has room; equals stay in the order they began in."""
    order = sorted(groups, key=lambda group: group[1])
    size = {name: current for name, current, _ in order}
    for _ in range(nodes):
        room = [name for name, _, most in order if size[name] < most]
        if room:
            size[min(room, key=lambda name: size[name])] += 1
    return {name: size[name] - current for name, current, _ in groups if size[name] > current}


@given(sizes, st.integers(0, 60))
def test_sharing_out_is_giving_one_by_one_to_the_smallest(
    groups: list[tuple[str, int, int]], nodes: int
) -> None:
    assert distribute(groups, nodes) == one_by_one(groups, nodes)


many = st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)), max_size=50).map(
    lambda pairs: [(f"g{index}", size, most) for index, (size, most) in enumerate(pairs)]
)


@given(many, st.integers(0, 10**8))
def test_all_nodes_are_given_as_far_as_there_is_room(
    groups: list[tuple[str, int, int]], nodes: int
) -> None:
    room = sum(max(0, most - size) for _, size, most in groups)
    assert sum(distribute(groups, nodes).values()) == min(nodes, room)


@given(many, st.integers(0, 10**8))
def test_no_group_grows_beyond_its_maximum(groups: list[tuple[str, int, int]], nodes: int) -> None:
    given_ = distribute(groups, nodes)
    assert all(size + given_[name] <= most for name, size, most in groups if name in given_)
