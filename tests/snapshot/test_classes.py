"""Classes of pods: which pods are one class, and that its members are interchangeable."""

import msgspec
import pytest
from hypothesis import given

from tests.snapshot.dumping import differences, dump, told, told_waiting
from tests.snapshot.histories import cluster_of, lean, seeds
from tonnage.objects.pods import (
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PodAffinityTerm,
    TopologySpreadConstraint,
)
from tonnage.snapshot.classes import IDENTITY_LABELS
from tonnage.snapshot.snapshot import PodRecord, Snapshot
from tonnage.testing.builders import HOSTNAME, container, node, pod, selecting

INDEX = "apps.kubernetes.io/pod-index"


def are_one_class(one: Pod, other: Pod, *others: object) -> bool:
    snapshot = Snapshot.of([*others, one, other])
    return snapshot.record_of(one).pod_class is snapshot.record_of(other).pod_class


PLAIN = pod("web-0", labels={"app": "web"}, cpu="1", pvcs=["data-0"])


@pytest.mark.parametrize(
    ("other", "same"),
    [
        pytest.param(
            pod("web-1", labels={"app": "web"}, cpu="1", pvcs=["data-0"]), True, id="name"
        ),
        pytest.param(
            pod("web-0", labels={"app": "web"}, cpu="1", pvcs=["data-1"]),
            True,
            id="names of claims",
        ),
        pytest.param(
            pod("web-0", labels={"app": "web"}, cpu="1", pvcs=["data-0"], on="n1"), True, id="node"
        ),
        pytest.param(
            pod("web-0", labels={"app": "web", INDEX: "1"}, cpu="1", pvcs=["data-0"]),
            True,
            id="a replica's own label",
        ),
        pytest.param(
            pod("web-0", labels={"app": "db"}, cpu="1", pvcs=["data-0"]), False, id="another label"
        ),
        pytest.param(
            pod("web-0", labels={"app": "web"}, cpu="2", pvcs=["data-0"]), False, id="a request"
        ),
        pytest.param(
            pod("web-0", namespace="other", labels={"app": "web"}, cpu="1"), False, id="namespace"
        ),
        pytest.param(
            pod("web-0", labels={"app": "web"}, cpu="1", priority=7), False, id="priority"
        ),
        pytest.param(
            pod("web-0", labels={"app": "web"}, cpu="1", host_ports=[80]), False, id="a host port"
        ),
        pytest.param(
            pod("web-0", labels={"app": "web"}, cpu="1", gates=["wait"]), False, id="a gate"
        ),
        pytest.param(
            pod("web-0", labels={"app": "web"}, cpu="1", node_selector={"disk": "ssd"}),
            False,
            id="a node selector",
        ),
        pytest.param(
            pod("web-0", labels={"app": "web"}, cpu="1", containers=[container("second")]),
            False,
            id="a container",
        ),
    ],
)
def test_identity_is_no_fact(other, same) -> None:
    assert are_one_class(PLAIN, other) is same


def pinned(name: str, to: str) -> Pod:
    field = NodeSelectorRequirement(key="metadata.name", operator="In", values=(to,))
    affinity = NodeSelector(node_selector_terms=(NodeSelectorTerm(match_fields=(field,)),))
    return pod(name, node_affinity=affinity)


def test_daemons_pinned_to_different_nodes_are_one_class() -> None:
    assert are_one_class(pinned("daemon-a", "a"), pinned("daemon-b", "b"))


def test_a_pinned_pod_and_one_that_is_not_are_two_classes() -> None:
    assert not are_one_class(pinned("daemon-a", "a"), pod("daemon-b"))


NAMING = {
    "anti-affinity": pod(
        "asking",
        apart=[PodAffinityTerm(topology_key=HOSTNAME, label_selector=selecting({INDEX: "1"}))],
    ),
    "affinity": pod(
        "asking",
        near=[PodAffinityTerm(topology_key=HOSTNAME, label_selector=selecting({INDEX: "1"}))],
    ),
    "spread": pod(
        "asking",
        spread=[
            TopologySpreadConstraint(
                max_skew=1, topology_key=HOSTNAME, label_selector=selecting({INDEX: "1"})
            )
        ],
    ),
    "match label keys": pod(
        "asking",
        spread=[
            TopologySpreadConstraint(
                max_skew=1,
                topology_key=HOSTNAME,
                label_selector=selecting({"app": "db"}),
                match_label_keys=(INDEX,),
            )
        ],
    ),
}


@pytest.mark.parametrize("asking", NAMING.values(), ids=NAMING)
@pytest.mark.parametrize("first", [True, False], ids=["known before", "known after"])
def test_a_selector_that_names_a_replicas_label_makes_it_a_fact(asking, first) -> None:
    replicas = [pod(f"db-{number}", labels={INDEX: str(number)}) for number in (0, 1)]
    snapshot = Snapshot.of([asking, *replicas] if first else [*replicas, asking])
    one, other = (snapshot.pods[f"default/db-{number}"].pod_class for number in (0, 1))

    assert one is not other
    assert (one.labels[INDEX], other.labels[INDEX]) == ("0", "1")


@pytest.mark.parametrize("label", sorted(IDENTITY_LABELS))
def test_labels_that_controllers_write_are_no_facts(label) -> None:
    assert are_one_class(pod("a", labels={label: "a"}), pod("b", labels={label: "b"}))


def test_pods_that_move_to_parts_of_their_class_stay_counted() -> None:
    replicas = [pod(f"db-{n}", on="n1", labels={INDEX: str(n)}, cpu=1) for n in (0, 1)]
    snapshot = Snapshot.of([node("n1"), *replicas])
    before = dump(snapshot)
    snapshot.put_pod(NAMING["spread"])
    snapshot.drop_pod("default", "asking")

    assert differences(before, dump(snapshot)) == {}
    assert sorted(len(pods.nodes) for pods in snapshot.classes.values() if pods.nodes) == [1, 1]


# Interchangeable members.


def twin_of(one: Pod) -> Pod:
    """The same pod under another name; a replica's own label goes with the name."""
    name = f"{one.metadata.name}-twin"
    labels = {**one.metadata.labels, "statefulset.kubernetes.io/pod-name": name}
    meta = msgspec.structs.replace(
        one.metadata, name=name, uid=f"{one.metadata.uid}-twin", labels=labels
    )
    return msgspec.structs.replace(one, metadata=meta)


def twins_in(objects: tuple[object, ...]) -> list[tuple[Pod, Pod]]:
    """Waiting pods and their twins; claims of ephemeral volumes are no pod's but their own."""
    return [
        (one, twin_of(one))
        for one in objects
        if isinstance(one, Pod)
        and not one.spec.node_name
        and not any(volume.ephemeral for volume in one.spec.volumes)
    ]


@given(seeds)
@lean(50)
def test_members_of_a_class_are_told_the_same(seed) -> None:
    objects, gates = cluster_of(seed)
    twins = twins_in(objects)
    snapshot = Snapshot.of([*objects, *(twin for _, twin in twins)])
    for pair in twins:
        one, other = (snapshot.pods[key_of(pod)] for pod in pair)
        assert one.pod_class is other.pod_class
        first, second = told(snapshot, gates, [one, other]).values()
        assert differences(first, second) == {}


@given(seeds)
@lean(40)
def test_it_does_not_matter_which_member_is_placed(seed) -> None:
    objects, gates = cluster_of(seed)
    for one, twin in twins_in(objects)[:3]:
        snapshot = Snapshot.of([*objects, twin])
        names = sorted(snapshot.nodes)
        outcomes = []
        for placed, waiting in ((one, twin), (twin, one)):
            with snapshot.trial():
                snapshot.place(snapshot.pods[key_of(placed)], names[seed % len(names)])
                found = told_waiting(snapshot, gates)
                found["the one that waits"] = found.pop(key_of(waiting))
                outcomes.append((anonymous(snapshot, placed, waiting), found))
        (first, told_first), (second, told_second) = outcomes
        assert differences(first, second) == {}
        assert differences(told_first, told_second) == {}


def key_of(one: Pod) -> str:
    return f"{one.metadata.namespace}/{one.metadata.name}"


def anonymous(snapshot: Snapshot, placed: Pod, waiting: Pod) -> dict[str, object]:
    """What there is to see of a snapshot for somebody who does not look at names of pods."""
    seen = dump(snapshot)
    by_key = ("pods", "pods by node", "claim users", "disk pods", "problem pods")
    found = {name: value for name, value in seen.items() if name not in by_key}
    names = {key_of(placed): "placed", key_of(waiting): "waiting"}
    for name in by_key[1:]:
        found[name] = {
            place: {names.get(key, key) for key in keys} for place, keys in seen[name].items()
        }
    return found


def test_records_of_one_class_share_its_facts() -> None:
    snapshot = Snapshot.of([pod(f"web-{number}", cpu=1) for number in range(3)])
    records: list[PodRecord] = list(snapshot.pods.values())

    assert len({id(record.pod_class) for record in records}) == len(snapshot.classes) == 1
