"""Slot pools of a replay: volumes counted afresh for every question.

Shares with the decision which pools a node has, as it shares templates.
"""

from collections.abc import Iterable, Mapping

from tonnage.groups import slot_pools
from tonnage.groups.model import Group, Template
from tonnage.groups.options import Options
from tonnage.objects import volumes
from tonnage.objects.pods import Pod
from tonnage.objects.volumes import StorageLookup, VolumeUse
from tonnage.snapshot.slot_pools import Pool
from tonnage.testing.reference import ReferenceCluster


class ReplaySlots:
    """The pools of every node; what is in them is what is on the node."""

    def __init__(
        self,
        cluster: ReferenceCluster,
        lookup: StorageLookup,
        groups: Mapping[str, Group],
        options: Options,
    ) -> None:
        self._cluster = cluster
        self._lookup = lookup
        self._groups = groups
        self._options = options
        self._pools: dict[str, list[Pool]] = {}
        if options.as_upstream:
            return
        csinodes = {
            name: hosted.csi_node
            for name, hosted in cluster.nodes.items()
            if hosted.csi_node is not None
        }
        nodes = [hosted.node for hosted in cluster.nodes.values()]
        found = slot_pools.by_node(nodes, csinodes, groups.values(), options.pools)
        self._pools.update(found)

    def add(self, name: str, template: Template) -> None:
        """A new node has the pools of its template."""
        if self._options.as_upstream:
            return
        group = self._groups[template.group]
        found = slot_pools.of_node(template.node, template.csinode, group, self._options.pools)
        self._pools[name] = [one.pool for one in found]

    def remove(self, name: str) -> None:
        self._pools.pop(name, None)

    def refusal(self, pod: Pod, node: str) -> str | None:
        """Why the pod's volumes find too few slots, all of them together."""
        pools = self._pools.get(node, ())
        if not pools:
            return None
        there = self._there(node)
        new = self._uses([pod], placed=False) - there
        for name, members, free in pools:
            weights = dict(members)
            wanted = sum(weights.get(use.driver, 0) for use in new)
            taken = sum(weights.get(use.driver, 0) for use in there)
            if wanted and wanted + taken > free:
                return f"pool {name}: {wanted} wanted, {taken} taken of {free}"
        return None

    def _there(self, node: str) -> set[VolumeUse]:
        storage = self._cluster.storage
        found = self._uses(self._cluster.nodes[node].pods, placed=True)
        for attachment in storage.attachments.values():
            spec = attachment.spec
            volume = storage.volumes.get(spec.source.persistent_volume_name or "")
            here = spec.node_name == node and spec.attacher
            if here and volume is not None and volume.spec.csi is not None:
                found.add(VolumeUse(spec.attacher, volume.spec.csi.volume_handle))
        return found

    def _uses(self, pods: Iterable[Pod], *, placed: bool) -> set[VolumeUse]:
        found: set[VolumeUse] = set()
        for pod in pods:
            slots = volumes.slots(pod.metadata, volumes.of_pod(pod), self._lookup, placed=placed)
            found.update((*slots.uses, *slots.migrated))
        return found
