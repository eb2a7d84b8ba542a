"""Random lives of a snapshot: changes, imagined nodes and pods, and trials in trials.

Beside the snapshot goes a plain account of what it should hold by now. A revert must lead back to
the bit, and at any time a snapshot made afresh from the account must be the same.
"""

import copy
from collections import Counter
from typing import Any

import msgspec
import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from tests.snapshot.dumping import Dump, differences, dump, exact, told, told_waiting
from tests.snapshot.histories import lean, name_of, numbers
from tonnage.objects.nodes import Node
from tonnage.objects.pods import Pod, PodAffinityTerm, TopologySpreadConstraint
from tonnage.objects.storage import CSINode
from tonnage.objects.volume_sources import GCEPersistentDiskSource, VolumeSource
from tonnage.rules import features
from tonnage.snapshot import imagined, published_storage, slot_pools
from tonnage.snapshot.imagined import Footprint, TemplateRow
from tonnage.snapshot.journal import Trial
from tonnage.snapshot.slot_pools import Pool
from tonnage.snapshot.snapshot import Snapshot
from tonnage.snapshot.storage_ledger import Room
from tonnage.testing.builders import (
    HOSTNAME,
    ZONE,
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
EBS, LOCAL = "ebs.csi.aws.com", "local.example.com"
GIB = 2**30

DB = {"app": "db"}
APART = PodAffinityTerm(topology_key=HOSTNAME, label_selector=selecting(DB))
EVEN = TopologySpreadConstraint(max_skew=1, topology_key=ZONE, label_selector=selecting(DB))
DISK = VolumeSource(name="disk", gce_persistent_disk=GCEPersistentDiskSource(pd_name="disk"))
BOUND = pvc("data-1", storage_class="ebs", volume="vol-1")


def nominated(one: Pod, node_name: str) -> Pod:
    status = msgspec.structs.replace(one.status, nominated_node_name=node_name)
    return msgspec.structs.replace(one, status=status)


NODES = (
    *(node(f"n{number}", zone="ab"[number % 2]) for number in range(4)),
    node("n1", zone="b", cpu="8", labels={"disk": "ssd"}),
    node("n2", unschedulable=True),
)
PODS = (
    pod("plain", on="n0", cpu=1),
    pod("plain", on="n1", cpu=2),
    pod("port", host_ports=[80], labels=DB),
    pod("apart", on="n1", cpu=1, labels=DB, apart=[APART]),
    pod("even", labels=DB, spread=[EVEN]),
    pod("leaving", on="n0", labels=DB, deleting=True),
    pod("one", on="n1", pvcs=["data-1"]),
    pod("other", on="n1", pvcs=["data-1", "data-2"]),
    pod("waits", pvcs=["data-2"]),
    pod("stores", pvcs=["kept"]),
    pod("lost", on="n2", ephemeral=["one"]),
    pod("lost-too", on="n2", ephemeral=["one"]),
    pod("disk", on="n2", volumes=[DISK]),
    pod("disk-too", volumes=[DISK]),
    nominated(pod("promised", cpu=1), "n3"),
    nominated(pod("promised-too", labels=DB), "n3"),
)
OTHERS: tuple[Any, ...] = (
    csinode("n0", {EBS: 3, LOCAL: None}),
    csinode("n1", {EBS: 2}),
    csinode("n1", {EBS: 5, LOCAL: 4}),
    csinode("n2", {}),
    storage_class("ebs", EBS),
    storage_class("ebs", LOCAL),
    storage_class("local", LOCAL),
    csidriver(LOCAL, storage_capacity=True),
    BOUND,
    pvc("data-1", storage_class="ebs"),
    pvc("data-2", storage_class="ebs"),
    pvc("data-2", storage_class="ebs", volume="vol-1"),
    pvc("kept", storage_class="local", size="2Gi"),
    pvc("lost-one", storage_class="ebs"),
    pvc("lost-too-one", storage_class="ebs"),
    pv("vol-1", driver=EBS, storage_class="ebs", claim=BOUND),
    pv("vol-1", driver=EBS, storage_class="ebs"),
    pv("vol-2", driver=EBS, storage_class="ebs", claim=BOUND),
    pv("vol-3", driver=EBS, storage_class="ebs"),
    attachment("vol-1", "n1", attacher=EBS),
    attachment("vol-2", "n1", attacher=EBS),
    capacity("on-n0", "local", free="10Gi", topology={HOSTNAME: "n0"}),
    capacity("in-b", "local", free="20Gi", topology={ZONE: "b"}),
    namespace("default"),
    namespace("default", DB),
)
TEMPLATES = (
    ("a", csinode("t", {EBS: 2}), (pod("daemon", cpu=1, host_ports=[80]),)),
    ("b", None, (pod("watch", labels=DB), pod("daemon", cpu=1))),
)

HELD: tuple[tuple[Pod, dict[str, int], dict[str, int]], ...] = (
    (pod("held", cpu=1, labels=DB, host_ports=[81]), {EBS: 1}, {}),
    (pod("held", apart=[APART]), {}, {"local": GIB}),
)
# Of several states of an object, the first.
START = {name_of(one): one for one in reversed((*NODES, *PODS, *OTHERS))}


class Account:
    """What a snapshot should hold: objects, and what is imagined beside them.

    `copies` have the number of their template, `held` counts by node and kind, and `started`
    are pods that a copy came with which is a real node now.
    """

    def __init__(self) -> None:
        self.objects = dict(reversed(START.items()))
        self.templates: list[int] = []
        self.copies: dict[str, int] = {}
        self.held: Counter[tuple[str, int]] = Counter()
        self.started: dict[str, int] = {}

    def copied(self) -> "Account":
        other = copy.copy(self)
        other.__dict__ = {name: copy.copy(value) for name, value in self.__dict__.items()}
        return other

    def forget_node(self, name: str) -> None:
        self.objects.pop((Node, "", name), None)
        self.copies.pop(name, None)
        self.started.pop(name, None)
        self.held = Counter({key: count for key, count in self.held.items() if key[0] != name})

    def made_real(self, real: Node) -> None:
        name = real.metadata.name
        if name in self.copies:
            self.started[name] = self.templates[self.copies.pop(name)]
        self.objects[name_of(real)] = real

    def rebuilt(self) -> Snapshot:
        """A snapshot made afresh. Copies wait for nothing, so what is for nodes comes last."""
        late = [one for one in self.objects.values() if isinstance(one, Pod | CSINode)]
        snapshot = Snapshot.of(
            one for one in self.objects.values() if not isinstance(one, Pod | CSINode)
        )
        for number, kind in enumerate(self.templates):
            template = add_template(snapshot, f"template-{number}", kind)
            names = [name for name, of in self.copies.items() if of == number]
            imagined.add_copies(snapshot, template, names)
        for one in late:
            snapshot.apply("ADDED", one)
        for name, kind in self.started.items():
            for one in TEMPLATES[kind][2]:
                hold(snapshot, Footprint(snapshot.record_of(one).pod_class, {EBS: 1}), {name: 1})
        for (name, kind), count in self.held.items():
            hold(snapshot, held(snapshot, kind), {name: count})
        return snapshot


def add_template(snapshot: Snapshot, name: str, kind: int) -> TemplateRow:
    zone, said, starting = TEMPLATES[kind]
    pods = [(one, {EBS: 1}) for one in starting]
    return imagined.add_template(snapshot, node(name, zone=zone), said, pods)


def held(snapshot: Snapshot, kind: int) -> Footprint:
    one, slots, storage = HELD[kind]
    return Footprint(snapshot.record_of(one).pod_class, slots, storage)


def hold(snapshot: Snapshot, group: Footprint, counts: dict[str, int]) -> None:
    rows = np.array([snapshot.nodes[name].row for name in counts], dtype=np.intp)
    imagined.place(snapshot, group, rows, np.array(list(counts.values()), dtype=np.int64))


class Life(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.account = Account()
        self.snapshot = Snapshot.of(self.account.objects.values())
        self.templates: list[TemplateRow] = []
        self.trials: list[tuple[Trial, Dump, Account, list[TemplateRow]]] = []
        self.made = 0
        self.add_template(0)
        self.add_copies(0, 2)
        # All of it is taken back in the end.
        self.try_on()

    def some_node(self, number: int) -> str | None:
        nodes = list(self.snapshot.nodes)
        return nodes[number % len(nodes)] if nodes else None

    # Changes a watch may bring.

    @rule(one=st.sampled_from((*NODES, *PODS)) | st.sampled_from(OTHERS))
    def put(self, one: Any) -> None:
        self.snapshot.apply("MODIFIED", one)
        self.account.objects[name_of(one)] = one

    @rule(one=st.sampled_from(PODS) | st.sampled_from(OTHERS))
    def drop(self, one: Any) -> None:
        self.snapshot.apply("DELETED", one)
        self.account.objects.pop(name_of(one), None)

    @rule(number=numbers)
    def drop_node(self, number: int) -> None:
        name = self.some_node(number)
        if name is not None:
            self.snapshot.drop_node(name)
            self.account.forget_node(name)

    # What a plan may imagine.

    @rule(one=st.sampled_from(PODS), number=numbers, nowhere=st.booleans())
    def place(self, one: Pod, number: int, nowhere: bool) -> None:
        record = self.snapshot.pods.get(f"default/{one.metadata.name}")
        name = "" if nowhere else self.some_node(number)
        if record is None or name is None:
            return
        self.snapshot.place(record, name)
        known = self.account.objects[name_of(one)]
        spec = msgspec.structs.replace(known.spec, node_name=name)
        self.account.objects[name_of(one)] = nominated(
            msgspec.structs.replace(known, spec=spec), ""
        )

    @rule(kind=st.sampled_from(range(len(HELD))), first=numbers, second=numbers)
    def hold(self, kind: int, first: int, second: int) -> None:
        names = sorted({name for one in (first, second) if (name := self.some_node(one))})
        counts = {name: count for count, name in enumerate(names, start=1)}
        hold(self.snapshot, held(self.snapshot, kind), counts)
        self.account.held.update({(name, kind): count for name, count in counts.items()})

    @rule(kind=st.sampled_from(range(len(TEMPLATES))))
    def add_template(self, kind: int) -> None:
        name = f"template-{len(self.templates)}"
        self.templates.append(add_template(self.snapshot, name, kind))
        self.account.templates.append(kind)

    @precondition(lambda self: self.templates)
    @rule(number=numbers, count=st.integers(0, 3))
    def add_copies(self, number: int, count: int) -> None:
        place = number % len(self.templates)
        names = [f"copy-{self.made + one}" for one in range(count)]
        self.made += count
        imagined.add_copies(self.snapshot, self.templates[place], names)
        self.account.copies.update(dict.fromkeys(names, place))

    @precondition(lambda self: self.account.copies)
    @rule(number=numbers)
    def register_copy(self, number: int) -> None:
        """A node that was imagined is there."""
        name = list(self.account.copies)[number % len(self.account.copies)]
        real = node(name, zone="b", labels={"real": "yes"})
        self.snapshot.put_node(real)
        self.account.made_real(real)

    @precondition(lambda self: self.account.copies)
    @rule(number=numbers)
    def name_drivers_of_copy(self, number: int) -> None:
        name = list(self.account.copies)[number % len(self.account.copies)]
        said = csinode(name, {LOCAL: 7})
        self.snapshot.put_csinode(said)
        self.account.objects[name_of(said)] = said

    # Trials, and what is only set up in them.

    @precondition(lambda self: len(self.trials) < 3)
    @rule()
    def try_on(self) -> None:
        before = (exact(self.snapshot), self.account.copied(), [*self.templates])
        trial = self.snapshot.trial()
        trial.__enter__()
        self.trials.append((trial, *before))

    @precondition(lambda self: len(self.trials) > 1)
    @rule()
    def keep(self) -> None:
        before = exact(self.snapshot)
        trial = self.trials.pop()[0]
        trial.keep()
        trial.__exit__(None, None, None)
        assert differences(before, exact(self.snapshot)) == {}

    @precondition(lambda self: len(self.trials) > 1)
    @rule()
    def revert(self) -> None:
        trial, before, self.account, self.templates = self.trials.pop()
        trial.__exit__(None, None, None)
        assert differences(before, exact(self.snapshot)) == {}

    @rule()
    def open_ledger(self) -> None:
        rooms = {one.row: [Room("local", 8 * GIB, 4 * GIB)] for one in self.templates}
        published_storage.open_ledger(self.snapshot, ["local"], templates=rooms, coming_up={})

    @rule(free=st.integers(1, 3))
    def set_pools(self, free: int) -> None:
        shared = Pool("shared", ((EBS, 1), (LOCAL, 2)), free)
        rows = [record.row for record in self.snapshot.nodes.values()]
        slot_pools.set_pools(self.snapshot, {row: [shared] for row in rows[::2]})

    @precondition(lambda self: self.snapshot.slot_pools)
    @rule()
    def clear_pools(self) -> None:
        slot_pools.clear_pools(self.snapshot)

    @rule(one=st.sampled_from(PODS))
    def ask(self, one: Pod) -> None:
        """Answers are kept, and must be brought up to date by later changes."""
        told(self.snapshot, NEWEST, [self.snapshot.record_of(one)])

    def teardown(self) -> None:
        rebuilt = self.account.rebuilt()
        if not self.snapshot.storage_ledger.class_names and not self.snapshot.slot_pools.columns:
            answers = told_waiting(self.snapshot, NEWEST)
            assert differences(told_waiting(rebuilt, NEWEST), answers) == {}
        assert differences(dump(rebuilt), dump(self.snapshot)) == {}
        while self.trials:
            self.revert()


TestLife = Life.TestCase
TestLife.settings = settings(lean(100), stateful_step_count=40)
