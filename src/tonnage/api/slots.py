"""Attach slots as people ask for them: per node and driver, with totals.

A limit has three states: a number, unlimited (the node lists the driver and sets no limit), and
unknown (the driver is in use on a node that does not list it).
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec

from tonnage.objects import limit_keys
from tonnage.objects.meta import Record
from tonnage.objects.scenarios import API_VERSION
from tonnage.objects.volumes import VolumeProblem
from tonnage.snapshot.slots import UNLIMITED
from tonnage.snapshot.snapshot import NOWHERE, NodeRecord, Snapshot

if TYPE_CHECKING:
    import pandas

State: TypeAlias = Literal["limited", "unlimited", "unknown"]


class SlotUse(Record, frozen=True, kw_only=True, omit_defaults=False):
    """The slots of one driver on one node.

    `used` are volumes of pods on the node; `held` those that are attached without a pod there:
    on their way out, or waiting for their pod. Both take a slot.
    """

    node: str
    driver: str
    state: State
    limit: int | None
    used: int
    held: int
    free: int | None
    """Slots left; `None` where no limit is known."""
    over: int
    """By how many the limit is exceeded."""
    held_volumes: tuple[str, ...]


class DriverTotal(Record, frozen=True, kw_only=True, omit_defaults=False):
    """All slots of one driver. `limit`, `free` and `over` are of the nodes that have a limit."""

    driver: str
    nodes: int
    unlimited: int = msgspec.field(name="unlimitedNodes")
    unknown: int = msgspec.field(name="unknownNodes")
    limit: int
    used: int
    held: int
    free: int
    over: int


class SlotReport(Record, frozen=True, kw_only=True, omit_defaults=False):
    """Nodes in the order they came, drivers by name."""

    api_version: str = API_VERSION
    kind: str = "SlotReport"
    slots: tuple[SlotUse, ...]
    totals: tuple[DriverTotal, ...]
    without_csinode: tuple[str, ...] = msgspec.field(name="nodesWithoutCSINode")
    warnings: tuple[str, ...]

    def records(self) -> list[dict[str, Any]]:
        """A row for each node and driver."""
        rows = map(msgspec.structs.asdict, self.slots)
        return [{key: row[key] for key in row if key != "held_volumes"} for row in rows]

    def to_pandas(self) -> "pandas.DataFrame":
        """The same as a DataFrame; needs the extra `pandas`."""
        from tonnage.api import notebook

        return notebook.to_pandas(self)

    def _repr_html_(self) -> str:
        from html import escape

        from tonnage.api import notebook

        rows = [
            (
                escape(one.node),
                escape(one.driver),
                notebook.bar({"taken": one.used, "held": one.held}, one.limit),
                f"{one.used + one.held} of {one.state if one.limit is None else one.limit}",
            )
            for one in self.slots
        ]
        legend = notebook.legend({"taken": "used", "held": "held", "free": "free"})
        head = ("node", "driver", "slots", "taken")
        return notebook.table(head, rows, title="Attach slots") + legend

    def only(self, *, nodes: Iterable[str] = (), drivers: Iterable[str] = ()) -> "SlotReport":
        """The part about some nodes or drivers, with totals over that part."""
        wanted_nodes, wanted_drivers = set(nodes), set(drivers)
        rows = tuple(
            one
            for one in self.slots
            if (not wanted_nodes or one.node in wanted_nodes)
            and (not wanted_drivers or one.driver in wanted_drivers)
        )
        bare = tuple(one for one in self.without_csinode if not nodes or one in wanted_nodes)
        return SlotReport(
            slots=rows, totals=_totals(rows), without_csinode=bare, warnings=self.warnings
        )


def report(snapshot: Snapshot) -> SlotReport:
    """The slots of a snapshot."""
    held = held_volumes(snapshot)
    nodes = snapshot.ordered_nodes()
    rows = tuple(row for node in nodes for row in _slots_of(snapshot, node, held))
    bare = tuple(node.name for node in nodes if not snapshot.slots.has_csinode.data[node.row])
    return SlotReport(
        slots=rows,
        totals=_totals(rows),
        without_csinode=bare,
        warnings=(*_missing_claims(snapshot), *_problems(snapshot, nodes)),
    )


def total(driver: str, members: Sequence[SlotUse]) -> DriverTotal:
    """The slots of one driver on some nodes, added up."""
    return DriverTotal(
        driver=driver,
        nodes=len(members),
        unlimited=sum(member.state == "unlimited" for member in members),
        unknown=sum(member.state == "unknown" for member in members),
        limit=sum(member.limit or 0 for member in members),
        used=sum(member.used for member in members),
        held=sum(member.held for member in members),
        free=sum(member.free or 0 for member in members),
        over=sum(member.over for member in members),
    )


def _slots_of(
    snapshot: Snapshot, node: NodeRecord, held_volumes: dict[tuple[int, str], list[str]]
) -> Iterable[SlotUse]:
    row = node.row
    for driver in sorted(snapshot.slots.drivers(), key=lambda one: one.name):
        limit = int(driver.limit.data[row])
        used, held = int(driver.used.data[row]), int(driver.idle_attachments.data[row])
        listed = bool(driver.listed.data[row])
        published = limit != UNLIMITED and _publishes(snapshot, node, driver.name)
        if listed or used or held or published:
            without_number: State = "unlimited" if listed else "unknown"
            known = limit != UNLIMITED
            yield SlotUse(
                node=node.name,
                driver=driver.name,
                state="limited" if known else without_number,
                limit=limit if known else None,
                used=used,
                held=held,
                free=max(0, limit - used - held) if known else None,
                over=max(0, used + held - limit) if known else 0,
                held_volumes=tuple(sorted(held_volumes.get((row, driver.name), ()))),
            )


def _publishes(snapshot: Snapshot, node: NodeRecord, driver: str) -> bool:
    """Whether the node itself has a limit for a driver: before CSINode that was the place."""
    resources = node.node.status.allocatable
    return driver in limit_keys.published(resources, (driver,), snapshot.own_keys)


def _totals(rows: Iterable[SlotUse]) -> tuple[DriverTotal, ...]:
    by_driver: dict[str, list[SlotUse]] = {}
    for row in rows:
        by_driver.setdefault(row.driver, []).append(row)
    return tuple(total(driver, members) for driver, members in sorted(by_driver.items()))


def held_volumes(snapshot: Snapshot) -> dict[tuple[int, str], list[str]]:
    """By row and driver, the volumes that are attached there and that no pod there uses."""
    found: dict[tuple[int, str], list[str]] = {}
    for attachment in snapshot.attachments.values():
        node = snapshot.nodes.get(attachment.spec.node_name)
        use = snapshot.storage.use_of(attachment)
        if node is not None and use is not None and node.row not in snapshot.slots.users(use):
            names = found.setdefault((node.row, use.driver), [])
            name = attachment.spec.source.persistent_volume_name
            if name is not None and name not in names:
                names.append(name)
    return found


def _missing_claims(snapshot: Snapshot) -> Iterable[str]:
    """kube-scheduler passes over a placed pod's claim that is not there; a count must say so."""
    missing = {
        f"{record.meta.namespace}/{volume.claim}"
        for record in snapshot.pods.values()
        if record.row != NOWHERE
        for volume in record.volumes
        if volume.claim and snapshot.storage.claim(record.meta.namespace, volume.claim) is None
    }
    if missing:
        some = ", ".join(sorted(missing)[:3]) + (", ..." if len(missing) > 3 else "")
        yield (
            f"{len(missing):,} claim(s) of running pods are not in the input, so their slots are "
            f"not counted: {some}"
        )


def _problems(snapshot: Snapshot, nodes: Iterable[NodeRecord]) -> Iterable[str]:
    for node in nodes:
        for record in snapshot.problem_pods.get(node.row, {}).values():
            if record.slots.problem is not None:
                yield (
                    f"pod {record.key} on {node.name}: {_words(record.slots.problem)}, so its "
                    "slots are not all counted, and kube-scheduler fails on this node"
                )


def _words(problem: VolumeProblem) -> str:
    match problem.kind:
        case "foreign":
            return f"claim {problem.claim} belongs to another pod"
        case "nameless":
            return "a volume names no claim"
        case _:
            return f"volume {problem.claim} cannot be translated to CSI: {problem.detail}"
