"""Startup taints of CSI drivers, taken off nodes on which the driver has registered.

Drivers do it themselves, but some write the whole list of taints back as they last read it, and
when two do so at once one taint stays for good. Here a taint is removed only if it is still where
it was seen, so nobody's change is ever undone.
"""

import asyncio
import logging
from collections.abc import Iterable

from tonnage.autoscaler.actuator import EventReason
from tonnage.autoscaler.config import AutoscalerConfig
from tonnage.autoscaler.context import AutoscalingContext
from tonnage.cluster import errors
from tonnage.cluster.client import PatchStyle
from tonnage.errors import ClusterError
from tonnage.groups import drivers, passing_taints
from tonnage.groups.options import policy_of
from tonnage.groups.policy import GroupPolicy
from tonnage.objects.nodes import Node, Taint
from tonnage.objects.storage import CSINode

_AT_ONCE = 10
"""Nodes that are changed at the same time."""

_AGAIN_WITHIN = 60.0
"""Seconds in which a taint that is back was put back by mistake; later somebody wants it."""

_log = logging.getLogger(__name__)


class StartupTaintRemover:
    """Removes a taint of a node once, and again only if it is back at once."""

    def __init__(self, context: AutoscalingContext) -> None:
        self._world = context.world
        self._actuator = context.actuator
        self._client = context.client
        self._clock = context.clock
        self._removed: dict[tuple[str, str, str], float] = {}
        """When a taint, by key and effect, was first removed from the node with a UID."""
        self._changed: dict[str, str] = {}
        """The version of the node with a UID that was changed: whoever still sees it waits."""

    async def untaint(self, config: AutoscalerConfig) -> list[str]:
        """Remove what has served its purpose; what could not be done is told, and tried again."""
        self._forget_gone_nodes()
        if not config.remove_startup_taints:
            return []
        policy = policy_of(config, live=True)
        found = [
            (node, taints)
            for node in self._world.cache(Node)
            if node.spec.taints and (taints := self._served(node, policy))
        ]
        limit = asyncio.Semaphore(_AT_ONCE)

        async def bounded(node: Node, taints: list[int]) -> str:
            async with limit:
                return await self._remove(node, taints)

        told = await asyncio.gather(*(bounded(node, taints) for node, taints in found))
        return list(dict.fromkeys(filter(None, told)))

    def _served(self, node: Node, policy: GroupPolicy) -> list[int]:
        """Positions of the taints whose driver is there."""
        meta = node.metadata
        if self._changed.get(meta.uid) == meta.resource_version:
            return []
        registered = drivers.by_name(self._world.cache(CSINode).get(meta.name))
        return [
            position
            for position, taint in enumerate(node.spec.taints)
            if passing_taints.is_startup(taint, policy)
            and any(name in registered for name in _drivers_named(taint, policy))
            and not self._is_wanted(meta.uid, taint)
        ]

    def _is_wanted(self, uid: str, taint: Taint) -> bool:
        at = self._removed.get((uid, taint.key, taint.effect))
        return at is not None and self._clock.monotonic() - at > _AGAIN_WITHIN

    async def _remove(self, node: Node, positions: list[int]) -> str:
        meta = node.metadata
        taints = [node.spec.taints[position] for position in positions]
        keys = ", ".join(taint.key for taint in taints)
        if self._actuator.dry_run:
            _log.info("would remove startup taints", extra={"node": meta.name, "taints": keys})
            return ""
        self._actuator.check(f"untainting node {meta.name}")
        try:
            await self._client.patch(
                Node, meta.name, _change(node, positions), style=PatchStyle.JSON
            )
        except (errors.Invalid, errors.Conflict, errors.NotFound) as error:
            # Somebody else was faster; the watch will say what is left to do.
            _log.info("startup taints not removed", extra={"node": meta.name, "why": str(error)})
            return ""
        except errors.Forbidden:
            return "startup taints stay: missing right: verb patch, kind Node, the core group"
        except ClusterError as error:
            return f"startup taints of node {meta.name} stay: {error}"
        self._changed[meta.uid] = meta.resource_version
        for taint in taints:
            known_as = (meta.uid, taint.key, taint.effect)
            self._removed.setdefault(known_as, self._clock.monotonic())
        self._actuator.tell(
            node, EventReason.STARTUP_TAINT_REMOVED, f"Driver has registered, removed {keys}"
        )
        return ""

    def _forget_gone_nodes(self) -> None:
        if self._removed:
            there = {node.metadata.uid for node in self._world.cache(Node)}
            self._removed = {key: at for key, at in self._removed.items() if key[0] in there}
            self._changed = {uid: at for uid, at in self._changed.items() if uid in there}


def _drivers_named(taint: Taint, policy: GroupPolicy) -> Iterable[str]:
    """What in a taint's key may be a driver: `DRIVER/agent-not-ready`, or a prefix and DRIVER."""
    domain, _, name = taint.key.partition("/")
    yield domain
    yield name
    for prefix in policy.startup_taint_prefixes:
        if taint.key.startswith(prefix):
            yield taint.key.removeprefix(prefix)


def _change(node: Node, positions: list[int]) -> list[dict[str, object]]:
    """A patch that does nothing at all unless every taint is still where it was seen."""
    change: list[dict[str, object]] = [
        {"op": "test", "path": "/metadata/uid", "value": node.metadata.uid}
    ]
    for position in positions:
        taint = node.spec.taints[position]
        for field, value in (("key", taint.key), ("effect", taint.effect)):
            path = f"/spec/taints/{position}/{field}"
            change.append({"op": "test", "path": path, "value": value})
    # From the end, so that no removal moves another.
    change += ({"op": "remove", "path": f"/spec/taints/{one}"} for one in reversed(positions))
    return change
