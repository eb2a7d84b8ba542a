"""The node lifecycle controller's part: taints follow a node's state, and pods that do not
tolerate them have to go.

Simpler than the real one in one respect: a toleration holds for ever, whatever its
`tolerationSeconds`; for nodes that are not ready or unreachable pods have five minutes without any.
"""

from functools import partial

from tonnage.cluster import errors
from tonnage.cluster.cache import Cache
from tonnage.cluster.watch_events import Change, EventType
from tonnage.embedded.world import node_patches
from tonnage.embedded.world.behaviour import is_played
from tonnage.embedded.world.keyed_tasks import WorldContext
from tonnage.embedded.world.pod_index import PodsOnNodes, is_active
from tonnage.groups.passing_taints import NOT_READY
from tonnage.objects import taints as tainting
from tonnage.objects.nodes import Node, Taint
from tonnage.objects.pods import Pod

UNREACHABLE = "node.kubernetes.io/unreachable"
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
PATIENCE = 300.0
"""Seconds that pods stay on a node that is not ready or unreachable."""

_OWN = frozenset({NOT_READY, UNREACHABLE, UNSCHEDULABLE})


class NodeLifecycle:
    """Keeps the taints of played nodes like their conditions, and carries out `NoExecute`."""

    def __init__(self, context: WorldContext, *, nodes: Cache[Node], on_nodes: PodsOnNodes) -> None:
        self._client, self._clock, self._behaviour, _, self._chores = context
        self._nodes = nodes
        self._on_nodes = on_nodes
        nodes.subscribe(self._changed)

    def _changed(self, change: Change[Node]) -> None:
        node, name = change.object, change.object.metadata.name
        if not is_played(node, self._behaviour):
            return
        if change.type is EventType.DELETED:
            self._chores.stop(("taints", name))
            self._chores.stop(("evict", name))
            return
        if _tainted(node) != node.spec.taints:
            self._chores.start(("taints", name), partial(self._taint, name))
        if any(taint.effect == "NoExecute" for taint in node.spec.taints):
            self._chores.start(("evict", name), partial(self._evict, name))
        else:
            self._chores.stop(("evict", name))

    async def _taint(self, name: str) -> None:
        while True:
            node = self._nodes.get(name)
            if node is None or _tainted(node) == node.spec.taints:
                return
            await node_patches.change_taints(self._client, name, _tainted)
            # The cache hears of it a little later; looking again too early changes nothing.
            await self._clock.sleep(_SETTLE)

    async def _evict(self, name: str) -> None:
        """Look at the pods as long as the node keeps pods off; a quiet cluster is not looked at."""
        since: dict[str, float] = {}
        while True:
            node = self._nodes.get(name)
            if node is None:
                return
            now = self._clock.monotonic()
            taints = [taint for taint in node.spec.taints if taint.effect == "NoExecute"]
            since = {taint.key: since.get(taint.key, now) for taint in taints}
            for pod in self._on_nodes.on(name):
                if is_active(pod) and any(
                    _must_go(pod, taint, waited=now - since[taint.key]) for taint in taints
                ):
                    await self._delete(pod)
            await self._clock.sleep(_EVICT_EVERY)

    async def _delete(self, pod: Pod) -> None:
        meta = pod.metadata
        try:
            await self._client.delete(Pod, meta.name, namespace=meta.namespace, uid=meta.uid)
        except (errors.NotFound, errors.Conflict):
            return


_SETTLE = 0.1
_EVICT_EVERY = 5.0


def _must_go(pod: Pod, taint: Taint, *, waited: float) -> bool:
    if any(tainting.tolerates(toleration, taint) for toleration in pod.spec.tolerations):
        return False
    return taint.key not in (NOT_READY, UNREACHABLE) or waited >= PATIENCE


def _tainted(node: Node) -> tuple[Taint, ...]:
    """The node's taints with those of its state in place of what they were."""
    ready = next(
        (condition.status for condition in node.status.conditions if condition.type == "Ready"), ""
    )
    wanted: list[Taint] = []
    match ready:
        case "True":
            pass
        case "":
            # Nobody has spoken for the node yet: the server's admission has tainted it, no more.
            wanted.append(Taint(key=NOT_READY, effect="NoSchedule"))
        case "False":
            wanted += [Taint(key=NOT_READY, effect=effect) for effect in _BOTH]
        case _:
            wanted += [Taint(key=UNREACHABLE, effect=effect) for effect in _BOTH]
    if node.spec.unschedulable:
        wanted.append(Taint(key=UNSCHEDULABLE, effect="NoSchedule"))
    new = {(taint.key, taint.effect): taint for taint in wanted}
    stay = [
        taint
        for taint in node.spec.taints
        if taint.key not in _OWN or new.pop((taint.key, taint.effect), None) is not None
    ]
    return (*stay, *new.values())


_BOTH = ("NoSchedule", "NoExecute")
