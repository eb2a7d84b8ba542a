"""The difference between two plans: what is bought, who is helped, what was assumed.

Plans are compared by what they come to. Names of new nodes, the order of steps, which of a
group's new nodes a pod is on, and the words of reasons are not differences.
"""

from collections.abc import Iterable, Mapping

import msgspec

from tonnage.objects.meta import Record
from tonnage.objects.scenarios import API_VERSION
from tonnage.scaleup.plan import Bounds, GroupLimit, Plan


class GroupChange(Record, frozen=True, kw_only=True, omit_defaults=False):
    """How many nodes of a group each plan buys."""

    group: str
    before: int
    after: int


class Place(Record, frozen=True, kw_only=True):
    """Where a plan puts a pod: on a new node of a group, or on a node that is there."""

    group: str = ""
    node: str = ""


class MovedPod(Record, frozen=True, kw_only=True):
    pod: str
    before: Place
    after: Place


class LimitValue(Record, frozen=True, kw_only=True, omit_defaults=False):
    count: int | None
    source: str


class LimitChange(Record, frozen=True, kw_only=True, omit_defaults=False):
    """Slots of a driver on new nodes of a group; `None` where a plan does not speak of them."""

    group: str
    driver: str
    before: LimitValue | None
    after: LimitValue | None


class BoundsChange(Record, frozen=True, kw_only=True):
    before: Bounds
    after: Bounds


class PartialChange(Record, frozen=True, kw_only=True):
    before: bool
    after: bool


class PlanDiff(Record, frozen=True, kw_only=True, omit_defaults=False):
    """What the second plan does otherwise.

    `newly_helped`, `no_longer_helped` and `moved` are pods that wait in both; `added` and
    `gone` are those that wait in one only, `added_not_helped` the part of `added` that is left
    out. `never_fits` are pods left out by both that only the second says no group can ever
    hold, `may_fit` the opposite.
    """

    api_version: str = API_VERSION
    kind: str = "PlanDiff"
    equal: bool
    groups: tuple[GroupChange, ...] = ()
    newly_helped: tuple[str, ...] = ()
    no_longer_helped: tuple[str, ...] = ()
    moved: tuple[MovedPod, ...] = ()
    added: tuple[str, ...] = ()
    added_not_helped: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    never_fits: tuple[str, ...] = ()
    may_fit: tuple[str, ...] = ()
    limits: tuple[LimitChange, ...] = ()
    bounds: BoundsChange | None = None
    partial: PartialChange | None = None
    warnings_new: tuple[str, ...] = ()
    warnings_gone: tuple[str, ...] = ()


def compare(before: Plan, after: Plan) -> PlanDiff:
    """What `after` does otherwise than `before`."""
    old, new = _Outcome.of(before), _Outcome.of(after)
    found = PlanDiff(
        equal=False,
        groups=_groups(before, after),
        newly_helped=tuple(pod for pod in new.places if pod in old.left_out),
        no_longer_helped=tuple(pod for pod in new.left_out if pod in old.places),
        moved=tuple(
            MovedPod(pod=pod, before=old.places[pod], after=place)
            for pod, place in new.places.items()
            if pod in old.places and old.places[pod] != place
        ),
        added=tuple(pod for pod in new.pods if pod not in old.pods),
        added_not_helped=tuple(pod for pod in new.left_out if pod not in old.pods),
        gone=tuple(pod for pod in old.pods if pod not in new.pods),
        never_fits=_turned(old.left_out, new.left_out, into=True),
        may_fit=_turned(old.left_out, new.left_out, into=False),
        limits=_limits(before.limits, after.limits),
        bounds=(
            BoundsChange(before=before.bounds, after=after.bounds)
            if before.bounds != after.bounds
            else None
        ),
        partial=(
            PartialChange(before=before.partial, after=after.partial)
            if before.partial != after.partial
            else None
        ),
        warnings_new=_only_in(after.warnings, before.warnings),
        warnings_gone=_only_in(before.warnings, after.warnings),
    )
    same = PlanDiff(equal=False)
    return PlanDiff(equal=True) if found == same else found


class _Outcome(msgspec.Struct, frozen=True):
    """A plan by pod. `left_out` says whether the pod can never fit."""

    places: Mapping[str, Place]
    left_out: Mapping[str, bool]
    pods: Mapping[str, None]

    @classmethod
    def of(cls, plan: Plan) -> "_Outcome":
        places = {one.pod: Place(node=one.node) for one in plan.all_on_existing}
        for scale_up in plan.scale_ups:
            place = Place(group=scale_up.group)
            places.update((pod, place) for node in scale_up.nodes for pod in node.pods)
        left_out = {one.pod: one.never_fits for one in plan.not_helped}
        return cls(places, left_out, dict.fromkeys((*places, *left_out)))


def _groups(before: Plan, after: Plan) -> tuple[GroupChange, ...]:
    old = {one.group: one.delta for one in before.scale_ups}
    new = {one.group: one.delta for one in after.scale_ups}
    return tuple(
        GroupChange(group=name, before=old.get(name, 0), after=new.get(name, 0))
        for name in dict.fromkeys((*old, *new))
        if old.get(name, 0) != new.get(name, 0)
    )


def _turned(old: Mapping[str, bool], new: Mapping[str, bool], *, into: bool) -> tuple[str, ...]:
    """Pods left out by both plans, whose prospects turned."""
    return tuple(pod for pod, never in new.items() if never is into and old.get(pod) is (not into))


def _limits(before: Iterable[GroupLimit], after: Iterable[GroupLimit]) -> tuple[LimitChange, ...]:
    old, new = _by_driver(before), _by_driver(after)
    return tuple(
        LimitChange(group=group, driver=driver, before=was, after=becomes)
        for group, driver in dict.fromkeys((*old, *new))
        if (was := old.get((group, driver))) != (becomes := new.get((group, driver)))
    )


def _by_driver(limits: Iterable[GroupLimit]) -> dict[tuple[str, str], LimitValue]:
    return {
        (one.group, one.driver): LimitValue(count=one.count, source=one.source) for one in limits
    }


def _only_in(these: Iterable[str], those: Iterable[str]) -> tuple[str, ...]:
    known = set(those)
    return tuple(one for one in dict.fromkeys(these) if one not in known)
