"""Nodes that are on their way, filled as carefully as if they were bought now.

When nodes are bought, pods are packed into them group by group, in the best of several orders.
Until they are up they are nodes like any other, and nodes that are there are filled less carefully:
some of the pods they were bought for may find no room, and would be bought for a second time. So
before anything is bought beside nodes that are coming, it is planned once more as if these could be
bought, and for nothing.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping

import msgspec

from tonnage.groups.model import TEMPLATE_NODE_LABEL
from tonnage.objects.storage import CSINode
from tonnage.scaleup import explaining
from tonnage.scaleup.plan import Bounds, Placement, Plan
from tonnage.scaleup.request import Request
from tonnage.snapshot import imagined

_WORTH_IT_UP_TO = 5_000
"""Groups of pods times node groups."""


def without_buying(
    request: Request, best: Plan, *, plan_anew: Callable[[Request], Plan]
) -> Plan | None:
    """A plan that helps all whom `best` helps and buys nothing, if what is coming is enough."""
    if not best.scale_ups or best.partial or request.options.as_upstream:
        return None
    if len(request.pending) * len(request.groups) > _WORTH_IT_UP_TO:
        return None
    as_new = dict(_as_new(request))
    coming = Counter(request.upcoming) + Counter(as_new.values())
    if not coming:
        return None
    snapshot = request.snapshot
    snapshot.fork()
    try:
        for name in as_new:
            snapshot.drop_node(name)
        for asked in _asked_before(request, coming, as_new):
            found = plan_anew(asked)
            if _is_enough(found, best, coming):
                return _told(best, found, _names(request, as_new))
    finally:
        snapshot.revert()
    return None


def _as_new(request: Request) -> Iterator[tuple[str, str]]:
    """Nodes that are coming up, with their groups, and are like one that is bought now."""
    for name, group in request.coming_up.items():
        record, template = request.snapshot.nodes.get(name), request.templates.get(group)
        if record is None or template is None:
            continue
        own_names = {imagined.HOSTNAME, TEMPLATE_NODE_LABEL, *template.host_keys}
        labels = record.node.metadata.labels
        alike = all(
            labels.get(key) == value
            for key, value in template.node.metadata.labels.items()
            if key not in own_names
        )
        alike &= _limits(request.snapshot.csinodes.get(name)) == _limits(template.csinode)
        if alike and all(explaining.is_daemon(pod) for pod in request.snapshot.pods_on(name)):
            yield name, group


def _limits(csinode: CSINode | None) -> dict[str, int | None]:
    return {one.name: one.limit for one in csinode.spec.drivers} if csinode is not None else {}


def _asked_before(
    request: Request, coming: Mapping[str, int], as_new: Mapping[str, str]
) -> Iterator[Request]:
    """The question as it was before anything was bought; and with nothing else to be bought."""
    before = [
        msgspec.structs.replace(group, target=group.target - coming.get(group.id, 0))
        for group in request.groups
    ]
    paid = [
        msgspec.structs.replace(group, max_size=group.target + coming[group.id])
        for group in before
        if group.id in coming
    ]
    asked = request._replace(
        skipped={name: why for name, why in request.skipped.items() if name not in coming},
        upcoming={},
        coming_up={name: group for name, group in request.coming_up.items() if name not in as_new},
    )
    for groups in (before, paid):
        yield asked._replace(groups=groups)


def _is_enough(found: Plan, best: Plan, coming: Mapping[str, int]) -> bool:
    left_out = {one.pod for one in best.not_helped}
    return (
        not found.partial
        and all(one.delta <= coming.get(one.group, 0) for one in found.scale_ups)
        and left_out.issuperset(one.pod for one in found.not_helped)
    )


def _names(request: Request, as_new: Mapping[str, str]) -> dict[str, list[str]]:
    """What the nodes that come are called, by group."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for name, group in as_new.items():
        found[group].append(name)
    for group, count in request.upcoming.items():
        found[group] += imagined.free_names(request.snapshot, f"{group}-upcoming-", count)
    return found


def _told(best: Plan, found: Plan, names: Mapping[str, list[str]]) -> Plan:
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
    helped = {one.pod for one in placed}
    return msgspec.structs.replace(
        best,
        steps=(),
        scale_ups=(),
        fit_on_existing=tuple(placed),
        not_helped=tuple(one for one in best.not_helped if one.pod not in helped),
        bounds=Bounds(nodes=0, cost_per_hour=None, gap=0.0),
    )
