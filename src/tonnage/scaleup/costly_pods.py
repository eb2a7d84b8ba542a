"""Pods that are too much work to be decided on beside others: they come last, and alone.

Whoever may create a pod can give it thousands of rules. A decision about such a pod must not take
the time of everybody else's.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import zip_longest

import msgspec

from tonnage.groups.options import Options
from tonnage.objects.phrases import listed
from tonnage.scaleup.plan import GroupReason, NotHelped, SetApart
from tonnage.scaleup.pod_groups import PodGroup

TIME_OVER = "the timeBudget of the round was over before its turn"

_SHOWN = 3


class Costly(msgspec.Struct, frozen=True):
    """A group that is set apart, and why."""

    group: PodGroup
    reason: str


class OwnTime:
    """Seconds that pods set apart have in all, however often a plan is tried; `now` is steady."""

    def __init__(self, now: Callable[[], float] = lambda: 0.0, seconds: float = math.inf) -> None:
        self._now = now
        self._left = seconds

    def over_in(self, seconds: float) -> Callable[[], bool]:
        """Whether so many seconds have passed from now on, beside this time."""
        end = self._now() + seconds
        return lambda: self._now() >= end

    @contextmanager
    def running(self) -> Iterator[Callable[[], bool]]:
        """Let it pass inside the block; what is given says whether it is over."""
        end = self._now() + self._left
        try:
            yield lambda: self._now() >= end
        finally:
            self._left = end - self._now()


def divide(groups: Sequence[PodGroup], options: Options) -> tuple[list[PodGroup], list[Costly]]:
    """The groups to decide on together, in their order, and those set apart, the simplest first."""
    limit = options.max_pod_complexity or math.inf
    costly = {
        id(group): f"it has {_parts(group)}, more than the {limit:,} of maxPodComplexity"
        for group in groups
        if group.sample.complexity > limit
    }
    simple = [group for group in groups if id(group) not in costly]
    if options.max_round_complexity:
        costly |= {
            id(group): (
                f"it has {_parts(group)}, and all pods that wait have more than the"
                f" {options.max_round_complexity:,} of maxRoundComplexity"
            )
            for group in _past(simple, options.max_round_complexity)
        }
    together = [group for group in groups if id(group) not in costly]
    apart = [Costly(group, costly[id(group)]) for group in groups if id(group) in costly]
    return together, sorted(apart, key=lambda one: one.group.sample.complexity)


def _past(groups: Sequence[PodGroup], budget: int) -> Iterator[PodGroup]:
    """Those for which too little is left, when namespaces take turns with their simplest pods."""
    if sum(group.sample.complexity for group in groups) <= budget:
        return
    by_namespace: dict[str, list[PodGroup]] = {}
    for group in sorted(groups, key=lambda group: group.sample.complexity):
        by_namespace.setdefault(group.sample.meta.namespace, []).append(group)
    for turn in zip_longest(*by_namespace.values()):
        for group in turn:
            if group is not None:
                budget -= group.sample.complexity
                if budget < 0:
                    yield group


def told(costly: Sequence[Costly], undecided: Sequence[PodGroup]) -> tuple[SetApart, ...]:
    """Every pod that was set apart, and whether its turn came."""
    late = {id(group.footprint) for group in undecided}
    return tuple(
        SetApart(
            pod=pod.key,
            complexity=pod.complexity,
            reason=one.reason,
            decided=id(one.group.footprint) not in late,
        )
        for one in costly
        for pod in one.group.members
    )


def not_decided(late: Iterable[Costly], candidates: Sequence[str]) -> list[NotHelped]:
    """What is said of pods whose turn did not come."""
    found: list[NotHelped] = []
    for one in late:
        why = (f"not decided on in time: {one.reason}",)
        reasons = tuple(GroupReason(group=name, reasons=why) for name in candidates)
        found.extend(NotHelped(pod=pod.key, reasons=reasons) for pod in one.group.members)
    return found


def warnings(found: Sequence[SetApart]) -> Iterator[str]:
    """One line, however many they are."""
    if not found:
        return
    names = listed([one.pod for one in found], most=_SHOWN)
    late = sum(not one.decided for one in found)
    yield (
        f"{names}: decided on last and alone: {found[0].reason}"
        + (f"; {late} not decided on in time" if late else "")
    )


def _parts(group: PodGroup) -> str:
    return f"{group.sample.complexity:,} rules, terms, values and volumes"
