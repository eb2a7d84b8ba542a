"""What if: a cluster's objects after changes that somebody only thinks about.

Each change gives the objects as they would be then, and says what it had to assume. Nothing
is decided here; the plan of the changed objects is made like any other.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeAlias

import msgspec

from tonnage.errors import InputError
from tonnage.groups import daemons, drivers, limits, node_group_objects
from tonnage.objects import intree, volumes
from tonnage.objects.kinds import KubeObject
from tonnage.objects.meta import ObjectMeta
from tonnage.objects.nodes import Namespace, Node
from tonnage.objects.phrases import alternatives, counted, listed
from tonnage.objects.pods import FINISHED, Pod, PodStatus
from tonnage.objects.scenarios import NodeGroup, NodeGroupSpec
from tonnage.objects.storage import (
    BIND_COMPLETED_ANNOTATION,
    SELECTED_NODE_ANNOTATION,
    ClaimStatus,
    CSIDriver,
    CSIDriverSpec,
    CSINode,
    CSINodeSpec,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from tonnage.scaleup import group_changes, pod_copies, replicas
from tonnage.scaleup.group_changes import GroupChange, SetMaxSize, SetMinSize, SetPrice

FORMS = (
    "add-pods=FILE",
    "limit=DRIVER:N",
    "remove-node=NAME",
    "opt-in=DRIVER",
    "replicas=NAMESPACE/POD:N",
    *group_changes.FORMS,
)


class AddPods(NamedTuple):
    """More pods wait. `objects` are what their file holds: the pods, and claims and the like."""

    file: str
    objects: tuple[KubeObject, ...]


class SetLimit(NamedTuple):
    """Every node that has the driver, now or later, can attach `slots` of its volumes."""

    driver: str
    slots: int


class RemoveNode(NamedTuple):
    """A node is gone, and the pods that somebody would create anew wait again."""

    node: str


class OptIn(NamedTuple):
    """The driver keeps pods with its volumes off nodes where it is not registered."""

    driver: str


class SetReplicas(NamedTuple):
    """The workload of a pod, named `namespace/name`, has so many pods like it."""

    pod: str
    replicas: int


Change: TypeAlias = AddPods | SetLimit | RemoveNode | OptIn | SetReplicas | GroupChange


class Changed(NamedTuple):
    """The objects after changes, and what was assumed on the way."""

    objects: list[KubeObject]
    notes: list[str]


def parse(text: str, *, read: Callable[[str], Iterable[KubeObject]]) -> Change:
    """A change written as one of `FORMS`; `read` gives the objects in a file."""
    name, _, value = text.partition("=")
    if name == "add-pods" and value:
        return AddPods(value, tuple(read(value)))
    if name == "remove-node" and value:
        return RemoveNode(value)
    if name == "opt-in" and value:
        return OptIn(value)
    if name == "limit" and value:
        driver, _, count = value.rpartition(":")
        if driver and count.isascii() and count.isdigit():
            return SetLimit(driver, int(count))
        raise InputError(
            f"what-if {text}: expected limit=DRIVER:N with a whole number N, "
            "such as limit=ebs.csi.aws.com:25"
        )
    if name == "replicas" and value:
        pod, _, count = value.rpartition(":")
        if "/" in pod and count.isascii() and count.isdigit():
            return SetReplicas(pod, int(count))
        raise InputError(
            f"what-if {text}: expected replicas=NAMESPACE/POD:N with one of the workload's pods, "
            "such as replicas=shop/orders-0:12"
        )
    about_group = group_changes.parse(text)
    if about_group is not None:
        return about_group
    raise InputError(
        f"what-if {text}: expected one of {', '.join(FORMS)}; with --scale-down or --consolidate"
        " also ignore-pdb=NAMESPACE/NAME"
    )


def apply(objects: Iterable[KubeObject], changes: Iterable[Change]) -> Changed:
    """Make the changes, one after the other. What they name has to be there, or is an
    `InputError` that says what comes near."""
    changed = Changed(list(objects), [])
    for change in changes:
        match change:
            case AddPods():
                changed = _add_pods(changed, change)
            case SetLimit():
                changed = _set_limit(changed, change)
            case RemoveNode():
                changed = _remove_node(changed, change)
            case OptIn():
                changed = _opt_in(changed, change)
            case SetReplicas():
                held = pod_copies.scaled(changed.objects, change.pod, change.replicas)
                changed = changed._replace(objects=held)
            case SetMaxSize() | SetMinSize() | SetPrice():
                changed = _change_group(changed, change)
    return changed


def _change_group(before: Changed, change: GroupChange) -> Changed:
    declared = [one for one in before.objects if isinstance(one, NodeGroup)]
    after = iter(group_changes.apply(declared, change))
    objects = [next(after) if isinstance(one, NodeGroup) else one for one in before.objects]
    return before._replace(objects=objects)


def _add_pods(before: Changed, change: AddPods) -> Changed:
    found = {_key(one): one for one in before.objects}
    replaced: list[str] = []
    placed = finished = 0
    namespaces: dict[str, None] = {}
    for one in change.objects:
        if isinstance(one, Pod):
            if one.status.phase in FINISHED:
                finished += 1
                continue
            placed += bool(one.spec.node_name)
            namespaces[one.metadata.namespace] = None
            one = _waiting(one)
        key = _key(one)
        if key in found:
            if isinstance(one, Namespace):
                continue
            replaced.append(one.metadata.key)
        found[key] = one
    made = replicas.missing(change.objects, found.values(), replaced=True)
    for one in made.objects:
        found[_key(one)] = one
        namespaces[one.metadata.namespace] = None
    for claim in replicas.with_default_class(
        (one for one in change.objects if isinstance(one, PersistentVolumeClaim)), found.values()
    ):
        found[_key(claim)] = claim
    if not namespaces:
        raise InputError(
            f"what-if add-pods={change.file}: nothing in it adds a pod: "
            f"{_why_no_pods(change, finished)}"
        )
    for name in namespaces:
        missing = Namespace.bare(name)
        found.setdefault(_key(missing), missing)
    notes = [
        text
        for count, text in (
            (finished, f"{counted(finished, 'pod')} left out, having finished"),
            (placed, f"{counted(placed, 'pod')} taken off the node they are on"),
            (len(replaced), f"in place of what is there: {listed(replaced, most=5)}"),
        )
        if count
    ]
    notes += made.notes
    told = [f"what-if add-pods={change.file}: {'; '.join(notes)}"] if notes else []
    return Changed(list(found.values()), [*before.notes, *told])


def _why_no_pods(change: AddPods, finished: int) -> str:
    workloads = [
        replicas.name_of(one) for one in change.objects if isinstance(one, replicas.Workload)
    ]
    if workloads:
        return f"the cluster has all pods that {listed(workloads, most=5)} wants"
    if finished:
        return "its pods have finished"
    return f"{counted(len(change.objects), 'object')}, and no pod or workload among them"


def _set_limit(before: Changed, change: SetLimit) -> Changed:
    said = f"what-if limit={change.driver}:{change.slots}"
    nodes = [one for one in before.objects if isinstance(one, Node)]
    csinodes = {one.metadata.name: one for one in before.objects if isinstance(one, CSINode)}
    declared = [one for one in before.objects if isinstance(one, NodeGroup)]
    members = {group.id: group.nodes for group in node_group_objects.from_objects(declared, nodes)}
    is_listed = any(change.driver in drivers.by_name(one) for one in csinodes.values()) or any(
        _lists(one.spec, change.driver) for one in declared
    )
    # A driver that nobody lists has one limit at most: the one asked for.
    everywhere = not is_listed
    if everywhere and change.driver not in _mentioned(before.objects):
        known = _mentioned(before.objects).union(
            *(drivers.by_name(one) for one in csinodes.values())
        )
        raise InputError(
            f"{said}: no driver {change.driver!r} in the input;"
            f" {alternatives(change.driver, known)}"
        )
    on_nodes = on_groups = 0
    after: list[KubeObject] = []
    for one in before.objects:
        if isinstance(one, CSINode) and change.driver in drivers.by_name(one):
            one = _with_limit(one, change)
            on_nodes += 1
        elif isinstance(one, NodeGroup):
            of_group = (csinodes.get(name) for name in members[one.metadata.name])
            showing = any(drivers.by_name(csinode) for csinode in of_group)
            override = everywhere or (not showing and _in_catalogue(one.spec, change.driver))
            if override or _lists(one.spec, change.driver):
                one = _group_with_limit(one, change, override=override)
                on_groups += 1
        after.append(one)
    text = f"{said}: set on {counted(on_nodes, 'node')} and {counted(on_groups, 'node group')}"
    if everywhere:
        text += "; no CSINode lists the driver, so nodes that are there stay without a limit"
    return Changed(after, [*before.notes, text])


def _lists(spec: NodeGroupSpec, driver: str) -> bool:
    csinode = spec.template.csi_node if spec.template is not None else None
    return driver in spec.limits or driver in drivers.by_name(csinode)


def _in_catalogue(spec: NodeGroupSpec, driver: str) -> bool:
    """Whether the limit of the group's first node would be looked up by its instance type."""
    if spec.template is None:
        return False
    return limits.from_catalogue(driver, spec.template.node) is not None


def _group_with_limit(group: NodeGroup, change: SetLimit, *, override: bool) -> NodeGroup:
    spec = group.spec
    if override or change.driver in spec.limits:
        spec = msgspec.structs.replace(spec, limits={**spec.limits, change.driver: change.slots})
    if spec.template is not None and spec.template.csi_node is not None:
        csinode = _with_limit(spec.template.csi_node, change)
        template = msgspec.structs.replace(spec.template, csi_node=csinode)
        spec = msgspec.structs.replace(spec, template=template)
    return msgspec.structs.replace(group, spec=spec)


def _with_limit(csinode: CSINode, change: SetLimit) -> CSINode:
    listed = tuple(
        drivers.with_count(one, change.slots) if one.name == change.driver else one
        for one in csinode.spec.drivers
    )
    return msgspec.structs.replace(csinode, spec=CSINodeSpec(drivers=listed))


def _mentioned(objects: Iterable[KubeObject]) -> set[str]:
    """Drivers that classes, volumes and driver objects speak of."""
    found: set[str] = set()
    for one in objects:
        if isinstance(one, CSIDriver):
            found.add(one.metadata.name)
        elif isinstance(one, StorageClass):
            found.add(intree.csi_driver_of(one.provisioner) or one.provisioner)
        elif isinstance(one, PersistentVolume) and one.spec.csi is not None:
            found.add(one.spec.csi.driver)
    return found


def _remove_node(before: Changed, change: RemoveNode) -> Changed:
    nodes = [one for one in before.objects if isinstance(one, Node)]
    names = {node.metadata.name for node in nodes}
    if change.node not in names:
        raise InputError(
            f"what-if remove-node={change.node}: no such node in the input;"
            f" {alternatives(change.node, names)}"
        )
    declared = [one for one in before.objects if isinstance(one, NodeGroup)]
    owner = next(
        (g.id for g in node_group_objects.from_objects(declared, nodes) if change.node in g.nodes),
        None,
    )
    fate = _Evicted.of(before.objects, change.node)
    after: list[KubeObject] = []
    for one in before.objects:
        match one:
            case Node() | CSINode() if one.metadata.name == change.node:
                continue
            case VolumeAttachment() if one.spec.node_name == change.node:
                continue
            case Pod() if one.spec.node_name == change.node:
                if one.metadata.key not in fate.waiting:
                    continue
                one = _waiting(one)
            case PersistentVolume() if one.metadata.name in fate.volumes:
                continue
            case PersistentVolumeClaim():
                one = _claim_after(one, change.node, fate)
            case NodeGroup() if one.metadata.name == owner:
                one = _group_without(one, change.node)
            case _:
                pass
        after.append(one)
    text = f"what-if remove-node={change.node}: pods of it that wait again: {len(fate.waiting):,}"
    if fate.lost:
        text += f"; lost, having no controller: {listed(fate.lost, most=5)}"
    return Changed(after, [*before.notes, text])


class _Evicted(NamedTuple):
    """What becomes of the pods of a node that goes.

    `claims` are those of their ephemeral volumes, which are made anew with them, and `volumes`
    what these were bound to.
    """

    waiting: frozenset[str]
    lost: list[str]
    claims: frozenset[tuple[str, str]]
    volumes: frozenset[str]

    @classmethod
    def of(cls, objects: Iterable[KubeObject], node: str) -> "_Evicted":
        waiting: list[Pod] = []
        lost: list[str] = []
        claims: dict[tuple[str, str], PersistentVolumeClaim] = {}
        for one in objects:
            if isinstance(one, PersistentVolumeClaim):
                claims[one.metadata.namespace, one.metadata.name] = one
            elif isinstance(one, Pod) and one.spec.node_name == node and _outlives(one):
                if one.metadata.controller is None:
                    lost.append(one.metadata.key)
                else:
                    waiting.append(one)
        renewed = {
            key: claims[key]
            for pod in waiting
            for volume in volumes.of_pod(pod)
            if (key := (pod.metadata.namespace, volume.claim)) in claims
            and volumes.controlled_by(claims[key], pod.metadata)
        }
        return cls(
            frozenset(one.metadata.key for one in waiting),
            lost,
            frozenset(renewed),
            frozenset(claim.spec.volume_name for claim in renewed.values()),
        )


def _outlives(pod: Pod) -> bool:
    """Whether the pod would be missed: it is not finished, leaving, or part of the node."""
    return (
        pod.status.phase not in FINISHED
        and pod.metadata.deletion_timestamp is None
        and not daemons.is_daemon(pod.metadata)
        and not daemons.is_mirror(pod)
    )


def _claim_after(claim: PersistentVolumeClaim, node: str, fate: _Evicted) -> PersistentVolumeClaim:
    annotations = dict(claim.metadata.annotations)
    if (claim.metadata.namespace, claim.metadata.name) in fate.claims:
        annotations.pop(BIND_COMPLETED_ANNOTATION, None)
        claim = msgspec.structs.replace(
            claim,
            spec=msgspec.structs.replace(claim.spec, volume_name=""),
            status=ClaimStatus(phase="Pending"),
        )
    if not claim.spec.volume_name and annotations.get(SELECTED_NODE_ANNOTATION) == node:
        # A provisioner whose node is gone asks the scheduler again.
        del annotations[SELECTED_NODE_ANNOTATION]
    if annotations == claim.metadata.annotations:
        return claim
    metadata = msgspec.structs.replace(claim.metadata, annotations=annotations)
    return msgspec.structs.replace(claim, metadata=metadata)


def _group_without(group: NodeGroup, node: str) -> NodeGroup:
    """The group when one of its nodes was taken away, not merely lost: its target falls too."""
    spec = group.spec
    target = spec.target_size
    return msgspec.structs.replace(
        group,
        spec=msgspec.structs.replace(
            spec,
            nodes=tuple(name for name in spec.nodes if name != node),
            target_size=None if target is None else max(target - 1, 0),
        ),
    )


def _opt_in(before: Changed, change: OptIn) -> Changed:
    said = f"what-if opt-in={change.driver}"
    notes: list[str] = []
    found = False
    after: list[KubeObject] = []
    for one in before.objects:
        if isinstance(one, CSIDriver) and one.metadata.name == change.driver:
            found = True
            if one.spec.prevent_pod_scheduling_if_missing:
                notes.append(f"{said}: it is opted in already")
            spec = msgspec.structs.replace(one.spec, prevent_pod_scheduling_if_missing=True)
            one = msgspec.structs.replace(one, spec=spec)
        after.append(one)
    if not found:
        notes.append(f"{said}: no CSIDriver object of this name in the input; one is assumed")
        after.append(
            CSIDriver(
                metadata=ObjectMeta(name=change.driver),
                spec=CSIDriverSpec(prevent_pod_scheduling_if_missing=True),
            )
        )
    return Changed(after, [*before.notes, *notes])


def _waiting(pod: Pod) -> Pod:
    """The pod as its controller would make it again: without a node, and new to everybody."""
    return msgspec.structs.replace(
        pod,
        metadata=msgspec.structs.replace(pod.metadata, deletion_timestamp=None),
        spec=msgspec.structs.replace(pod.spec, node_name=""),
        status=PodStatus(phase="Pending"),
    )


def _key(one: KubeObject) -> tuple[type, str, str]:
    return type(one), one.metadata.namespace, one.metadata.name
