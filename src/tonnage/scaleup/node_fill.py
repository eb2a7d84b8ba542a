"""How full the new nodes of a plan are, and of what: the resource that made it so many nodes."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

import msgspec

from tonnage.groups.cluster_state import ClusterState
from tonnage.groups.model import Template
from tonnage.objects import resources, volumes
from tonnage.objects.pods import Pod
from tonnage.objects.volumes import VolumeUse
from tonnage.scaleup.decision import Decision
from tonnage.scaleup.plan import ScaleUp


class Filling(msgspec.Struct, frozen=True):
    """What the new nodes of a group hold of a resource or driver, all together."""

    resource: str
    used: int
    capacity: int

    @property
    def share(self) -> float:
        return self.used / self.capacity if self.capacity else 0.0


def fillings(made: Decision) -> dict[str, list[Filling]]:
    """For each group the plan buys from, what its new nodes are full of, the fullest first."""
    templates = made.templates.by_group
    limits: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for limit in made.plan.limits:
        if limit.count is not None:
            limits[limit.group][limit.driver] = limit.count
    return {
        one.group: _of_group(one, made.inputs.cluster, templates[one.group], limits[one.group])
        for one in made.plan.scale_ups
        if one.group in templates
    }


def _of_group(
    scale_up: ScaleUp, cluster: ClusterState, template: Template, limits: Mapping[str, int]
) -> list[Filling]:
    used: Counter[str] = Counter()
    alike: dict[bytes, list[Pod]] = {}
    for node in scale_up.nodes:
        pods = [pod for name in node.pods if (pod := cluster.pod(name)) is not None]
        for pod in (*pods, *template.daemon_pods):
            alike.setdefault(_asking(pod), []).append(pod)
        # A volume that several pods of a node share takes one slot.
        used.update(use.driver for use in {use for pod in pods for use in _uses(pod, cluster)})
    for members in alike.values():
        used[resources.PODS] += len(members)
        for name, amount in resources.requests(members[0].spec).items():
            used[name] += amount * len(members)
    capacity = resources.allocatable(template.node) | dict(limits)
    found = [
        Filling(name, amount, capacity[name] * len(scale_up.nodes))
        for name, amount in used.items()
        if amount and capacity.get(name)
    ]
    return sorted(found, key=lambda one: (-one.share, one.resource))


def _asking(pod: Pod) -> bytes:
    """Equal for pods that request the same; replicas do, and adding up takes long."""
    spec = pod.spec
    return msgspec.msgpack.encode(
        (spec.containers, spec.init_containers, spec.overhead, spec.resources)
    )


def _uses(pod: Pod, cluster: ClusterState) -> Iterable[VolumeUse]:
    found = volumes.slots(pod.metadata, volumes.of_pod(pod), cluster.snapshot.storage, placed=True)
    return (*found.uses, *found.migrated)
