"""Nodes that are on their way, filled as carefully as if they were bought now.

When nodes are bought, pods are packed into them group by group, in the best of several orders.
Until they are up they are nodes like any other, and nodes that are there are filled less carefully:
some of the pods they were bought for may find no room, and would be bought for a second time. So
before anything is bought beside nodes that are coming, it is planned once more as if these could be
bought, and for nothing. First with what was bought for pods that still wait, as far as that is
known; then with all of them, with those of some groups, and with the latest of a group.
"""

import functools
import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol, TypeAlias

import msgspec

from tonnage.groups.headroom import is_chunk
from tonnage.groups.model import TEMPLATE_NODE_LABEL
from tonnage.objects.labels import HOSTNAME
from tonnage.objects.storage import CSINode
from tonnage.scaleup import refusals
from tonnage.scaleup.plan import NO_BOUNDS, GroupReason, NotHelped, Placement, Plan
from tonnage.scaleup.request import Request
from tonnage.snapshot import imagined
from tonnage.snapshot.reservations import Source

NO_BETTER = "another node would help no more pods than what is coming"

_TRIES = 16
_FEW_ATTEMPTS = 3
_WORTH_IT_UP_TO = 5_000
"""Groups of pods times node groups, of all tries together."""


class PlanAnew(Protocol):
    """Makes a plan, in no more attempts than are said."""

    def __call__(self, request: Request, *, most_attempts: int | None = None) -> Plan: ...


Names: TypeAlias = Mapping[str, Sequence[str]]
"""Nodes that are coming, by group."""


def without_buying(request: Request, best: Plan, *, plan_anew: PlanAnew) -> Plan | None:
    """A plan that helps as many as `best` and buys nothing, if what is coming is enough for that.

    It may help others: of pods that cannot all be helped, those whom the nodes were bought for keep
    their places, or every round would change its mind and buy for somebody else. Where `best` buys
    nothing either but leaves pods out, it has to help more: what the nodes were bought for.
    """
    if best.partial or request.options.as_upstream or not (best.scale_ups or best.not_helped):
        return None
    tries = _WORTH_IT_UP_TO // max(len(request.pending) * len(request.groups), 1)
    if not tries:
        return None
    coming = _coming(request)
    counts = {group: len(names) for group, names in coming.items()}
    questions = _questions(counts, _remembered(request, counts))
    tries = min(tries, _TRIES) if best.scale_ups else 1
    for number, (bought, nothing_else) in enumerate(itertools.islice(questions, tries)):
        new = {group: coming[group][-count:] for group, count in bought.items()}
        # What is most likely is planned with as much care as it was when it was bought.
        most = _FEW_ATTEMPTS if number > 1 else None
        anew = functools.partial(plan_anew, most_attempts=most)
        found = _planned(request, new, anew, nothing_else=nothing_else)
        if not best.scale_ups and _left_out(found) >= _left_out(best):
            continue
        if _is_enough(found, best, bought, nothing_else=nothing_else):
            return _told(best, found, new)
    return None


def _coming(request: Request) -> dict[str, list[str]]:
    """Nodes that are like one that is bought now, the latest last: at the end those that are not
    there at all, with the names that the planner has for them."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for name, group in sorted(
        _like_new(request), key=lambda one: request.snapshot.nodes[one[0]].order
    ):
        found[group].append(name)
    for group, count in request.upcoming.items():
        if count > 0:
            found[group] += imagined.free_names(request.snapshot, f"{group}-upcoming-", count)
    return found


def _like_new(request: Request) -> Iterator[tuple[str, str]]:
    """Nodes that are coming up, with their groups, and are like one that is bought now."""
    for name, group in request.coming_up.items():
        record, template = request.snapshot.nodes.get(name), request.templates.get(group)
        if record is None or template is None:
            continue
        own_names = {HOSTNAME, TEMPLATE_NODE_LABEL, *template.host_keys}
        labels = record.node.metadata.labels
        alike = all(
            labels.get(key) == value
            for key, value in template.node.metadata.labels.items()
            if key not in own_names
        )
        alike &= _limits(request.snapshot.csinodes.get(name)) == _limits(template.csinode)
        if alike and all(refusals.is_daemon(pod) for pod in request.snapshot.pods_on(name)):
            yield name, group


def _limits(csinode: CSINode | None) -> dict[str, int | None]:
    return {one.name: one.limit for one in csinode.spec.drivers} if csinode is not None else {}


def _remembered(request: Request, coming: Mapping[str, int]) -> dict[str, int]:
    """Of what is coming, what was bought for pods that still wait."""
    waited_for = {entry.group for entry in request.reservations.of(Source.BOUGHT)}
    return {
        group: min(purchase.nodes, coming[group])
        for group, purchase in request.purchases.items()
        if group in waited_for and group in coming
    }


def _questions(
    coming: Mapping[str, int], remembered: Mapping[str, int]
) -> Iterator[tuple[dict[str, int], bool]]:
    """How many nodes of each group may have been bought at once, and whether nothing else may be.

    What was bought together last, and for the same pods, is planned in the same way once more.
    """
    known = [tuple(remembered.get(group, 0) for group in coming)]
    whole = itertools.product(*((count, 0) for count in coming.values()))
    parts = itertools.product(*(range(count, -1, -1) for count in coming.values()))
    tried: set[tuple[int, ...]] = set()
    for counts in itertools.chain(known, whole, parts):
        if any(counts) and counts not in tried:
            bought = {group: count for group, count in zip(coming, counts, strict=True) if count}
            yield bought, False
            if not tried:
                yield bought, True
            tried.add(counts)


def _planned(
    request: Request,
    new: Names,
    plan_anew: Callable[[Request], Plan],
    *,
    nothing_else: bool,
) -> Plan:
    """What is decided if these nodes are not bought yet."""
    snapshot = request.snapshot
    groups = [
        msgspec.structs.replace(group, target=group.target - len(new.get(group.id, ())))
        for group in request.groups
    ]
    if nothing_else:
        groups = [
            msgspec.structs.replace(group, max_size=group.target + len(new[group.id]))
            for group in groups
            if group.id in new
        ]
    there = {name for names in new.values() for name in names if name in snapshot.nodes}
    upcoming = Counter(request.upcoming)
    upcoming.subtract({group: len(set(names) - there) for group, names in new.items()})
    with snapshot.trial():
        for name in there:
            snapshot.drop_node(name)
        return plan_anew(
            msgspec.structs.replace(
                request,
                groups=groups,
                skipped={group: why for group, why in request.skipped.items() if group not in new},
                upcoming=upcoming,
                coming_up={
                    name: group for name, group in request.coming_up.items() if name not in there
                },
            )
        )


def _is_enough(found: Plan, best: Plan, bought: Mapping[str, int], *, nothing_else: bool) -> bool:
    """Whether that helps as many without buying more.

    Where nothing else could be bought, it has to help the same pods: another might be helped too.
    """
    if found.partial or any(one.delta > bought.get(one.group, 0) for one in found.scale_ups):
        return False
    if nothing_else:
        return {one.pod for one in found.not_helped} <= {one.pod for one in best.not_helped}
    (pods, chunks), (most, most_chunks) = _left_out(found), _left_out(best)
    return pods <= most and chunks <= most_chunks


def _left_out(plan: Plan) -> tuple[int, int]:
    """The pods that are not helped, and the chunks of kept room, for which no pod may wait."""
    chunks = sum(is_chunk(one.pod) for one in plan.not_helped)
    return len(plan.not_helped) - chunks, chunks


def _told(best: Plan, found: Plan, names: Names) -> Plan:
    """The plan, with what it takes for new nodes named as the ones that are coming."""
    nodes = {
        pod: name
        for one in found.scale_ups
        for node, name in zip(one.nodes, names[one.group], strict=False)
        for pod in node.pods
    }
    # In the order of the steps: pods that keep together depend on who came before them.
    placed = list(found.fit_on_existing)
    for step in found.steps:
        placed += [Placement(pod=pod, node=nodes[pod]) for pod in step.pods if pod in nodes]
        placed += step.fit_on_existing
    why = {one.pod: one for one in best.not_helped}
    no_better = tuple(GroupReason(group=one.group, reasons=(NO_BETTER,)) for one in best.scale_ups)
    return msgspec.structs.replace(
        best,
        steps=(),
        scale_ups=(),
        fit_on_existing=tuple(placed),
        not_helped=tuple(
            why.get(one.pod) or NotHelped(pod=one.pod, reasons=no_better)
            for one in found.not_helped
        ),
        bounds=NO_BOUNDS,
        gangs=found.gangs,
    )
