"""What is on its way counts as being there: nodes that are coming up, pods that are being bound.

A pod whose volume is made only once its node is known stays without a node while that goes on,
seconds to minutes. The scheduler has given it its place, and its slots, all the same.
"""

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from tonnage.groups.inputs import Inputs
from tonnage.groups.model import TEMPLATE_NODE_LABEL, Template
from tonnage.groups.readiness import READY, Readiness
from tonnage.objects import timestamps
from tonnage.objects.labels import HOSTNAME
from tonnage.objects.nodes import Node
from tonnage.objects.storage import (
    SELECTED_NODE_ANNOTATION,
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
)
from tonnage.scaleup import pod_groups
from tonnage.scaleup.pod_groups import PodGroup
from tonnage.snapshot.reservations import Reservation, Source
from tonnage.snapshot.snapshot import PodRecord, Snapshot


def being_bound(
    snapshot: Snapshot, pods: Iterable[PodRecord], *, now: float
) -> Iterator[Reservation]:
    """The places of those of the pods whose volumes are made for a node."""
    for pod in pods:
        if pod.volumes and not pod.pod_class.gates:
            node = _selected_node(snapshot, pod)
            if node in snapshot.nodes:
                yield Reservation(
                    pod.key, Source.SELECTED_NODE, now, node=node, uid=pod.meta.uid, pod=pod
                )


def bought_for(inputs: Inputs, pods: Iterable[PodRecord]) -> Iterator[Reservation]:
    """What those of the pods have coming that nodes were bought for."""
    if inputs.purchases:
        waiting = {pod.key for pod in pods}
        for group, purchase in inputs.purchases.items():
            for pod in purchase.pods:
                if pod in waiting:
                    yield Reservation(pod, Source.BOUGHT, inputs.now, group=group)


def is_awaited(snapshot: Snapshot, group: PodGroup) -> bool:
    """Whether volumes of the pods are to be made for one certain node."""
    return any(
        SELECTED_NODE_ANNOTATION in claim.metadata.annotations
        for claim in pod_groups.unbound_claims(snapshot, group.sample)
    )


def _selected_node(snapshot: Snapshot, pod: PodRecord) -> str:
    for volume in pod.volumes:
        claim = snapshot.storage.claim(pod.meta.namespace, volume.claim)
        node = claim and claim.metadata.annotations.get(SELECTED_NODE_ANNOTATION)
        if claim and node and _is_for(pod, claim, snapshot.storage.volume(claim.spec.volume_name)):
            return node
    return ""


def _is_for(pod: PodRecord, claim: PersistentVolumeClaim, volume: PersistentVolume | None) -> bool:
    """Whether the claim's node was selected for this pod.

    A claim keeps the note for good. So once there is a volume it must be no older than the pod: it
    was made for it, and the scheduler, which looks once a second, is about to see that.
    """
    if not claim.spec.volume_name:
        return True
    if volume is None:
        return False
    made = timestamps.moment(volume.metadata.creation_timestamp)
    created = timestamps.moment(pod.meta.creation_timestamp)
    return made is not None and created is not None and made >= created


def complete_coming_up(
    snapshot: Snapshot,
    assessed: Readiness,
    templates: Mapping[str, Template],
    upcoming: Mapping[str, int],
) -> dict[str, int]:
    """Take nodes that are coming up for what they will be; gives the nodes still to be imagined."""
    left = dict(upcoming)
    for name, group in assessed.groups.items():
        template = templates.get(name)
        if template is None:
            continue
        for node_name in group.coming_up_nodes:
            record = snapshot.nodes.get(node_name)
            if record is None:
                continue
            own = snapshot.csinodes.get(node_name)
            node, csinode = completed(record.node, template, own=own)
            snapshot.put_node(node, csinode)
            left[name] = max(left.get(name, 0) - 1, 0)
    return left


def not_published_yet(
    inputs: Inputs, assessed: Readiness, templates: Mapping[str, Template]
) -> dict[str, str]:
    """Ready nodes, with their groups, that are so young that their storage may yet be published.

    A driver tells of its disks a while after it has registered: until then the node looks as if it
    had none, though the next one is bought for what it has.
    """
    found: dict[str, str] = {}
    if not any(template.storage for template in templates.values()):
        return found
    since = inputs.now - inputs.policy.driver_registration_timeout
    for node in inputs.cluster.nodes:
        name, created = node.metadata.name, timestamps.moment(node.metadata.creation_timestamp)
        one = assessed.nodes.get(name)
        template = templates.get(one.group or "") if one is not None else None
        if one is None or one.group is None or template is None or not template.storage:
            continue
        if one.state == READY and created is not None and created > since:
            found[name] = one.group
    return found


def completed(
    node: Node, template: Template, *, own: CSINode | None
) -> tuple[Node, CSINode | None]:
    """A node as it will be once it is up: what it lacks so far is its template's.

    `own` is what its drivers have told already.
    """
    name = node.metadata.name
    own_names = (HOSTNAME, *template.host_keys)
    promised = {
        key: name if key in own_names else value
        for key, value in template.node.metadata.labels.items()
        if key != TEMPLATE_NODE_LABEL
    }
    status = msgspec.structs.replace(
        node.status,
        capacity={**template.node.status.capacity, **node.status.capacity},
        allocatable={**template.node.status.allocatable, **node.status.allocatable},
        declared_features=node.status.declared_features or template.node.status.declared_features,
    )
    labels = {**promised, **node.metadata.labels}
    return (
        msgspec.structs.replace(
            node,
            metadata=msgspec.structs.replace(node.metadata, labels=labels),
            spec=msgspec.structs.replace(
                node.spec, taints=template.node.spec.taints, unschedulable=False
            ),
            status=status,
        ),
        _completed_drivers(name, template.csinode, own),
    )


def _completed_drivers(name: str, promised: CSINode | None, own: CSINode | None) -> CSINode | None:
    """What a driver says of its limit on this very node goes before what is usual in the group."""
    if promised is None:
        return own
    told = {
        entry.name: entry
        for entry in (own.spec.drivers if own is not None else ())
        if entry.limit is not None
    }
    drivers = {**{entry.name: entry for entry in promised.spec.drivers}, **told}
    return msgspec.structs.replace(
        promised,
        metadata=msgspec.structs.replace(promised.metadata, name=name),
        spec=msgspec.structs.replace(promised.spec, drivers=tuple(drivers.values())),
    )
