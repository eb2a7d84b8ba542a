"""A consolidation plan carried out on the reference model, with every rule looked at on the way."""

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from tests.scaledown.replay import over_budget, stranded, waiting
from tonnage.consolidation.plan import ConsolidationPlan, PodMove
from tonnage.objects import quantities
from tonnage.objects.kinds import KubeObject
from tonnage.objects.labels import HOSTNAME
from tonnage.objects.pods import Pod
from tonnage.objects.scenarios import NodeGroup
from tonnage.objects.storage import CSINode
from tonnage.testing.reference import ReferenceCluster, verdict


def violations(objects: Sequence[KubeObject], plan: ConsolidationPlan) -> list[str]:
    """What goes wrong when the plan is carried out wave by wave."""
    cluster = ReferenceCluster(objects)
    groups = {one.metadata.name: one for one in objects if isinstance(one, NodeGroup)}
    pods = {one.metadata.key: one for one in objects if isinstance(one, Pod)}
    for purchase in plan.buys:
        _buy(cluster, groups[purchase.group], purchase.nodes)
    wrong: list[str] = []
    gone: set[str] = set()
    waves = [move.wave for move in plan.moves] + [node.wave or 0 for node in plan.going]
    for wave in range(1, max(waves, default=0) + 1):
        moves = [move for move in plan.moves if move.wave == wave]
        wrong += over_budget(objects, [pods[move.pod] for move in moves], wave)
        wrong += _counting_on_each_other(cluster, pods, moves, wave)
        for move in moves:
            cluster.remove(pods[move.pod])
            said = verdict(cluster, waiting(pods[move.pod]), move.to)
            if said.code != "Success":
                wrong.append(f"wave {wave}: {move.pod} on {move.to}: {said.reasons}")
            cluster.place(waiting(pods[move.pod]), move.to, assume_volumes=False)
            pods[move.pod] = _on(pods[move.pod], move.to)
        _detach(cluster, moves)
        for node in plan.going:
            if node.wave == wave:
                left = [pod.metadata.key for pod in cluster.nodes[node.node].pods]
                wrong += [f"wave {wave}: {node.node} goes with {key}" for key in left]
                del cluster.nodes[node.node]
                gone.add(node.node)
    wrong += [f"{node.node} never goes" for node in plan.going if node.node not in gone]
    return wrong + _sizes(groups, plan) + stranded(objects, cluster.nodes)


def _buy(cluster: ReferenceCluster, group: NodeGroup, names: Iterable[str]) -> None:
    template = group.spec.template
    assert template is not None
    for name in names:
        meta = msgspec.structs.replace(
            template.node.metadata,
            name=name,
            labels={**template.node.metadata.labels, HOSTNAME: name},
        )
        csinode = template.csi_node
        assert csinode is not None
        own = msgspec.structs.replace(csinode.metadata, name=name)
        cluster.add_node(
            msgspec.structs.replace(template.node, metadata=meta),
            CSINode(metadata=own, spec=csinode.spec),
        )


def _detach(cluster: ReferenceCluster, moves: Sequence[PodMove]) -> None:
    """What pods have left behind is detached before the next wave."""
    left = {(volume, move.source) for move in moves for volume in move.detach}
    attachments = cluster.storage.attachments
    for name, attachment in list(attachments.items()):
        if (attachment.spec.source.persistent_volume_name, attachment.spec.node_name) in left:
            del attachments[name]


def _on(pod: Pod, node: str) -> Pod:
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=node))


def _counting_on_each_other(
    cluster: ReferenceCluster, pods: dict[str, Pod], moves: Sequence[PodMove], wave: int
) -> list[str]:
    """Targets that have no room before anybody of the wave has left."""
    wrong = []
    arrivals: dict[str, list[Pod]] = {}
    for move in moves:
        arrivals.setdefault(move.to, []).append(pods[move.pod])
    for name, coming in arrivals.items():
        there = cluster.nodes[name]
        everybody = [*there.pods, *coming]
        cpu = sum(
            quantities.milli(container.resources.requests.get("cpu", 0))
            for pod in everybody
            for container in pod.spec.containers
        )
        if cpu > quantities.milli(there.node.status.allocatable["cpu"]):
            wrong.append(f"wave {wave}: {name} has not so much cpu yet")
        slots = sum(len(pod.spec.volumes) for pod in everybody)
        csinode = there.csi_node
        for driver in csinode.spec.drivers if csinode is not None else ():
            if driver.allocatable is not None and slots > (driver.allocatable.count or 0):
                wrong.append(f"wave {wave}: {name} has not so many slots yet")
    return wrong


def _sizes(groups: dict[str, NodeGroup], plan: ConsolidationPlan) -> list[str]:
    gone = Counter(node.group for node in plan.going)
    new = Counter({one.group: 0 for one in plan.buys})
    for one in plan.buys:
        new[one.group] += len(one.nodes)
    wrong = []
    for name, group in groups.items():
        size = len(group.spec.nodes)
        if gone[name] and size - gone[name] < group.spec.min_size:
            wrong.append(f"group {name} below its minimum")
        if new[name] and size + new[name] > group.spec.max_size:
            wrong.append(f"group {name} above its maximum")
    return wrong
