"""Which instance types would carry a cluster cheaper, given its volumes.

All pods but those of DaemonSets are packed once more, as if nothing ran yet, on nodes of one type
alone, and on the best mix of all; what kubelets and DaemonSets take of a node is taken as it is on
the nodes there are. Rules between pods are left aside: it is a direction, not a plan. Types of
other clouds, and of processors that no node has, are not offered.
"""

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence

import msgspec

from tonnage.groups import catalogue
from tonnage.groups.catalogue import denser
from tonnage.groups.inputs import Inputs
from tonnage.objects import quantities
from tonnage.objects.labels import INSTANCE_TYPE
from tonnage.objects.meta import Record
from tonnage.objects.scenarios import API_VERSION
from tonnage.optimise import highs, solver
from tonnage.optimise.effort import UNITS_PER_SECOND, Effort
from tonnage.optimise.problem import BinType, ItemClass, PackingProblem
from tonnage.scaleup import pod_groups, refusals

ARCHITECTURE = "kubernetes.io/arch"

NOTHING = "nothing to advise on: there are no pods but those of DaemonSets"

_OF_CLOUDS = frozenset((catalogue.EBS, catalogue.GCE_PD, catalogue.AZURE_DISK))
_GIB = 1 << 30
_ANY = 1_000_000
_SHARE = 0.1
"""The part of the time that one type alone may take."""


class InstancePrice(msgspec.Struct, frozen=True, kw_only=True):
    """An instance type with its price, and where that is from: a file, a group, or the table."""

    instance_type: str
    price: float
    source: str


class TypeAdvice(Record, frozen=True, kw_only=True, omit_defaults=False):
    """What the cluster would come to on nodes of one type alone.

    `slots` are the usable ones of a node, the least of the drivers in use; `price_per_slot` is what
    one of them costs an hour. `left_out` pods fit on no such node.
    """

    instance_type: str
    price: float
    source: str
    cpus: float
    memory_gib: float = msgspec.field(name="memoryGiB")
    slots: int | None
    price_per_slot: float | None
    nodes: int
    cost: float
    left_out: int


class StrandedShare(Record, frozen=True, kw_only=True, omit_defaults=False):
    """What lies idle in a group because a driver has no slot left there."""

    group: str
    driver: str
    cpu_milli: int
    memory: int


class SizeAdvice(Record, frozen=True, kw_only=True, omit_defaults=False):
    """`cost_now` is what today's nodes cost, if all have a price; `mix` the cheapest found of all
    types together, which no mix undercuts by more than `bound`."""

    api_version: str = API_VERSION
    kind: str = "SizeAdvice"
    pods: int
    nodes_now: int
    cost_now: float | None
    types: tuple[TypeAdvice, ...]
    mix: dict[str, int]
    mix_cost: float
    bound: float
    stranded: tuple[StrandedShare, ...] = ()
    warnings: tuple[str, ...] = ()


def advise(inputs: Inputs, prices: Sequence[InstancePrice], *, seconds: float = 5.0) -> SizeAdvice:
    """Compare the types, the cheapest first."""
    warnings = [] if highs.installed() else [f"no advice: {highs.MISSING}"]
    snapshot = inputs.cluster.snapshot
    kinds: Counter[tuple[tuple[str, int], ...]] = Counter()
    drivers: set[str] = set()
    for record in snapshot.pods.values():
        if refusals.is_daemon(record):
            continue
        slots = pod_groups.slots_of(snapshot, record)
        drivers.update(slots)
        amounts = {**record.pod_class.requests, **slots, "pods": 1}
        kinds[tuple(sorted(amounts.items()))] += 1
    names = sorted({name for kind in kinds for name, _ in kind})
    items = [
        ItemClass(str(number), count, tuple(dict(kind).get(name, 0) for name in names))
        for number, (kind, count) in enumerate(kinds.items())
    ]
    kept = _kept(inputs)
    bins, shapes = [], []
    for one in prices:
        size = denser.size_of(one.instance_type)
        if size is None or not 0 < one.price < math.inf or not _offered(inputs, one, drivers):
            continue
        slots_of = {driver: catalogue.lookup(driver, one.instance_type) for driver in drivers}
        limits = {driver: found.count for driver, found in slots_of.items() if found is not None}
        capacity = {
            "cpu": size[0] * 1000.0 - kept["cpu"],
            "memory": float(size[1] * _GIB) - kept["memory"],
            "pods": 110.0 - kept["pods"],
            **limits,
        }
        room = tuple(max(capacity.get(name, math.inf), 0.0) for name in names)
        bins.append(BinType(one.instance_type, room, one.price, (_ANY,) * len(items)))
        shapes.append((one, size, min(limits.values(), default=None)))
    if not items:
        return _nothing(inputs, prices, 0, [NOTHING])
    if not bins or warnings:
        if not bins:
            warnings.append("no instance type with a price whose name tells its CPUs and memory")
        return _nothing(inputs, prices, sum(kinds.values()), warnings)
    found = []
    for bin_type, (one, size, usable) in zip(bins, shapes, strict=True):
        units = int(seconds * _SHARE * UNITS_PER_SECOND)
        packed = solver.solve(PackingProblem(items, [bin_type]), Effort(units))
        found.append(
            TypeAdvice(
                instance_type=one.instance_type,
                price=one.price,
                source=one.source,
                cpus=float(size[0]),
                memory_gib=float(size[1]),
                slots=usable,
                price_per_slot=round(one.price / usable, 6) if usable else None,
                nodes=sum(times for _, times in packed.patterns),
                cost=round(packed.cost, 6),
                left_out=sum(packed.left),
            )
        )
    together = solver.solve(PackingProblem(items, bins), Effort(int(seconds * UNITS_PER_SECOND)))
    mix: Counter[str] = Counter()
    for pattern, times in together.patterns:
        mix[bins[pattern.bin_type].name] += times
    return SizeAdvice(
        pods=sum(kinds.values()),
        nodes_now=len(snapshot.nodes),
        cost_now=_cost_now(inputs, prices),
        types=tuple(sorted(found, key=lambda one: (one.left_out, one.cost, one.instance_type))),
        mix=dict(sorted(mix.items())),
        mix_cost=round(together.cost, 6),
        bound=round(together.bound, 6),
    )


def _nothing(
    inputs: Inputs, prices: Sequence[InstancePrice], pods: int, warnings: Sequence[str]
) -> SizeAdvice:
    return SizeAdvice(
        pods=pods,
        nodes_now=len(inputs.cluster.snapshot.nodes),
        cost_now=_cost_now(inputs, prices),
        types=(),
        mix={},
        mix_cost=0.0,
        bound=0.0,
        warnings=tuple(warnings),
    )


def _offered(inputs: Inputs, one: InstancePrice, drivers: Collection[str]) -> bool:
    """Whether the type is of the cluster's cloud, and of a processor that it has."""
    nodes = [node.metadata.labels for node in inputs.cluster.nodes]
    kind = denser.kind_of(one.instance_type)
    there = {denser.kind_of(labels.get(INSTANCE_TYPE, "")) for labels in nodes} - {None}
    clouds = {found[0] for found in there if found is not None}
    if kind is None or (clouds and kind[0] not in clouds):
        return False
    if kind[1] == "arm64" and all(labels.get(ARCHITECTURE) != "arm64" for labels in nodes):
        return False
    own = [driver for driver in drivers if driver in _OF_CLOUDS]
    return all(catalogue.lookup(driver, one.instance_type) is not None for driver in own)


def _kept(inputs: Inputs) -> Mapping[str, float]:
    """The most that kubelet and DaemonSets keep of a node, by what the nodes there are say."""
    kept = {"cpu": 0.0, "memory": 0.0, "pods": 0.0}
    for node in inputs.cluster.nodes:
        for name, unit in (("cpu", 1000), ("memory", 1)):
            has = quantities.exact(node.status.capacity.get(name, 0))
            gives = quantities.exact(node.status.allocatable.get(name, 0))
            if has and gives:
                kept[name] = max(kept[name], float((has - gives) * unit))
    daemons: dict[str, Counter[str]] = {}
    for record in inputs.cluster.snapshot.pods.values():
        if record.node_name and refusals.is_daemon(record):
            taken = daemons.setdefault(record.node_name, Counter())
            taken.update({name: record.pod_class.requests.get(name, 0) for name in kept})
            taken["pods"] += 1
    for name in kept:
        kept[name] += max((taken[name] for taken in daemons.values()), default=0)
    return kept


def _cost_now(inputs: Inputs, prices: Sequence[InstancePrice]) -> float | None:
    """What the nodes there are cost: by their groups, else by their types."""
    by_type = {one.instance_type: one.price for one in prices}
    total = 0.0
    for node in inputs.cluster.nodes:
        group = inputs.group_of.get(node.metadata.name)
        price = group.price_per_hour if group is not None else None
        if price is None:
            price = by_type.get(node.metadata.labels.get(INSTANCE_TYPE, ""))
        if price is None:
            return None
        total += price
    return round(total, 6)
