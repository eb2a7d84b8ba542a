"""What a script does to the cluster while it runs."""

from collections.abc import Awaitable, Callable, Iterator
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, TypeAlias

from tonnage.cluster import errors
from tonnage.embedded.apiserver.kinds import BUILT_IN
from tonnage.objects.phrases import listed
from tonnage.providers.kwok_objects import GROUP_LABEL
from tonnage.report.figures import duration
from tonnage.simulation.manifests import named
from tonnage.simulation.scenario import NodeLoss, NodeOutage, ScenarioAction

if TYPE_CHECKING:
    from tonnage.simulation.ensemble import Ensemble

_ALL = "*"


async def perform(action: ScenarioAction, ensemble: "Ensemble") -> None:
    """Do it, and wait until it is over: a crash ends when the driver is back."""
    await _DEEDS[action.deed](action, ensemble)


async def _apply(action: ScenarioAction, ensemble: "Ensemble") -> None:
    trees = action.apply or ()
    ensemble.mark(f"apply {listed([named(tree) for tree in trees])}")
    for tree in trees:
        ensemble.manifests.apply(tree)


async def _delete(action: ScenarioAction, ensemble: "Ensemble") -> None:
    targets = action.delete or ()
    ensemble.mark(f"delete {listed([f'{target.kind} {target.name}' for target in targets])}")
    for target in targets:
        ensemble.manifests.delete(target.kind, target.name, namespace=target.namespace)


async def _scale(action: ScenarioAction, ensemble: "Ensemble") -> None:
    deed = action.scale
    assert deed is not None
    wanted = ensemble.manifests.scale(
        deed.kind, deed.name, namespace=deed.namespace, replicas=deed.replicas, by=deed.by
    )
    ensemble.mark(f"scale {deed.kind} {deed.name} to {wanted}")


async def _set_limit(action: ScenarioAction, ensemble: "Ensemble") -> None:
    deed = action.set_limit
    assert deed is not None
    nodes = list(_nodes(ensemble, deed.nodes))
    limit = "no limit" if deed.limit is None else f"a limit of {deed.limit}"
    ensemble.mark(f"{deed.driver} reports {limit} on {_counted(nodes)}")
    for node in nodes:
        try:
            await ensemble.world.drivers.set_limit(node, deed.driver, deed.limit)
        except errors.NotFound:
            continue


async def _crash(action: ScenarioAction, ensemble: "Ensemble") -> None:
    deed = action.crash
    assert deed is not None
    drivers = ensemble.world.drivers
    there = ensemble.accounts.slots.limits
    nodes = [one for one in _nodes(ensemble, deed.nodes) if deed.driver in there.get(one, {})]
    ensemble.mark(f"{deed.driver} crashes on {_counted(nodes)} for {duration(deed.lasts)}")
    for node in nodes:
        await drivers.unregister(node, deed.driver)
    await ensemble.clock.sleep(deed.lasts)
    for node in nodes:
        if node in ensemble.accounts.nodes:
            await drivers.register(node, deed.driver)


async def _not_ready(action: ScenarioAction, ensemble: "Ensemble") -> None:
    deed = action.not_ready
    assert deed is not None
    nodes = _nodes_or_oldest(ensemble, deed)
    ensemble.mark(f"{_counted(nodes)} not ready for {duration(deed.lasts)}")
    for ready in (False, True):
        for node in nodes:
            if node in ensemble.accounts.nodes:
                await ensemble.world.kubelets.report(node, ready=ready)
        if not ready:
            await ensemble.clock.sleep(deed.lasts)


async def _lose(action: ScenarioAction, ensemble: "Ensemble") -> None:
    deed = action.lose
    assert deed is not None
    nodes = _nodes_or_oldest(ensemble, deed)
    ensemble.mark(f"{_counted(nodes)} lost")
    for node in nodes:
        await ensemble.cloud.lose(node)


async def _out_of_stock(action: ScenarioAction, ensemble: "Ensemble") -> None:
    """The cloud knows of it from the beginning; here it is only told."""
    deed = action.out_of_stock
    assert deed is not None
    what = [
        *(group for group in deed.groups if group != _ALL),
        *(f"zone {zone}" for zone in deed.zones if zone != _ALL),
        *(type_ for type_ in deed.instance_types if type_ != _ALL),
    ]
    ensemble.mark(f"out of stock for {duration(deed.lasts)}: {listed(what or ['everything'])}")


async def _cut(action: ScenarioAction, ensemble: "Ensemble") -> None:
    deed = action.cut
    assert deed is not None
    plurals = [kind.plural for kind in BUILT_IN if kind.kind in deed.kinds] or [_ALL]
    how = "gets no answer about" if deed.answers == "none" else "is told there are no"
    what = ", ".join(plurals) if deed.kinds else "anything"
    ensemble.mark(f"the autoscaler {how} {what} for {duration(deed.lasts)}")
    ensemble.way.cut(plurals, deed.answers)
    await ensemble.clock.sleep(deed.lasts)
    ensemble.way.mend(plurals)


async def _restart(action: ScenarioAction, ensemble: "Ensemble") -> None:
    assert action.restart is not None
    ensemble.mark(f"the {action.restart} is started anew")
    ensemble.restart(action.restart)


def _nodes(ensemble: "Ensemble", patterns: tuple[str, ...]) -> Iterator[str]:
    for node in ensemble.server.store.built_in("nodes").within():
        names = (node.name, node.meta.get("labels", {}).get(GROUP_LABEL, ""))
        if any(name and fnmatchcase(name, pattern) for pattern in patterns for name in names):
            yield node.name


def _nodes_or_oldest(ensemble: "Ensemble", deed: NodeOutage | NodeLoss) -> list[str]:
    """The nodes that are meant; if there are none, the oldest of the group that is named."""
    found = list(_nodes(ensemble, deed.nodes))
    if found or not deed.or_oldest_of:
        return found
    own = [
        node
        for node in ensemble.server.store.built_in("nodes").within()
        if node.meta.get("labels", {}).get(GROUP_LABEL) == deed.or_oldest_of
    ]
    own.sort(key=lambda node: (node.meta.get("creationTimestamp", ""), node.name))
    return [node.name for node in own[:1]]


def _counted(nodes: list[str]) -> str:
    return nodes[0] if len(nodes) == 1 else f"{len(nodes)} nodes"


_Deed: TypeAlias = Callable[[ScenarioAction, "Ensemble"], Awaitable[None]]
_DEEDS: dict[str, _Deed] = {
    "apply": _apply,
    "delete": _delete,
    "scale": _scale,
    "set_limit": _set_limit,
    "crash": _crash,
    "not_ready": _not_ready,
    "lose": _lose,
    "out_of_stock": _out_of_stock,
    "cut": _cut,
    "restart": _restart,
}
