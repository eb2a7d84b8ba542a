"""What was asked of each group and has not come yet: requests, machines without a node, back-off.

Transitions of a group's request, at every look at the cluster:

(none)  -> asked     we asked for nodes: `asked`
(none)  -> found     more nodes are wanted of the provider than have come, and we know of no
                     request: made by somebody else, or by us before a restart that lost it
asked   -> asked     asked for more: the increase adds up, the deadline moves
asked, found -> (none)     every node is up, or is past the time to come up, failed or long overdue
asked, found -> timed out  past the deadline with nodes missing or not up yet: the group is backed
                           off, what is missing is to be given back, and the request is dropped

Of a machine without a node:

(seen)         -> unregistered        it runs or is being created, and no node bears its id
unregistered   -> (gone)              its node registers, or the provider no longer lists it
unregistered   -> long unregistered   past the provision time: to be deleted
being created  -> failed              the provider says why: to be deleted, the group backed off

Of a back-off:

(none)     -> backed off   a failure: for the initial duration
backed off -> backed off   a failure meanwhile: the same duration again
backed off -> over         time passes; the group may be scaled up
over       -> backed off   a failure: twice the duration, up to the longest
over       -> (none)       no failure for the reset time

Upstream keeps all this in memory, counts on nodes only while it remembers asking for them, and
not while their group is backed off. Here the provider's target says what is on its way, and a
request only since when; so a restart, or an answer that got lost, buys nothing twice.
"""

from collections import Counter
from collections.abc import Container, Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from tonnage.groups import group_machines
from tonnage.groups.group_machines import Failure, GroupMachine, SortedMachines
from tonnage.groups.model import Group, Purchase
from tonnage.groups.policy import GroupPolicy
from tonnage.groups.readiness import NOT_READY_FOR_SCALE_UP, GroupReadiness
from tonnage.objects.meta import Record

BACKED_OFF = "in backoff after failed scale-up"
"""Upstream's reason for passing over a group that is backed off."""

TIMEOUT = "timeout"

TARGET_LAG = 60.0
"""Seconds for which a provider may go on telling the target from before our request."""


class ScaleRequest(Record, frozen=True, kw_only=True):
    """Nodes asked for; `target` is what the provider should be telling by now."""

    increase: int
    at: float
    deadline: float
    target: int
    found: bool = False
    pods: tuple[str, ...] = ()
    """Whom the nodes were asked for, by namespace and name."""


class GroupBackoff(Record, frozen=True, kw_only=True):
    until: float
    duration: float
    failed_at: float
    failure: Failure


class RegistryState(Record, frozen=True, kw_only=True):
    """What cannot be seen in the cluster or at the provider, by group; times in seconds."""

    requests: dict[str, ScaleRequest] = {}
    backoffs: dict[str, GroupBackoff] = {}
    unregistered: dict[str, dict[str, float]] = {}
    failing: dict[str, tuple[str, ...]] = {}
    replacements: dict[str, float] = {}
    """When a node of the group was last deleted for want of its drivers."""


class GroupPatience(Record, frozen=True, kw_only=True):
    """Seconds; names and defaults are those of upstream's flags."""

    max_node_provision_time: float = 900.0
    initial_backoff: float = 300.0
    max_backoff: float = 1800.0
    backoff_reset: float = 10_800.0


class GroupObservation(NamedTuple):
    """A group as it is found now. `machines` is `None` if its provider could not be asked."""

    group: Group
    readiness: GroupReadiness
    machines: Sequence[GroupMachine] | None
    provision_time: float | None = None


class GroupHealth(Record, frozen=True, kw_only=True):
    """Where a group stands. The names in `overdue` and `failed` are those machines go by.

    `upcoming` counts nodes on their way, registered or not. `give_back` are nodes asked for in
    vain that no machine stands for. `skip_reason` is empty if the group may be scaled up.
    """

    group: str
    upcoming: int = 0
    unregistered: int = 0
    overdue: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    give_back: int = 0
    healthy: bool = True
    skip_reason: str = ""
    scaling_up: bool = False
    backoff: GroupBackoff | None = None


class RegistryEvent(Record, frozen=True, kw_only=True):
    """Nodes that did not come: how many, and why; a code of `timeout` is ours."""

    group: str
    nodes: int
    failure: Failure
    seconds: float = 0.0


class Observation(Record, frozen=True, kw_only=True):
    groups: dict[str, GroupHealth] = {}
    happened: tuple[RegistryEvent, ...] = ()


class Registry:
    """Changes by what is asked and seen alone; the time is always handed in, and never goes back.

    Equal states that see equal things are equal afterwards, so a restart that keeps `state`
    changes nothing.
    """

    def __init__(self, state: RegistryState | None = None) -> None:
        state = state or RegistryState()
        self._requests = dict(state.requests)
        self._backoffs = dict(state.backoffs)
        self._unregistered = {name: dict(seen) for name, seen in state.unregistered.items()}
        self._failing = {name: set(ids) for name, ids in state.failing.items()}
        self._replacements = dict(state.replacements)
        self._sorted: dict[str, SortedMachines] = {}

    @property
    def state(self) -> RegistryState:
        return RegistryState(
            requests=dict(sorted(self._requests.items())),
            backoffs=dict(sorted(self._backoffs.items())),
            unregistered={
                name: dict(sorted(seen.items()))
                for name, seen in sorted(self._unregistered.items())
                if seen
            },
            failing={
                name: tuple(sorted(ids)) for name, ids in sorted(self._failing.items()) if ids
            },
            replacements=dict(sorted(self._replacements.items())),
        )

    def asked(
        self,
        group: Group,
        delta: int,
        *,
        now: float,
        patience: GroupPatience,
        provision_time: float = 0,
        pods: Iterable[str] = (),
    ) -> None:
        """We ask for `delta` more nodes than the group's target, for these pods."""
        known = self._requests.get(group.id)
        before = known.pods if known is not None else ()
        self._requests[group.id] = ScaleRequest(
            increase=delta + (known.increase if known is not None else 0),
            at=now,
            deadline=now + (provision_time or patience.max_node_provision_time),
            target=group.target + delta,
            pods=tuple(dict.fromkeys((*before, *pods))),
        )

    def gave_up(self, group: str, nodes: int, *, pods: Container[str] = ()) -> None:
        """Fewer nodes are wanted: deleted, given back, or refused in the first place.

        `pods` are those whom no other nodes were asked for.
        """
        self._no_longer_awaits(group, nodes, pods=pods)
        self.removed(group, nodes)

    def _no_longer_awaits(self, group: str, nodes: int, *, pods: Container[str] = ()) -> None:
        known = self._requests.get(group)
        if known is None:
            return
        if known.increase <= nodes:
            del self._requests[group]
        else:
            self._requests[group] = msgspec.structs.replace(
                known,
                increase=known.increase - nodes,
                pods=tuple(pod for pod in known.pods if pod not in pods),
            )

    @property
    def purchases(self) -> dict[str, Purchase]:
        """What was asked for and for whom, by group; nobody knows whom others have asked for."""
        return {
            name: Purchase(nodes=request.increase, pods=request.pods)
            for name, request in sorted(self._requests.items())
            if request.pods
        }

    def removed(self, group: str, nodes: int) -> None:
        """Nodes that had come were given back, or failed ones are gone: fewer are told of now."""
        known = self._requests.get(group)
        if known is not None:
            self._requests[group] = msgspec.structs.replace(known, target=known.target - nodes)

    def failed(
        self, group: str, failure: Failure, *, now: float, patience: GroupPatience
    ) -> GroupBackoff:
        """A request for nodes of the group went wrong."""
        known = self._backoffs.get(group)
        duration = patience.initial_backoff
        if known is not None and now - known.failed_at < patience.backoff_reset:
            duration = known.duration
            if now >= known.until:
                duration = min(2 * duration, patience.max_backoff)
        backoff = GroupBackoff(
            until=now + duration, duration=duration, failed_at=now, failure=failure
        )
        self._backoffs[group] = backoff
        return backoff

    def replaced(self, group: str, *, now: float) -> None:
        """A node of the group was deleted for want of its drivers."""
        self._replacements[group] = now

    def may_replace(self, group: str, *, now: float, pause: float) -> bool:
        """Whether the last such node of the group is long enough ago."""
        last = self._replacements.get(group)
        return last is None or now - last >= pause

    def backed_off(self, group: str, *, now: float) -> GroupBackoff | None:
        backoff = self._backoffs.get(group)
        return backoff if backoff is not None and now < backoff.until else None

    def observe(
        self,
        sightings: Iterable[GroupObservation],
        *,
        registered: frozenset[str],
        policy: GroupPolicy,
        patience: GroupPatience,
        now: float,
        unread: frozenset[str] = frozenset(),
    ) -> Observation:
        """Take in what is there now; `registered` are the ids and names of all nodes.

        Those in `unread` are there, and nothing else is known of them.
        """
        happened: list[RegistryEvent] = []
        standings: dict[str, GroupHealth] = {}
        if unread:
            registered |= unread
        for sighting in sightings:
            name = sighting.group.id
            standings[name] = self._group(
                sighting, registered, policy, patience, now, happened, unread=unread
            )
        by_group: tuple[dict[str, Any], ...] = (
            self._requests,
            self._backoffs,
            self._unregistered,
            self._failing,
            self._replacements,
            self._sorted,
        )
        for held in by_group:
            for name in [name for name in held if name not in standings]:
                del held[name]
        for name, backoff in list(self._backoffs.items()):
            if now - backoff.failed_at >= patience.backoff_reset:
                del self._backoffs[name]
        return Observation(groups=standings, happened=tuple(happened))

    def _group(
        self,
        sighting: GroupObservation,
        registered: frozenset[str],
        policy: GroupPolicy,
        patience: GroupPatience,
        now: float,
        happened: list[RegistryEvent],
        *,
        unread: frozenset[str],
    ) -> GroupHealth:
        group, nodes = sighting.group, sighting.readiness
        provision_time = sighting.provision_time or patience.max_node_provision_time
        machines = self._sort_machines(sighting, registered)
        waiting, overdue = self._sort_unregistered(sighting, machines, provision_time, now)
        failed = machines.failed
        if sighting.machines is not None and (failed or self._failing.get(group.id)):
            self._note_failures(group, machines.all, patience, now, happened)
        # Some of their nodes may say so themselves, and are not among those counted here.
        leaving = max(0, machines.leaving - nodes.deleting)
        come = nodes.ready + nodes.unready + nodes.suspended + nodes.coming_up - leaving
        if unread:
            come += sum(
                not one.deleting and group_machines.is_among(one, unread) for one in machines.all
            )
        come += _marked(group, machines, come=come, marked=nodes.deleting)
        missing = self._target(group, now) - come - len(overdue) - len(failed)
        give_back = 0
        starting = nodes.coming_up - nodes.not_awaited
        request = self._settle(group, missing, starting, provision_time, now)
        if request is not None and now >= request.deadline and sighting.machines is not None:
            there = sum(not one.creating for one in waiting)
            give_back = max(0, min(missing - there, group.target - group.min_size))
            late = max(0, missing) + starting
            failure = Failure(
                code=TIMEOUT, message=f"not up within {provision_time:g} s of the request"
            )
            happened.append(
                RegistryEvent(group=group.id, nodes=late, failure=failure, seconds=provision_time)
            )
            self.failed(group.id, failure, now=now, patience=patience)
            del self._requests[group.id]
        amiss = nodes.unready - nodes.blameless + len(overdue)
        share = policy.max_total_unready_percentage / 100
        healthy = nodes.healthy and (
            amiss <= policy.ok_total_unready_count or amiss <= share * (come + len(overdue))
        )
        backoff = self.backed_off(group.id, now=now)
        reason = BACKED_OFF if backoff is not None else ""
        return GroupHealth(
            group=group.id,
            upcoming=max(0, missing - give_back) + nodes.coming_up,
            unregistered=len(waiting),
            overdue=tuple(one.name for one in overdue),
            failed=tuple(one.name for one in failed),
            give_back=give_back,
            healthy=healthy,
            skip_reason=reason if healthy else NOT_READY_FOR_SCALE_UP,
            scaling_up=group.id in self._requests,
            backoff=backoff,
        )

    def _target(self, group: Group, now: float) -> int:
        """What is wanted of the group, also while its provider does not tell yet."""
        request = self._requests.get(group.id)
        if request is None or now - request.at >= TARGET_LAG:
            return group.target
        return max(group.target, min(request.target, group.max_size))

    def _settle(
        self, group: Group, missing: int, coming_up: int, provision_time: float, now: float
    ) -> ScaleRequest | None:
        """The request that stands, given how many nodes are missing, and how many not up yet."""
        request = self._requests.get(group.id)
        if missing <= 0 and (request is None or not coming_up):
            self._requests.pop(group.id, None)
            return None
        if request is None:
            request = self._requests[group.id] = ScaleRequest(
                increase=missing,
                at=now,
                deadline=now + provision_time,
                target=group.target,
                found=True,
            )
        return request

    def _sort_machines(
        self, sighting: GroupObservation, registered: frozenset[str]
    ) -> SortedMachines:
        """The group's machines; mostly they and the nodes are those of the last time."""
        name, machines = sighting.group.id, sighting.machines or ()
        known = self._sorted.get(name)
        if known is None or known.all is not machines or known.registered is not registered:
            known = self._sorted[name] = group_machines.sort(machines, registered)
        return known

    def _sort_unregistered(
        self,
        sighting: GroupObservation,
        machines: SortedMachines,
        provision_time: float,
        now: float,
    ) -> tuple[list[GroupMachine], list[GroupMachine]]:
        """The machines no node has registered for: those still in time, and those overdue."""
        name = sighting.group.id
        if sighting.machines is None:
            return [], []
        known, without_node = self._unregistered.get(name, {}), machines.without_node
        seen = {one.id: min(known.get(one.id, now), now) for one in without_node}
        self._unregistered[name] = seen
        # A machine being created may be only a number until it runs; its time is the request's.
        overdue = [
            one for one in without_node if not one.creating and now - seen[one.id] >= provision_time
        ]
        late = {one.id for one in overdue}
        return [one for one in without_node if one.id not in late], overdue

    def _note_failures(
        self,
        group: Group,
        machines: Sequence[GroupMachine],
        patience: GroupPatience,
        now: float,
        happened: list[RegistryEvent],
    ) -> None:
        known = self._failing.get(group.id, set())
        fresh = Counter(
            one.failure for one in machines if one.failure is not None and one.id not in known
        )
        # The target has them until they go, whether they failed before the request or after it.
        self.removed(group.id, len(known - {one.id for one in machines if not one.deleting}))
        self._failing[group.id] = {one.id for one in machines if one.failure is not None}
        for failure, count in fresh.items():
            happened.append(RegistryEvent(group=group.id, nodes=count, failure=failure))
            self._no_longer_awaits(group.id, count)
            self.failed(group.id, failure, now=now, patience=patience)


def restored(state: RegistryState, *, now: float) -> RegistryState:
    """A state as it can be trusted: nothing in it lies in the future, whoever set the clock."""
    return RegistryState(
        requests={
            name: msgspec.structs.replace(
                one, at=min(one.at, now), deadline=min(one.deadline, now + one.deadline - one.at)
            )
            for name, one in state.requests.items()
        },
        backoffs={
            name: msgspec.structs.replace(
                one, failed_at=min(one.failed_at, now), until=min(one.until, now + one.duration)
            )
            for name, one in state.backoffs.items()
        },
        unregistered={
            name: {machine: min(at, now) for machine, at in seen.items()}
            for name, seen in state.unregistered.items()
        },
        failing=state.failing,
        replacements={name: min(at, now) for name, at in state.replacements.items()},
    )


def _marked(group: Group, machines: SortedMachines, *, come: int, marked: int) -> int:
    """Nodes among those marked for deletion that the provider has yet to be asked to delete.

    The target has them, so they are not missing: while they are drained nothing comes in their
    place. Machines beyond the target are on their way out, told so by the provider or not.
    """
    surplus = max(0, machines.staying - group.target)
    return max(0, min(marked, machines.there - come) - surplus)
