"""Soft taints: the scheduler prefers other nodes to those that may go soon."""

import logging
from collections.abc import Collection

from tonnage.autoscaler.config import AutoscalerConfig
from tonnage.autoscaler.context import AutoscalingContext
from tonnage.autoscaler.scaledown import taints
from tonnage.autoscaler.scaledown.taints import NodeChanger
from tonnage.cluster import errors
from tonnage.errors import ClusterError
from tonnage.groups.passing_taints import DELETION_CANDIDATE
from tonnage.objects.nodes import Node

_log = logging.getLogger(__name__)


_PATIENCE = 120.0
"""Seconds for which others wait until all taints are as they should be."""


class SoftTaints:
    """A few nodes in a round, those that are needed after all first."""

    def __init__(self, context: AutoscalingContext, changer: NodeChanger) -> None:
        self._world = context.world
        self._actuator = context.actuator
        self._clock = context.clock
        self._changer = changer
        self._unfinished_since: float | None = None

    @property
    def unfinished(self) -> bool:
        """Whether taints are still to be set or taken off: no time to move pods.

        A scheduler may put them on nodes that are to go next, and these would be needed by then.
        """
        since = self._unfinished_since
        return since is not None and self._clock.monotonic() - since < _PATIENCE

    async def update(
        self,
        unneeded: Collection[str],
        config: AutoscalerConfig,
        *,
        ours: Collection[str],
        now: float,
    ) -> str:
        """Bring the taints of `ours` to what is unneeded now; what could not be done is told."""
        if self._actuator.dry_run:
            return ""
        nodes = self._world.cache(Node)
        needed = [
            node.metadata.name
            for node in nodes
            if taints.has(node, DELETION_CANDIDATE)
            and node.metadata.name in ours
            and node.metadata.name not in unneeded
        ]
        fresh = [
            name
            for name in sorted(unneeded)
            if (node := nodes.get(name)) is not None and not taints.has(node, DELETION_CANDIDATE)
        ]
        wanted = [*needed, *fresh]
        end = self._clock.monotonic() + config.max_bulk_soft_taint_time
        done = 0
        for name in wanted[: config.max_bulk_soft_taint_count]:
            if self._clock.monotonic() >= end:
                break
            self._actuator.check(f"soft taint of node {name}")
            change = (
                taints.no_candidate
                if name in needed
                else lambda node: taints.candidate(node, now=now)
            )
            try:
                await self._changer.change(name, change)
            except errors.Forbidden as error:
                self._note(0)
                return f"soft taints are not set: {error.right}"
            except ClusterError as error:
                _log.warning("soft taint not set", extra={"node": name, "error": str(error)})
            done += 1
        # With a count of none they are turned off, and nobody waits for them.
        self._note(len(wanted) - done if config.max_bulk_soft_taint_count else 0)
        return ""

    def _note(self, left: int) -> None:
        if not left:
            self._unfinished_since = None
        elif self._unfinished_since is None:
            self._unfinished_since = self._clock.monotonic()

    def since(self, names: Collection[str]) -> dict[str, float]:
        """When these nodes got their taint, as it tells."""
        found = {}
        for name in names:
            node = self._world.node(name)
            at = taints.since(node, DELETION_CANDIDATE) if node is not None else None
            if at is not None:
                found[name] = at
        return found
