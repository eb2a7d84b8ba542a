"""From a cluster to a scale-down plan: what goes, in which order, and why the rest stays."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tonnage.groups.readiness import READY
from tonnage.objects.phrases import listed
from tonnage.objects.timestamps import rfc3339
from tonnage.scaledown import (
    bounds,
    codes,
    cures,
    eligibility,
    kept_room,
    promised_pods,
    rehearsal,
    selection,
    timers,
    waves,
)
from tonnage.scaledown.allowances import Allowances
from tonnage.scaledown.bins import Bins
from tonnage.scaledown.codes import KeepCode
from tonnage.scaledown.decision_cache import DecisionCache
from tonnage.scaledown.facts import NodeFacts, judged
from tonnage.scaledown.inputs import ScaleDownInputs
from tonnage.scaledown.plan import (
    Action,
    Alone,
    Move,
    NodeDecision,
    ScaleDownBounds,
    ScaleDownPlan,
)
from tonnage.scaledown.relocation import Relocation
from tonnage.scaledown.selection import ChosenNodes, Contender, KeptChoice, RelocationSearch
from tonnage.scaledown.state import ScaleDownState
from tonnage.scaledown.timers import CoolDown
from tonnage.scaledown.waves import ScheduledRemoval
from tonnage.scaleup import placement, pod_groups
from tonnage.snapshot.records import PodRecord
from tonnage.snapshot.rows import Bools
from tonnage.snapshot.snapshot import Snapshot

_JUDGED_ALONE = 300
"""Candidates up to which each is judged alone as well; in larger clusters only who stays for want
of a place is."""


_MESSAGES = {KeepCode.NOT_THIS_TIME: "pods that wait for a node need it, or time ran out"}


class ScaleDownDecision(NamedTuple):
    """The plan, and what to remember for the next round."""

    plan: ScaleDownPlan
    state: ScaleDownState


def decide(
    inputs: ScaleDownInputs,
    *,
    cache: DecisionCache | None = None,
    out_of_time: Callable[[], bool] = lambda: False,
) -> ScaleDownDecision:
    """What to give back. The snapshot is left as it was.

    `cache` keeps what was found of nodes from one decision to the next.
    """
    with inputs.snapshot.trial():
        return _DecisionRound(inputs, cache or DecisionCache(), out_of_time).run()


def judge(
    inputs: ScaleDownInputs, node: str, *, cache: DecisionCache | None = None
) -> NodeDecision | None:
    """Whether one node could go now, as the only one, and why not; `None` if there is no such node.

    Its timers and cool-downs are not looked at. Where it can go, its moves are there. With a
    `cache` what the last decision found of other nodes, and of the zones of volumes, still counts.
    """
    with inputs.snapshot.trial():
        return _DecisionRound(inputs, cache or DecisionCache(), lambda: False, node).single(node)


class _DecisionRound:
    """One decision in the making, on a trial of the snapshot."""

    def __init__(
        self,
        inputs: ScaleDownInputs,
        cache: DecisionCache,
        out_of_time: Callable[[], bool],
        only: str | None = None,
    ) -> None:
        self._inputs = inputs
        self._options = inputs.options
        self._snapshot = inputs.snapshot
        self._cache = cache
        self._out_of_time = out_of_time
        if not self._options.as_upstream:
            cache.pools.open(inputs)
        reservations = inputs.assessed.reservations
        reservations.place(self._snapshot)
        self._awaited = {entry.node for entry in reservations}
        """Nodes that pods are on their way to, so that none of them goes."""
        promised = promised_pods.of(inputs) if self._options.as_upstream else {}
        self._facts = cache.facts(inputs, promised, only=only)
        self._somewhere = judged(inputs, promised.get("", ()))
        asked_of = self._facts if only is None else {only} & self._facts.keys()
        self._eligible = {name: eligibility.of(self._facts[name], inputs) for name in asked_of}
        self._kinds = cache.kinds(inputs)
        self._zones = cache.zones(inputs, anew=only is None)
        self._usable = _usable(inputs, self._facts)
        self._codes: dict[str, KeepCode] = {}
        self._until: dict[str, float] = {}
        self._unplaced: dict[str, str] = {}
        self._kept_rooms: dict[str, str] = {}

    def run(self) -> ScaleDownDecision:
        contenders = self._contenders()
        self._look_at_kinds(contenders)
        waited_for = self._place_pending(contenders)
        contenders = [one for one in contenders if one.facts.row not in waited_for]
        for one in self._facts.values():
            if one.row in waited_for:
                self._codes.setdefault(one.name, KeepCode.NOT_THIS_TIME)
        contenders = self._without_kept_room(contenders)
        could_go = self._choose(contenders, self._cache.could_go)
        unneeded = [
            one.facts.name
            for one in contenders
            if could_go.refused.get(one.facts.name)
            in (None, KeepCode.MIN_SIZE, KeepCode.MIN_RESOURCES)
        ]
        state = timers.renewed(self._inputs.state, unneeded, self._inputs.now)
        chosen, cool_down = self._in_time(contenders, could_go, state)
        scheduled = self._scheduled(chosen, contenders)
        return ScaleDownDecision(self._plan(scheduled, state, cool_down), state)

    def _scheduled(
        self, chosen: ChosenNodes, contenders: Sequence[Contender]
    ) -> list[ScheduledRemoval]:
        """The nodes in waves; where pods have a say in each other's places, played through.

        A node that does not come through stays, and the others are chosen anew.
        """
        while True:
            if not self._by_name or self._options.as_upstream:
                return self._cache.schedule(chosen.removals, self._options)
            scheduled = waves.schedule(chosen.removals, self._options)
            played, failed = rehearsal.rehearse(
                self._snapshot, self._inputs.features, scheduled, self._usable
            )
            if failed is None:
                return played
            self._codes[failed] = KeepCode.NO_PLACE
            names = chosen.names - {failed}
            contenders = [one for one in contenders if one.facts.name in names]
            chosen = self._choose(contenders)
            self._note_refused(chosen)

    def single(self, name: str) -> NodeDecision | None:
        """What becomes of one node, were it the only one."""
        if name not in self._facts:
            return None
        contenders = self._contenders()
        self._look_at_kinds(contenders)
        chosen = self._choose(self._without_kept_room(contenders))
        self._note_refused(chosen)
        state = timers.renewed(self._inputs.state, (), self._inputs.now)
        for removal in waves.schedule(chosen.removals, self._options):
            return self._going(removal, state)
        return self._staying(self._facts[name], state)

    def _contenders(self) -> list[Contender]:
        """Nodes that may go, as far as they alone can tell; of the others the code is noted."""
        found = []
        since = self._inputs.state.unneeded
        for name, known in self._eligible.items():
            facts, code = self._facts[name], known.code
            if code is None and facts.blocker is not None:
                code = KeepCode.BLOCKED_BY_POD
                if facts.valid_until != float("inf"):
                    self._until[name] = facts.valid_until
            if code is None and facts.on_completion:
                code = KeepCode.WAITS_FOR_COMPLETION
            if code is None and name in self._awaited:
                code = KeepCode.NOT_THIS_TIME
            if code is not None:
                self._codes[name] = code
                continue
            price = facts.group.price_per_hour if facts.group is not None else None
            value = known.utilisation.value if known.utilisation is not None else 0.0
            wanted = name in self._inputs.wanted
            unneeded = since.get(name, self._inputs.now)
            found.append(Contender(facts, value, unneeded, price or 0.0, wanted))
        return found

    def _place_pending(self, contenders: Sequence[Contender]) -> set[int]:
        """Give pods that wait their place; gives the rows of nodes that might have gone else."""
        pending = self._inputs.assessed.pending
        if self._options.as_upstream or not pending:
            return set()
        last = {one.facts.row for one in contenders}
        usable = np.flatnonzero(self._usable)
        order = np.array(sorted(usable.tolist(), key=lambda row: row in last), dtype=np.intp)
        fits, _ = placement.place(
            self._snapshot,
            pod_groups.group(self._snapshot, pending),
            self._inputs.features,
            rows=self._usable,
            order=order,
        )
        return {placed.row for placed in fits if placed.row in last}

    def _without_kept_room(self, contenders: Sequence[Contender]) -> list[Contender]:
        """Those that no room that is kept ready is on; it is from here on."""
        held = kept_room.hold(self._inputs, contenders, self._usable)
        for one in contenders:
            if one.facts.row in held:
                self._codes[one.facts.name] = KeepCode.KEPT_ROOM
                self._kept_rooms[one.facts.name] = listed(held[one.facts.row])
        return [one for one in contenders if one.facts.row not in held]

    def _choose(
        self, contenders: Sequence[Contender], kept: KeptChoice | None = None
    ) -> ChosenNodes:
        inputs, cluster = self._inputs, self._inputs.cluster
        return selection.choose(
            selection.SelectionQuestion(
                snapshot=self._snapshot,
                kinds=self._kinds,
                contenders=contenders,
                usable=self._usable,
                allowances=lambda: Allowances(
                    self._options, cluster.nodes, inputs.groups, inputs.state
                ),
                relocation=self._relocator,
                countable=self._countable,
                guard=self._zones.guard,
                out_of_time=self._out_of_time,
                as_upstream=self._options.as_upstream,
            ),
            kept,
        )

    def _look_at_kinds(self, contenders: Sequence[Contender]) -> None:
        """Of all pods now, while every node is there to be asked: whether counting is enough."""
        told = [self._cache.kinds_on(one.facts) for one in contenders]
        self._by_name = any(kinds.by_name for kinds in told)
        self._countable = all(kinds.countable for kinds in told) and not any(
            one.facts.group and one.facts.group.all_or_nothing for one in contenders
        )

    def _relocator(self, usable: Bools) -> RelocationSearch:
        if self._countable:
            return Bins(self._snapshot, self._kinds, usable=usable)
        return self._relocation(usable)

    def _relocation(self, usable: Bools, *, by_name: bool | None = None) -> Relocation:
        return Relocation(
            self._snapshot,
            self._inputs.features,
            self._kinds,
            usable=usable,
            by_name=self._by_name if by_name is None else by_name,
            add_up_storage=not self._options.as_upstream,
        )

    def _in_time(
        self, contenders: Sequence[Contender], could_go: ChosenNodes, state: ScaleDownState
    ) -> tuple[ChosenNodes, CoolDown | None]:
        """Those whose time has come; the others keep their nodes, and are not counted on."""
        self._note_refused(could_go)
        options, now = self._options, self._inputs.now
        cool_down = None
        if not options.scale_down_delay_type_local:
            cool_down = timers.cool_down(state, now, options)
        ready = []
        for one in contenders:
            name = one.facts.name
            if name not in state.unneeded:
                continue
            wait = cool_down
            if wait is None and one.facts.group is not None and options.scale_down_delay_type_local:
                wait = timers.cool_down(state, now, options, group=one.facts.group.id)
            short = timers.too_short(
                state.unneeded[name],
                now,
                self._inputs.options_of(one.facts.group),
                ready=self._eligible[name].ready,
            )
            if short is not None and name not in self._inputs.wanted:
                self._codes[name], self._until[name] = short
            elif wait is not None:
                self._codes[name], self._until[name] = KeepCode.COOLING_DOWN, wait.until
            elif self._has_to_pay_back(one.facts):
                # Its pods have just been moved to it.
                until = self._inputs.state.pays_back[name]
                self._codes[name], self._until[name] = KeepCode.COOLING_DOWN, until
            else:
                ready.append(one)
        if len(ready) == len(state.unneeded):
            return could_go, cool_down
        chosen = self._choose(ready, self._cache.in_time)
        self._note_refused(chosen)
        return chosen, cool_down

    def _has_to_pay_back(self, facts: NodeFacts) -> bool:
        until = self._inputs.state.pays_back.get(facts.name, 0.0)
        wanted = facts.name in self._inputs.wanted
        return not facts.is_empty and not wanted and until > self._inputs.now

    def _note_refused(self, found: ChosenNodes) -> None:
        for name, code in found.refused.items():
            self._codes[name] = code
            record = found.unplaced.get(name)
            if record is not None:
                self._unplaced[name] = record.key

    def _plan(
        self,
        scheduled: Sequence[ScheduledRemoval],
        state: ScaleDownState,
        cool_down: CoolDown | None,
    ) -> ScaleDownPlan:
        going = {removal.facts.name: removal for removal in scheduled}
        nodes = tuple(
            self._going(going[name], state) if name in going else self._staying(facts, state)
            for name, facts in self._facts.items()
        )
        fixed = [f for name, f in self._facts.items() if name not in going and self._stays(name)]
        kept = {facts.name for facts in fixed}
        free = [facts for name, facts in self._facts.items() if name not in kept]
        saved = sum(
            facts.group.price_per_hour or 0.0
            for name, facts in self._facts.items()
            if name in going and facts.group is not None
        )
        return ScaleDownPlan(
            nodes=nodes,
            pods=(
                *(pod for facts in self._facts.values() for pod in facts.pods),
                *self._somewhere,
            ),
            bounds=ScaleDownBounds(
                nodes=bounds.nodes_needed(self._snapshot, fixed, free),
                remaining=len(self._facts) - len(going),
            ),
            saves_per_hour=money(saved) if saved else None,
            cool_down=cool_down.reason if cool_down is not None else None,
            partial=self._out_of_time(),
            warnings=tuple(self._warnings()),
        )

    def _stays(self, name: str) -> bool:
        """Whether the node stays whatever is chosen."""
        return self._codes.get(name) not in (
            KeepCode.NO_PLACE,
            KeepCode.NOT_THIS_TIME,
            KeepCode.KEPT_ROOM,
            KeepCode.MIN_SIZE,
            KeepCode.ALL_OR_NOTHING,
            None,
        )

    def _warnings(self) -> list[str]:
        inputs = self._inputs
        problems = (one for group in inputs.groups for one in group.problems)
        return [*inputs.budgets.problems, *problems, *inputs.assessed.templates.warnings]

    def _going(self, removal: ScheduledRemoval, state: ScaleDownState) -> NodeDecision:
        facts = removal.facts
        known = self._eligible[facts.name]
        price = facts.group.price_per_hour if facts.group is not None else None
        since = state.unneeded.get(facts.name)
        return NodeDecision(
            node=facts.name,
            group=facts.group.id if facts.group is not None else None,
            candidate=True,
            utilisation=known.utilisation,
            alone=self._alone(facts, goes=True),
            action=Action.DELETE if facts.is_empty else Action.DRAIN,
            wave=removal.wave,
            since=rfc3339(since) if since is not None else None,
            saves=money(price) if price is not None else None,
            moves=self._cache.told(removal, self._moves),
            daemon_set=facts.daemons,
        )

    def _moves(self, removal: ScheduledRemoval) -> tuple[Move, ...]:
        return tuple(
            Move(
                pod=move.pod.record.key,
                to=self._snapshot.name_of(move.row),
                wave=move.wave,
                detach=volumes_of(self._snapshot, move.pod.record),
            )
            for move in removal.moves
        )

    def _staying(self, facts: NodeFacts, state: ScaleDownState) -> NodeDecision:
        known = self._eligible[facts.name]
        code = self._codes.get(facts.name, KeepCode.NOT_THIS_TIME)
        since, until = state.unneeded.get(facts.name), self._until.get(facts.name)
        blocker = facts.blocker if code is KeepCode.BLOCKED_BY_POD else None
        unplaced = self._unplaced.get(facts.name) if code is KeepCode.NO_PLACE else None
        return NodeDecision(
            node=facts.name,
            group=facts.group.id if facts.group is not None else None,
            candidate=known.not_candidate is None,
            not_candidate=known.not_candidate,
            utilisation=known.utilisation,
            alone=None if known.not_candidate else self._alone(facts, goes=False),
            action=Action.KEEP,
            reason=codes.NODE_REASONS[code].upstream,
            code=code.value,
            pod=blocker.pod if blocker is not None else unplaced,
            pod_reason=blocker.reason if blocker is not None else None,
            message=known.message or self._kept_rooms.get(facts.name) or _MESSAGES.get(code),
            since=rfc3339(since) if since is not None else None,
            until=rfc3339(until) if until is not None else None,
            frees=cures.of(
                code,
                facts,
                self._inputs,
                shares=known.utilisation,
                unplaced=unplaced,
                zones=self._zones,
                kept_room=self._kept_rooms.get(facts.name, ""),
            ),
        )

    def _alone(self, facts: NodeFacts, *, goes: bool) -> Alone | None:
        if facts.blocker is not None:
            return Alone(
                removable=False,
                reason=codes.NODE_REASONS[KeepCode.BLOCKED_BY_POD].upstream,
                pod=facts.blocker.pod,
                pod_reason=facts.blocker.reason,
            )
        if not self._options.as_upstream and len(self._facts) > _JUDGED_ALONE and not goes:
            return None
        if not (goes and not self._options.as_upstream) and not self._has_place(facts):
            return Alone(removable=False, reason=codes.NODE_REASONS[KeepCode.NO_PLACE].upstream)
        return Alone(
            removable=True,
            move=tuple(moving.record.key for moving in facts.move),
            daemon_set=facts.daemons,
            on_completion=facts.on_completion,
        )

    def _has_place(self, facts: NodeFacts) -> bool:
        """Whether the node's pods find a place when it is the only one to go."""
        if facts.is_empty:
            return True
        # Pods that are only counted need not leave first: their own node is asked in no case.
        by_name = self._options.as_upstream or self._cache.kinds_on(facts).by_name
        with self._snapshot.trial():
            relocation = self._relocation(self._usable.copy(), by_name=by_name)
            rows = np.arange(len(self._usable))
            return relocation.remove(facts, rows, as_listed=True) is not None


def _usable(inputs: ScaleDownInputs, facts: Mapping[str, NodeFacts]) -> Bools:
    """Rows of nodes that may take pods in."""
    snapshot = inputs.snapshot
    usable = np.zeros(snapshot.table.size, dtype=np.bool_)
    for name, one in facts.items():
        readiness = inputs.assessed.readiness.nodes.get(name)
        usable[one.row] = inputs.options.as_upstream or (
            name not in inputs.state.removing and (readiness is None or readiness.state == READY)
        )
    return usable


def volumes_of(snapshot: Snapshot, record: PodRecord) -> tuple[str, ...]:
    """The volumes that go along with a pod."""
    if not record.volumes:
        return ()
    found = []
    for volume in record.volumes:
        claim = snapshot.storage.claim(record.meta.namespace, volume.claim)
        if claim is not None and claim.spec.volume_name:
            found.append(claim.spec.volume_name)
    return tuple(dict.fromkeys(found))


def money(amount: float) -> str:
    """An amount of whatever currency prices have."""
    return f"{amount:.6f}".rstrip("0").rstrip(".")
