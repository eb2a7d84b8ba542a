"""Node groups that are recognised by what machines say of themselves: labels of their nodes.

Every platform marks the nodes of a pool. Where a label means several groups of the platform (a
pool of GKE is one in each zone, a NodePool of Karpenter makes machines of any type), the labels
that tell them apart are part of the group's selector.
"""

from collections.abc import Iterable
from typing import NamedTuple

from tonnage.objects.labels import INSTANCE_TYPE, ZONE
from tonnage.objects.meta import LabelSelector, ObjectMeta
from tonnage.objects.nodes import Node
from tonnage.objects.scenarios import NodeGroup, NodeGroupSpec

CAPACITY_TYPE = "karpenter.sh/capacity-type"
OWNER_KIND = "cluster.x-k8s.io/owner-kind"
OWNER_NAME = "cluster.x-k8s.io/owner-name"
OWN_POOLS = ("pool", "nodepool", "node-pool", "nodegroup", "node-group")
"""What clusters without a platform call the pool of a node, with a domain before it or without."""
CONTROL_PLANE = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")


class Platform(NamedTuple):
    """`pool` is the label that names the pool, `apart` those that part it into groups."""

    name: str
    pool: str
    apart: tuple[str, ...] = ()


PLATFORMS = (
    Platform("Karpenter", "karpenter.sh/nodepool", (INSTANCE_TYPE, ZONE, CAPACITY_TYPE)),
    Platform("GKE", "cloud.google.com/gke-nodepool", (ZONE,)),
    Platform("EKS", "eks.amazonaws.com/nodegroup"),
    Platform("eksctl", "alpha.eksctl.io/nodegroup-name"),
    Platform("AKS", "kubernetes.azure.com/agentpool"),
    Platform("AKS", "agentpool"),
    Platform("kOps", "kops.k8s.io/instancegroup"),
    Platform("DigitalOcean", "doks.digitalocean.com/node-pool"),
    Platform("kwok", "kwok.tonnage.dev/group"),
)


class Recognised(NamedTuple):
    """A group, what it was recognised by, and what nobody says and had to be assumed."""

    group: NodeGroup
    by: str
    remarks: tuple[str, ...]


class Recognition(NamedTuple):
    """`others` are nodes that belong to no group that anything says of."""

    groups: tuple[Recognised, ...]
    others: tuple[str, ...]


def recognise(nodes: Iterable[Node], *, label: str = "") -> Recognition:
    """The node groups of live nodes; nodes of the control plane are in none.

    A label of the reader's own goes before those of platforms.
    """
    pools: dict[tuple[str, ...], list[Node]] = {}
    others: list[str] = []
    for node in nodes:
        if any(role in node.metadata.labels for role in CONTROL_PLANE):
            continue
        key = _key(node, label)
        if key is None:
            others.append(node.metadata.name)
        else:
            pools.setdefault(key, []).append(node)
    return Recognition(tuple(_recognised(*one) for one in pools.items()), tuple(others))


def _key(node: Node, own: str) -> tuple[str, ...] | None:
    """What tells a node's group from others: by what, and the values of its labels."""
    labels, annotations = node.metadata.labels, node.metadata.annotations
    if own in labels:
        return ("given", own, labels[own], labels.get(ZONE, ""))
    if annotations.get(OWNER_KIND) in ("MachineSet", "MachinePool"):
        name = annotations.get(OWNER_NAME, "")
        if annotations[OWNER_KIND] == "MachineSet":
            # A MachineDeployment's MachineSets have its name and a hash.
            name = name.rpartition("-")[0] or name
        return ("Cluster API", OWNER_NAME, name)
    for platform in PLATFORMS:
        if platform.pool in labels:
            values = (labels.get(key, "") for key in (platform.pool, *platform.apart))
            return (platform.name, platform.pool, *values)
    for label in sorted(labels):
        if label.rpartition("/")[2] in OWN_POOLS:
            parts = (labels.get(key, "") for key in (INSTANCE_TYPE, ZONE))
            return ("pool", label, labels[label], *parts)
    if INSTANCE_TYPE in labels:
        return ("instance type", INSTANCE_TYPE, labels[INSTANCE_TYPE], labels.get(ZONE, ""))
    return None


_APART = {"Cluster API": (), "pool": (INSTANCE_TYPE, ZONE)}
"""Labels that part groups which no platform's label names; the zone, if nothing is said."""


def candidates(nodes: Iterable[Node]) -> tuple[str, ...]:
    """Labels that may name groups: on every node, and not of another value on each."""
    held = [one.metadata.labels for one in nodes]
    if not held:
        return ()
    common = set(held[0]).intersection(*held[1:])
    return tuple(
        label
        for label in sorted(common)
        if "kubernetes.io/" not in label
        and not label.startswith("topology.")
        and (len(held) == 1 or len({one[label] for one in held}) < len(held))
    )


def _recognised(key: tuple[str, ...], nodes: list[Node]) -> Recognised:
    name, label, *values = key
    platform = next((one for one in PLATFORMS if one.pool == label), None)
    apart = platform.apart if platform is not None else _APART.get(name, (ZONE,))
    chosen = {key: value for key, value in zip((label, *apart), values, strict=False) if value}
    by_name = label == OWNER_NAME
    spec = NodeGroupSpec(
        min_size=0,
        max_size=max(2 * len(nodes), len(nodes) + 10),
        nodes=tuple(node.metadata.name for node in nodes) if by_name else (),
        node_selector=None if by_name else LabelSelector(match_labels=chosen),
    )
    group = NodeGroup(
        metadata=ObjectMeta(name="-".join(filter(None, values)).replace(".", "-")), spec=spec
    )
    return Recognised(group, _by(name, label), tuple(_remarks(nodes, chosen)))


def _by(name: str, label: str) -> str:
    kind = "annotation" if label == OWNER_NAME else "label"
    return f"{name}: {kind} {label}"


def _remarks(nodes: list[Node], chosen: dict[str, str]) -> Iterable[str]:
    yield "minSize and maxSize are guesses: nodes do not say them"
    for label, what in ((ZONE, "zones"), (INSTANCE_TYPE, "instance types")):
        found = sorted({node.metadata.labels.get(label, "") for node in nodes} - {""})
        if len(found) > 1 and label not in chosen:
            yield (
                f"its nodes are of {len(found)} {what} ({', '.join(found[:4])}): a new node is"
                " taken to be like most of them"
            )
