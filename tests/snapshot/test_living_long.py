"""A snapshot that stands for months: whatever came and went, it ends as small as it began."""

import gc
import random
import tracemalloc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from tests.snapshot.dumping import differences, dump, told_waiting
from tests.snapshot.histories import cluster_of, lean, mixed, name_of, seeds
from tonnage.objects.kinds import KubeObject
from tonnage.objects.pods import Pod, PodAffinityTerm, TopologySpreadConstraint
from tonnage.rules import features, pipeline
from tonnage.snapshot import imagined
from tonnage.snapshot.imagined import Footprint
from tonnage.snapshot.snapshot import Snapshot
from tonnage.testing.builders import (
    HOSTNAME,
    attachment,
    capacity,
    csidriver,
    csinode,
    namespace,
    node,
    pod,
    pv,
    pvc,
    selecting,
    storage_class,
)

NEWEST = features.of_version()
EBS = "ebs.csi.aws.com"


def sizes(snapshot: Snapshot) -> dict[str, int]:
    """How many entries every table of the snapshot has, by the way there."""
    found: dict[str, int] = {}
    seen: set[int] = set()
    todo: list[tuple[str, Any]] = [("", snapshot)]
    while todo:
        path, thing = todo.pop()
        if id(thing) in seen:
            continue
        seen.add(id(thing))
        if isinstance(thing, dict | list | set):
            found[path] = found.get(path, 0) + len(thing)
            inside = list(thing.values()) if isinstance(thing, dict) else list(thing)
            todo += [(f"{path}[]", one) for one in inside]
        elif type(thing).__module__.startswith("tonnage.snapshot"):
            todo += [(f"{path}.{name}", one) for name, one in _fields(thing)]
    return found


def _fields(thing: Any) -> Iterator[tuple[str, Any]]:
    yield from getattr(thing, "__dict__", {}).items()
    for kind in type(thing).__mro__:
        for name in getattr(kind, "__slots__", ()):
            if hasattr(thing, name):
                yield name, getattr(thing, name)


STANDING: list[KubeObject] = [
    csidriver(EBS, storage_capacity=True),
    storage_class("fast", EBS),
    namespace("default"),
    *(node(f"n{number}", zone="ab"[number % 2]) for number in range(4)),
    *(csinode(f"n{number}", {EBS: 20}) for number in range(4)),
    *(pod(f"web-{number}", on=f"n{number}", cpu=1, labels={"app": "web"}) for number in range(4)),
]


def day(number: int) -> list[KubeObject]:
    """What comes in the morning and is gone by night: a tenant, nodes, a rollout with storage."""
    tenant, build = f"tenant-{number}", {"app": "db", "build": str(number)}
    term = PodAffinityTerm(topology_key=HOSTNAME, label_selector=selecting(build))
    even = TopologySpreadConstraint(
        max_skew=1, topology_key=f"rack-{number}", label_selector=selecting(build)
    )
    machine = f"spot-{number}"
    return [
        namespace(tenant, {"owner": tenant}),
        csidriver(f"csi-{number}.example.com"),
        storage_class(f"class-{number}", f"csi-{number}.example.com"),
        node(machine, labels={f"rack-{number}": "r"}, allocatable={f"vendor/device-{number}": 1}),
        csinode(machine, {f"csi-{number}.example.com": 5}),
        capacity(f"on-{number}", f"class-{number}", free="1Gi", topology={HOSTNAME: machine}),
        pvc("data", namespace=tenant, storage_class=f"class-{number}", volume=f"pv-{number}"),
        pv(f"pv-{number}", driver=f"csi-{number}.example.com"),
        attachment(f"pv-{number}", machine, attacher=f"csi-{number}.example.com"),
        pvc("waits", namespace=tenant, storage_class=f"class-{number}", size=f"{number + 1}Gi"),
        pod("db", namespace=tenant, on=machine, labels=build, apart=[term], pvcs=["data"]),
        pod("port", namespace=tenant, on=machine, host_ports=[1000 + number]),
        pod("next", namespace=tenant, labels=build, spread=[even], pvcs=["waits"]),
        pod("odd", namespace=tenant, requests={f"vendor/device-{number}": 1}, near=[term]),
    ]


def come_and_go(snapshot: Snapshot, objects: list[KubeObject]) -> None:
    for one in objects:
        snapshot.apply("ADDED", one)
    for one in reversed(objects):
        snapshot.apply("DELETED", one)
    if snapshot.cluttered:
        snapshot.tidy()


def live(snapshot: Snapshot, objects: list[KubeObject]) -> None:
    """Come, be asked about and planned for, and go."""
    for one in objects:
        snapshot.apply("ADDED", one)
    told_waiting(snapshot, NEWEST)
    with snapshot.trial():
        template = imagined.add_template(
            snapshot, node("t", allocatable={"vendor/new": 1}), None, []
        )
        rows = imagined.add_copies(snapshot, template, ["new-1", "new-2"])
        held = Footprint(snapshot.pending_pods()[0].pod_class, {})
        imagined.place(snapshot, held, np.arange(rows.start, rows.stop), np.array([1, 2]))
    come_and_go(snapshot, objects)


def test_a_month_of_churn_ends_with_the_tables_it_began_with() -> None:
    snapshot = Snapshot.of(STANDING)
    live(snapshot, day(0))
    snapshot.tidy()
    before = sizes(snapshot)
    for number in range(1, 60):
        live(snapshot, day(number))
    snapshot.tidy()

    after = sizes(snapshot)
    # The log of touched rows has a limit of its own.
    grown = {path for path in after if after[path] > before.get(path, 0)}
    grown = {path for path in grown if not path.endswith("._log")}
    assert {path: (before.get(path), after[path]) for path in grown} == {}
    assert differences(dump(Snapshot.of(STANDING)), dump(snapshot)) == {}


def test_memory_stays_flat() -> None:
    snapshot = Snapshot.of(STANDING)

    def held_after(days: range) -> int:
        for number in days:
            come_and_go(snapshot, day(number))
        names = snapshot.columns.labels.find(HOSTNAME).values.values
        assert len(names) < 400, "it is tidied in between"
        snapshot.tidy()
        gc.collect()
        # What is remembered of texts elsewhere, quantities and selectors, has limits of its own.
        here = tracemalloc.Filter(True, "*/tonnage/snapshot/*")
        found = tracemalloc.take_snapshot().filter_traces([here])
        return sum(one.size for one in found.statistics("filename"))

    tracemalloc.start()
    try:
        before = held_after(range(100))
        after = held_after(range(100, 600))
    finally:
        tracemalloc.stop()
    assert after < before + 50_000


@given(seeds)
@lean(40)
def test_a_tidied_snapshot_is_the_same(seed: int) -> None:
    objects, gates = cluster_of(seed)
    chance = random.Random(seed)
    snapshot = Snapshot.of(objects)
    left = {name_of(one): one for one in objects}
    for one in chance.choices(mixed(seed), k=80):
        if chance.random() < 0.4:
            snapshot.apply("DELETED", one)
            left.pop(name_of(one), None)
        else:
            snapshot.apply("MODIFIED", one)
            left[name_of(one)] = one
        if chance.random() < 0.1:
            told_waiting(snapshot, gates)
        if chance.random() < 0.1:
            snapshot.tidy()
    told = told_waiting(snapshot, gates)
    snapshot.tidy()

    assert differences(told, told_waiting(snapshot, gates)) == {}
    assert differences(dump(Snapshot.of(left.values())), dump(snapshot)) == {}


def test_a_record_from_before_is_good_for_everything_after() -> None:
    term = PodAffinityTerm(topology_key=HOSTNAME, label_selector=selecting({"app": "db"}))

    def db(name: str, on: str = "") -> Pod:
        return pod(name, on=on, labels={"app": "db"}, cpu=1, apart=[term])

    snapshot = Snapshot.of([node("n1"), node("n2")])
    record = snapshot.record_of(db("db"))
    snapshot.tidy()
    assert snapshot.classes == {}
    snapshot.place(record, "n1")
    beside = snapshot.record_of(db("other"))

    assert pipeline.evaluate(snapshot, beside, NEWEST).fits.tolist() == [False, True]
    assert pipeline.evaluate(snapshot, record, NEWEST).on("n2").texts == []
    rebuilt = Snapshot.of([node("n1"), node("n2"), db("db", on="n1")])
    assert differences(dump(rebuilt), dump(snapshot)) == {}


def test_what_pods_use_is_counted_once_a_node_offers_it() -> None:
    snapshot = Snapshot.of([node("n1"), pod("a", on="n1", requests={"vendor/gpu": 2})])
    snapshot.put_node(node("n1", allocatable={"vendor/gpu": 3}))
    asking = snapshot.record_of(pod("b", requests={"vendor/gpu": 2}))

    (reason,) = pipeline.evaluate(snapshot, asking, NEWEST).on("n1").reasons
    assert reason.facts == {"resource": "vendor/gpu", "wanted": 2, "used": 2, "limit": 3}


def test_a_trial_cannot_be_tidied() -> None:
    snapshot = Snapshot.of([node("n1")])
    with snapshot.trial(), pytest.raises(AssertionError):
        snapshot.tidy()
