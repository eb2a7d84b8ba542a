"""Plans that help a gang whole or not at all.

The planner places pods; which gangs it is asked about is decided here. All of them are tried first.
Those that come out whole are kept, the others are tried beside them in ever smaller parts, so that
a few that have no room cost a few plans, and gangs of one shape only one. A gang that finds no room
leaves nothing behind: no node is bought for a part of it.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from typing import Protocol

import msgspec

from tonnage.objects.gangs import GangName
from tonnage.scaleup.gangs import Gang
from tonnage.scaleup.plan import GangOutcome, GroupReason, NotHelped, Plan
from tonnage.scaleup.pod_groups import PodGroup
from tonnage.scaleup.request import GangRequest, Request

_FEW_ATTEMPTS = 3

NO_TIME = "the time for a decision was over"


class PlanOnce(Protocol):
    """Makes a plan for the pods of a request, in no more attempts than are said."""

    def __call__(self, request: Request, *, most_attempts: int | None = None) -> Plan: ...


class _Refused(msgspec.Struct, frozen=True):
    """The plan in which the gang, or one like it, was the one that was not whole."""

    placed: int
    plan: Plan | None
    pod: NotHelped | None


def plan(request: Request, plan_once: PlanOnce, *, most_attempts: int | None = None) -> Plan:
    """The plan for all pods of the request, gangs whole."""
    if not request.gangs:
        return plan_once(request, most_attempts=most_attempts)
    return _Admission(request, plan_once, most_attempts).plan()


class _Admission:
    """Every gang is admitted, refused, or yet to be tried; `_best` is a plan for those admitted."""

    def __init__(self, request: Request, plan_once: PlanOnce, most: int | None) -> None:
        self._request = request
        self._plan_once = plan_once
        self._most = most
        self._admitted: list[GangRequest] = []
        self._refused: dict[int, _Refused] = {}
        self._best: Plan | None = None

    def plan(self) -> Plan:
        sound = [one for one in self._request.gangs if not one.gang.problem]
        untried = [sound]
        shapes: dict[Hashable, _Refused] = {}
        while untried:
            some = untried.pop()
            for one in some:
                if one.shape in shapes:
                    self._refused[id(one)] = shapes[one.shape]
            some = [one for one in some if id(one) not in self._refused]
            if not some:
                continue
            found = self._try(some)
            broken = _broken(found, (*self._admitted, *some))
            if not broken:
                self._admitted += some
                self._best = found
            elif found.partial:
                # There is no time to find out who could be helped.
                for one in some:
                    self._refused[id(one)] = _Refused(0, None, None)
            elif len(some) == 1:
                shapes[some[0].shape] = self._refused[id(some[0])] = _refusal(some[0], found)
            else:
                untried += _parts(some, broken)
        return self._told(self._carefully())

    def _carefully(self) -> Plan:
        """The plan for those admitted, with as much care as a plan for pods that go one by one."""
        best = self._best
        if best is not None and not best.scale_ups:
            return best
        found = self._try([], most=self._most)
        return best if best is not None and _broken(found, self._admitted) else found

    def _try(self, some: Sequence[GangRequest], *, most: int | None = _FEW_ATTEMPTS) -> Plan:
        pods = [group for one in (*self._admitted, *some) for group in one.groups]
        return self._plan_once(
            msgspec.structs.replace(
                self._request, pending=[*self._request.pending, *pods], gangs=()
            ),
            most_attempts=most,
        )

    def _told(self, best: Plan) -> Plan:
        """The plan, with what became of each gang and why."""
        groups = [group.id for group in self._request.groups]
        admitted = {id(one) for one in self._admitted}
        outcomes: list[GangOutcome] = []
        left_out: list[NotHelped] = []
        for one in self._request.gangs:
            helped = id(one) in admitted
            refused = self._refused.get(id(one))
            reason = "" if helped else _reason(one.gang, refused)
            outcomes.append(_outcome(one.gang, helped=helped, reason=reason))
            if not helped:
                left_out += _not_helped(one.gang, reason, refused, groups)
        return msgspec.structs.replace(
            best, not_helped=(*best.not_helped, *left_out), gangs=tuple(outcomes)
        )


def parts(gangs: Sequence[Gang]) -> dict[str, tuple[GangName, bool]]:
    """Which pods may be taken for each other: not those of two gangs, nor needed and spare ones."""
    return {
        record.key: (gang.name, number >= gang.lacks)
        for gang in gangs
        for number, record in enumerate(gang.members)
    }


def taken_out(
    groups: Sequence[PodGroup], gangs: Sequence[Gang]
) -> tuple[list[PodGroup], list[GangRequest]]:
    """The groups of pods that go one by one, and those of each gang; its spare pods come last."""
    part_of = parts(gangs)
    single: list[PodGroup] = []
    of_gang: dict[GangName, list[PodGroup]] = {gang.name: [] for gang in gangs}
    for group in groups:
        part = part_of.get(group.sample.key)
        if part is None:
            single.append(group)
        else:
            of_gang[part[0]].append(group.part(slice(None), rank=int(part[1])))
    return single, [GangRequest(gang, own := of_gang[gang.name], shape_of(own)) for gang in gangs]


def shape_of(groups: Iterable[PodGroup]) -> Hashable:
    """What a gang asks for, whatever its pods are called; pods followed by name are like no other.

    Where one gang finds no room, another of the same shape finds none.
    """
    kinds: Counter[Hashable] = Counter()
    for group in groups:
        footprint = group.footprint
        kinds[
            group.sample.key if group.tracked else group.sample.pod_class.identity,
            tuple(sorted(footprint.slots.items())),
            tuple(sorted(footprint.storage.items())),
            group.rank,
        ] += group.size
    return frozenset(kinds.items())


def _broken(found: Plan, gangs: Iterable[GangRequest]) -> set[int]:
    """The gangs that do not come out whole."""
    left = {one.pod for one in found.not_helped}
    return {id(one) for one in gangs if _placed(one.gang, left) < one.gang.lacks}


def _placed(gang: Gang, left: set[str]) -> int:
    return sum(record.key not in left for record in gang.members)


def _parts(some: list[GangRequest], broken: set[int]) -> list[list[GangRequest]]:
    """What to try next, last first: those that were whole, or else the first half."""
    whole = [one for one in some if id(one) not in broken]
    rest = [one for one in some if id(one) in broken]
    if whole and rest:
        return [rest, whole]
    half = len(some) // 2 if len({one.shape for one in some}) > 1 else 1
    return [some[half:], some[:half]]


def _refusal(one: GangRequest, found: Plan) -> _Refused:
    members = {record.key for record in one.gang.members}
    left = [pod for pod in found.not_helped if pod.pod in members]
    return _Refused(len(members) - len(left), found, left[0] if left else None)


def _reason(gang: Gang, refused: _Refused | None) -> str:
    if gang.problem:
        return gang.problem
    if refused is None or refused.plan is None:
        return NO_TIME
    beside = f" beside the {gang.running} that run" if gang.running else ""
    return f"{gang.lacks} pods have to run at once{beside}, and there is room for {refused.placed}"


def _not_helped(
    gang: Gang, reason: str, refused: _Refused | None, groups: Sequence[str]
) -> list[NotHelped]:
    """The same answer for every member: that of the gang, and of the pod that found no place."""
    pod = refused.pod if refused is not None else None
    by_group = {one.group: one for one in pod.reasons} if pod is not None else {}
    text = f"gang {gang.name}: {reason}"
    reasons = tuple(
        msgspec.structs.replace(by_group[name], reasons=(text, *by_group[name].reasons))
        if name in by_group
        else GroupReason(group=name, reasons=(text,))
        for name in dict.fromkeys((*groups, *by_group))
    )
    return [
        NotHelped(
            pod=record.key,
            never_fits=pod is not None and pod.never_fits,
            nearest=pod.nearest if pod is not None else None,
            reasons=reasons,
        )
        for record in gang.members
    ]


def _outcome(gang: Gang, *, helped: bool, reason: str) -> GangOutcome:
    return GangOutcome(
        gang=str(gang.name),
        minimum=gang.minimum,
        running=gang.running,
        pods=tuple(record.key for record in gang.members),
        helped=helped,
        reason=reason,
    )
