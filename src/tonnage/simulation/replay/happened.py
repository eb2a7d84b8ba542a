"""A trace as a Timeline: what happened, in the figures that simulations have."""

from collections.abc import Sequence

from tonnage.clock.virtual import VirtualClock
from tonnage.embedded.apiserver.store import ObjectStore, Stored
from tonnage.embedded.world import WorldBehaviour
from tonnage.groups import node_group_objects
from tonnage.objects.scenarios import NodeGroup
from tonnage.report.timeline import Decided, Sample, Timeline
from tonnage.simulation.accounts import Accounts
from tonnage.simulation.replay.membership import GroupMembership
from tonnage.simulation.sampling import same_but_for_time, sample_interval
from tonnage.traces.reader import TraceEvent, TraceFiles

LABEL = "recorded"


class RecordedMachines:
    """The nodes of groups, each paid from `asked_before` its Node came to when it was gone.

    Nodes that were there at the beginning are paid from then on.
    """

    def __init__(self, groups: Sequence[NodeGroup], *, asked_before: float) -> None:
        self._membership = GroupMembership(groups)
        self._asked_before = asked_before
        self._prices = {
            group.id: group.price_per_hour or 0.0
            for group in node_group_objects.from_objects(groups, ())
        }
        self._there: dict[str, tuple[str, float]] = {}
        self._ended = 0.0
        self.decisions: list[Decided] = []

    def changed(self, event: TraceEvent, *, known: bool) -> None:
        if event.after is None:
            group, since = self._there.pop(event.name, ("", 0.0))
            if group:
                self._ended += self._prices[group] * (event.at - since) / 3600
                self._decided(event.at, "delete", group)
            return
        if event.name in self._there:
            return
        group = self._membership.of(event.name, event.after)
        if not group:
            return
        asked = max(event.at - self._asked_before, 0.0) if known else 0.0
        self._there[event.name] = (group, asked)
        if known:
            self._decided(asked, "increase", group)

    def cost(self, at: float) -> float:
        running = sum(
            self._prices[group] * max(at - since, 0.0) / 3600
            for group, since in self._there.values()
        )
        return self._ended + running

    @property
    def cost_per_hour(self) -> float:
        return sum(self._prices[group] for group, _ in self._there.values())

    def _decided(self, at: float, deed: str, group: str) -> None:
        """Nodes of one moment are one decision; that is as near as a watch comes to it."""
        last = self.decisions[-1] if self.decisions else None
        if last is not None and (last.deed, last.group) == (deed, group) and at - last.at < 5.0:
            self.decisions[-1] = Decided(at=last.at, deed=deed, group=group, nodes=last.nodes + 1)
        else:
            self.decisions.append(Decided(at=round(at, 3), deed=deed, group=group, nodes=1))


def happened(
    trace: TraceFiles,
    groups: Sequence[NodeGroup],
    *,
    world: WorldBehaviour,
    asked_before: float,
    stuck_after: float,
    until: float | None = None,
    sample_every: float | None = None,
) -> Timeline:
    """What a trace tells, with samples as simulations take them."""
    clock = VirtualClock(horizon=float("inf"))
    store = ObjectStore(remembered=0)
    accounts = Accounts(store, clock=clock, world=world, stuck_after=stuck_after)
    machines = RecordedMachines(groups, asked_before=asked_before)
    duration = trace.duration if until is None else min(until, trace.duration)
    every = sample_every or sample_interval(duration)
    samples: list[Sample] = []
    known = False

    def sample(at: float, *, last: bool = False) -> None:
        _go_to(clock, at)
        seen = accounts.sample(
            requested=0, cost=machines.cost(at), cost_per_hour=machines.cost_per_hour
        )
        if last or not samples or not same_but_for_time(samples[-1], seen):
            samples.append(seen)

    turn = 0
    for event in trace.events():
        if event.at > duration:
            break
        while known and every * (turn + 1) <= event.at:
            turn += 1
            sample(every * turn)
        _go_to(clock, event.at)
        if event.known and not known:
            known = True
            sample(event.at)
        if event.kind is not None:
            _take(store, event)
            if event.kind.plural == "nodes":
                machines.changed(event, known=known)
    sample(duration, last=True)
    decisions = sorted(machines.decisions, key=lambda one: one.at)
    return Timeline(
        name=trace.head.name,
        label=LABEL,
        description=f"recorded from {trace.head.started_at}",
        duration=duration,
        stuck_after=stuck_after,
        samples=tuple(samples),
        decisions=tuple(decisions),
        summary=accounts.summary(samples[-1], decisions),
    )


def _go_to(clock: VirtualClock, at: float) -> None:
    if at > clock.monotonic():
        clock.call_in(at - clock.monotonic(), lambda: None)
        clock.jump()


def _take(store: ObjectStore, event: TraceEvent) -> None:
    assert event.kind is not None
    collection = store.of_kind(event.kind.api_version, event.kind.kind)
    if collection is None:
        return
    namespace, _, name = event.name.rpartition("/")
    before: Stored | None = collection.get(namespace, name)
    if event.after is not None:
        store.put(collection, event.after, before)
    elif before is not None:
        store.remove(collection, before)
