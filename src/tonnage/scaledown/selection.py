"""Which nodes go together: one decision over all of them, tried in several orders.

Nodes that are empty go first. Then nodes are emptied one after the other, the idlest first, onto
those that stay: first onto nodes that cannot go, then onto the ones that would go last. When a node
goes that has taken in pods, they find another place with its own; each pod moves once, to its last
place.
"""

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from tonnage.objects.resources import cores_and_memory
from tonnage.scaledown.allowances import Allowances
from tonnage.scaledown.bins import Bins
from tonnage.scaledown.codes import KeepCode
from tonnage.scaledown.facts import MovingPod, NodeFacts
from tonnage.scaledown.portability import PodKinds
from tonnage.scaledown.relocation import Relocated
from tonnage.snapshot.records import PodRecord
from tonnage.snapshot.rows import Bools, RowIndex
from tonnage.snapshot.snapshot import Snapshot

_TRIED_IN_MANY_ORDERS = 64
"""Nodes to be emptied up to which several orders are tried."""
_ORDERS_BY_CHANCE = 6
_MENDED_AT_MOST = 50
"""Rounds after which a choice that is only mended is made anew."""


class SelectedRemoval(NamedTuple):
    """A node that goes, and where its pods go."""

    facts: NodeFacts
    placed: list[Relocated]


class ChosenNodes(NamedTuple):
    """The nodes that go, in the order they do, and why others that might have stay."""

    removals: list[SelectedRemoval]
    refused: dict[str, KeepCode]
    unplaced: dict[str, PodRecord]
    """Of nodes without a place for their pods, a pod that found none."""

    @property
    def names(self) -> set[str]:
        return {removal.facts.name for removal in self.removals}


class Contender(NamedTuple):
    """A node that may go, with what decides who goes first."""

    facts: NodeFacts
    utilisation: float
    unneeded_since: float
    price: float
    wanted: bool = False
    """Whether it is to go before all others."""


class Guard(Protocol):
    """Asked before a node goes, whether it may; told if it did not go after all."""

    def __call__(self, facts: NodeFacts) -> bool: ...
    def put_back(self, facts: NodeFacts) -> None: ...


class RelocationSearch(Protocol):
    """Takes nodes away one after the other, each with its pods at their new places."""

    usable: Bools
    unplaced: PodRecord | None

    def remove(self, facts: NodeFacts, order: RowIndex) -> list[Relocated] | None: ...


class SelectionQuestion(NamedTuple):
    """What is to be chosen from, and within what."""

    snapshot: Snapshot
    kinds: PodKinds
    contenders: Sequence[Contender]
    usable: Bools
    allowances: Callable[[], Allowances]
    relocation: Callable[[Bools], RelocationSearch]
    countable: bool
    """Whether places are a matter of counting alone."""
    guard: Callable[[], Guard]
    out_of_time: Callable[[], bool]
    as_upstream: bool


class KeptChoice:
    """The last choice in a large cluster; where little has changed, the next one begins with it."""

    def __init__(self) -> None:
        self._attempt: _Attempt | None = None
        self._kinds: PodKinds | None = None
        self._went = self._rounds = 0

    def resumed(self, question: SelectionQuestion) -> ChosenNodes | None:
        """The choice mended where it does not hold any more; `None` if it is to be made anew."""
        attempt, self._attempt = self._attempt, None
        if attempt is None or self._kinds is not question.kinds or self._rounds >= _MENDED_AT_MOST:
            return None
        found = attempt.resume(question, next(_orders(question.contenders)))
        # Where one goes less than before, another order may do better.
        if found is None or len(found.removals) < self._went:
            return None
        self._attempt, self._went, self._rounds = attempt, len(found.removals), self._rounds + 1
        return found

    def keep(self, question: SelectionQuestion, attempt: "_Attempt", found: ChosenNodes) -> None:
        self._attempt, self._kinds = attempt, question.kinds
        self._went, self._rounds = len(found.removals), 0


def choose(question: SelectionQuestion, kept: KeptChoice | None = None) -> ChosenNodes:
    """The most nodes that can go; of as many, those that cost most and move fewest pods."""
    if kept is not None:
        resumed = kept.resumed(question)
        if resumed is not None:
            return resumed
    best: ChosenNodes | None = None
    best_rank: tuple[float, ...] = ()
    for order in _orders(question.contenders):
        attempt = _Attempt(question, order)
        with question.snapshot.trial():
            found = attempt.run()
        prices = {one.facts.name: one.price for one in question.contenders}
        rank = (
            len(found.removals),
            sum(prices[removal.facts.name] for removal in found.removals),
            -sum(len(removal.placed) for removal in found.removals),
        )
        if best is None or rank > best_rank:
            best, best_rank = found, rank
        if question.out_of_time() or not _may_be_bettered(found):
            break
    assert best is not None
    if kept is not None and _is_large(question.contenders):
        kept.keep(question, attempt, found)
    return best


def _is_large(contenders: Iterable[Contender]) -> bool:
    """Whether one order is all that is tried."""
    return sum(not one.facts.is_empty for one in contenders) > _TRIED_IN_MANY_ORDERS


def _may_be_bettered(found: ChosenNodes) -> bool:
    """Whether another order might let a node go that this one had no place for."""
    return any(
        code in (KeepCode.NO_PLACE, KeepCode.NOT_THIS_TIME) for code in found.refused.values()
    )


def _orders(contenders: Sequence[Contender]) -> Iterator[list[Contender]]:
    """Orders in which nodes are emptied: always those first that cost least to disturb."""

    def cost(one: Contender) -> int:
        return one.facts.disruption_cost

    known = sorted(contenders, key=lambda one: (cost(one), one.unneeded_since, one.utilisation))
    yield known
    if _is_large(contenders) or sum(not one.facts.is_empty for one in contenders) < 2:
        return
    yield sorted(contenders, key=lambda one: (cost(one), len(one.facts.move), one.utilisation))
    yield sorted(contenders, key=lambda one: (cost(one), cores_and_memory(one.facts.node)))
    yield sorted(contenders, key=lambda one: (cost(one), -len(one.facts.move)))
    # A seed of our own: the same cluster always has the same plan.
    rng = random.Random(0)
    for _ in range(_ORDERS_BY_CHANCE):
        shuffled = list(known)
        rng.shuffle(shuffled)
        yield sorted(shuffled, key=cost)


class _Attempt:
    """One order tried to the end."""

    def __init__(self, question: SelectionQuestion, order: Sequence[Contender]) -> None:
        self._question = question
        self._allowances = question.allowances()
        self._order = sorted(order, key=_size) if self._allowances.bounded else list(order)
        self._relocation = question.relocation(question.usable.copy())
        self._guard = question.guard()
        self._taken_in: dict[int, dict[str, MovingPod]] = {}
        """Pods that rows have taken in."""
        self._removals: dict[str, SelectedRemoval] = {}
        self._entries: dict[str, tuple[list[Relocated], int]] = {}
        """Of every pod that moves, where its last place is written."""
        self._refused: dict[str, KeepCode] = {}
        self._unplaced: dict[str, PodRecord] = {}

    def run(self) -> ChosenNodes:
        """Try everybody who is not chosen yet."""
        single = [
            one
            for one in self._order
            if not _is_whole(one.facts) and one.facts.name not in self._removals
        ]
        for members in _wholes(self._order):
            self._remove_whole(members)
        first = [one for one in single if one.wanted]
        for one in first:
            self._remove(one.facts, self._destinations(first))
        for one in single:
            if one.facts.is_empty and not one.wanted:
                self._remove(one.facts, ())
        drained = [one for one in single if not one.facts.is_empty and not one.wanted]
        destinations = self._destinations(drained)
        for one in drained:
            if self._question.out_of_time():
                self._refused[one.facts.name] = KeepCode.NOT_THIS_TIME
                continue
            self._remove(one.facts, destinations)
        return ChosenNodes(list(self._removals.values()), self._refused, self._unplaced)

    def resume(self, question: SelectionQuestion, order: Sequence[Contender]) -> ChosenNodes | None:
        """Go on from where the last run ended, in a cluster that is a little different.

        Nodes whose pods are what they were stay chosen where their places hold; whoever else may
        go is tried on top. `None` where places are no matter of counting, then or now.
        """
        bins = self._relocation
        if not question.countable or not isinstance(bins, Bins):
            return None
        if any(one.wanted for one in order):
            return None
        now = {one.facts.name: one.facts for one in order}
        ranks = {name: number for number, name in enumerate(self._removals)}
        for removal in list(self._removals.values()):
            facts = now.get(removal.facts.name)
            if facts is None or facts.row != removal.facts.row or facts.move != removal.facts.move:
                self._undo(removal, bins)
        short = bins.renew(question.usable)
        if short is None:
            return None
        for row in short:
            for guest in list(self._taken_in.get(row, {}).values()):
                chosen = self._removals.get(guest.record.node_name)
                if chosen is not None:
                    self._undo(chosen, bins)
        self._question, self._guard = question, question.guard()
        self._allowances = question.allowances()
        self._order = sorted(order, key=_size) if self._allowances.bounded else list(order)
        self._refused, self._unplaced = {}, {}
        for name, removal in list(self._removals.items()):
            facts = now[name]
            if self._allowances.refusal(facts) is None and self._guard(facts):
                self._allowances.take(facts)
                self._removals[name] = removal._replace(facts=facts)
            else:
                self._undo(removal, bins)
        self.run()
        # In the order they had, so that waves stay what they were.
        removals = sorted(
            self._removals.values(), key=lambda one: ranks.get(one.facts.name, len(ranks))
        )
        self._removals = {removal.facts.name: removal for removal in removals}
        return ChosenNodes(removals, self._refused, self._unplaced)

    def _undo(self, removal: SelectedRemoval, bins: Bins) -> None:
        """Let the node stay."""
        del self._removals[removal.facts.name]
        bins.put_back(removal.facts, removal.placed)
        for one in removal.placed:
            del self._entries[one.pod.key]
            del self._taken_in[one.row][one.pod.key]

    def _destinations(self, drained: Sequence[Contender]) -> RowIndex:
        """Rows that stay, the fullest first, then those to be emptied, the last first."""
        usable = self._relocation.usable
        last = [one.facts.row for one in reversed(drained) if usable[one.facts.row]]
        staying = usable.copy()
        staying[last] = False
        rows = np.flatnonzero(staying)
        columns = self._question.snapshot.columns
        share = np.zeros(len(rows))
        for resource in (0, 1):
            has = columns.allocatable[resource].data[rows]
            used = columns.used[resource].data[rows]
            share = np.maximum(share, used / np.maximum(has, 1))
        rows = rows[np.argsort(-share, kind="stable")]
        return np.concatenate((rows, np.array(last, dtype=rows.dtype)))

    def _remove(
        self, facts: NodeFacts, destinations: RowIndex | Sequence[int], *, whole: bool = False
    ) -> bool:
        code = self._allowances.refusal(facts, whole_group=whole)
        if code is None and not self._guard(facts):
            code = KeepCode.LAST_OF_ZONE
        if code is not None:
            self._refused[facts.name] = code
            return False
        order = np.asarray(destinations, dtype=np.intp)
        guests = self._taken_in.get(facts.row, {})
        everybody = facts
        if guests:
            everybody = facts._replace(move=(*facts.move, *guests.values()))
        placed = self._relocation.remove(everybody, order)
        if placed is None:
            self._refused[facts.name] = KeepCode.NO_PLACE
            if self._relocation.unplaced is not None:
                self._unplaced[facts.name] = self._relocation.unplaced
            self._guard.put_back(facts)
            return False
        self._refused.pop(facts.name, None)
        self._allowances.take(facts)
        self._settle(everybody, placed)
        if guests:
            self._send_on(placed, guests)
            placed = [one for one in placed if one.pod.key not in guests]
        self._enter(SelectedRemoval(facts, placed))
        return True

    def _settle(self, facts: NodeFacts, placed: Iterable[Relocated]) -> None:
        """Note who is where now."""
        self._taken_in.pop(facts.row, None)
        moving = {one.record.key: one for one in facts.move}
        for one in placed:
            self._taken_in.setdefault(one.row, {})[one.pod.key] = moving[one.pod.key]

    def _send_on(self, placed: Iterable[Relocated], guests: Mapping[str, MovingPod]) -> None:
        """Let pods of nodes that went before go to their last place at once."""
        for one in placed:
            if one.pod.key in guests:
                before, position = self._entries[one.pod.key]
                before[position] = one

    def _enter(self, removal: SelectedRemoval) -> None:
        self._removals[removal.facts.name] = removal
        for position, one in enumerate(removal.placed):
            self._entries[one.pod.key] = (removal.placed, position)

    def _remove_whole(self, members: Sequence[NodeFacts]) -> None:
        """All nodes of a group that goes from its maximum to zero, or none."""
        before = [SelectedRemoval(facts, list(placed)) for facts, placed in self._removals.values()]
        taken_in = {row: dict(guests) for row, guests in self._taken_in.items()}
        usable = self._relocation.usable.copy()
        group = members[0].group
        assert group is not None
        rows = {facts.row for facts in members}
        with self._question.snapshot.trial() as trial:
            everything = (
                len(members) >= max(len(group.nodes), group.target)
                and group.target - len(members) >= group.min_size
            )
            for facts in members if everything else ():
                stays = np.flatnonzero(self._relocation.usable)
                stays = stays[[row not in rows for row in stays.tolist()]]
                if not self._remove(facts, stays, whole=True):
                    break
            else:
                if everything:
                    trial.keep()
                    return
        for removal in list(self._removals.values())[len(before) :]:
            self._allowances.give_back(removal.facts)
            self._guard.put_back(removal.facts)
        self._removals = {}
        for removal in before:
            self._enter(removal)
        self._taken_in, self._relocation.usable = taken_in, usable
        for facts in members:
            self._refused[facts.name] = KeepCode.ALL_OR_NOTHING


def _size(one: Contender) -> tuple[int, int]:
    return cores_and_memory(one.facts.node)


def _is_whole(facts: NodeFacts) -> bool:
    return facts.group is not None and facts.group.all_or_nothing


def _wholes(order: Iterable[Contender]) -> Iterable[list[NodeFacts]]:
    """The nodes of each group that goes only as a whole; groups without pods first."""
    members: dict[str, list[NodeFacts]] = {}
    for one in order:
        if _is_whole(one.facts) and one.facts.group is not None:
            members.setdefault(one.facts.group.id, []).append(one.facts)
    return sorted(members.values(), key=lambda nodes: sum(len(facts.move) for facts in nodes))
