"""Clusters with one thing wrong, one per code; and what is right about them."""

from collections.abc import Sequence
from typing import Any

import msgspec

from tonnage.doctor import inspection
from tonnage.doctor.evidence import Evidence
from tonnage.doctor.findings import Finding
from tonnage.groups.model import TEMPLATE_NODE_LABEL
from tonnage.objects.kinds import KubeObject
from tonnage.objects.meta import ObjectMeta
from tonnage.objects.nodes import Taint
from tonnage.objects.pods import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from tonnage.objects.scenarios import GroupTemplate, NodeGroup, NodeGroupSpec
from tonnage.objects.storage import OPT_IN_ANNOTATION, CSIDriver, StorageClass
from tonnage.rules import features
from tonnage.testing import builders

EBS = "ebs.csi.aws.com"
TYPE = "node.kubernetes.io/instance-type"
NOW = 2_000_000_000.0


def evidence(
    *objects: KubeObject,
    beside: Sequence[dict[str, Any]] = (),
    version: str = "",
    gates: dict[str, bool] | None = None,
) -> Evidence:
    return Evidence(objects, features=features.of_version(version, gates), now=NOW, beside=beside)


def found(code: str, *objects: KubeObject, **more: Any) -> list[Finding]:
    return [one for one in inspection.inspect(evidence(*objects, **more)) if one.code == code]


def deployment(*line: str, image: str = "x", name: str = "autoscaler") -> dict[str, Any]:
    container = {"name": "main", "image": image, "command": list(line)}
    spec = {"serviceAccountName": name, "containers": [container]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "kube-system"},
        "spec": {"template": {"spec": spec}},
    }


def upstream(*flags: str) -> dict[str, Any]:
    return deployment("./cluster-autoscaler", *flags)


def role(*rules: dict[str, list[str]], name: str = "autoscaler") -> list[dict[str, Any]]:
    """A ClusterRole with these rules, bound to the service account of that name."""
    return [
        {"kind": "ClusterRole", "metadata": {"name": name}, "rules": list(rules)},
        {
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": {"kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "kube-system"}],
        },
    ]


def rule(group: str, *resources: str, verbs: tuple[str, ...] = ("list", "watch")) -> dict[str, Any]:
    return {"apiGroups": [group], "resources": list(resources), "verbs": list(verbs)}


def scheduler(**extender: Any) -> dict[str, Any]:
    fields = {"urlPrefix": "https://extender", "filterVerb": "filter", **extender}
    return {"kind": "KubeSchedulerConfiguration", "extenders": [fields]}


def typed(name: str, type_: str = "m5.large") -> KubeObject:
    return builders.node(name, labels={TYPE: type_, "kubernetes.io/hostname": name})


def group(name: str, *, csinode: bool) -> NodeGroup:
    """Of no instance type: the catalogue would know what drivers such a node has."""
    template = GroupTemplate(
        node=builders.node(""),
        csi_node=builders.csinode("", {EBS: 25}) if csinode else None,
    )
    return NodeGroup(
        metadata=ObjectMeta(name=name), spec=NodeGroupSpec(max_size=5, template=template)
    )


def group_of(*nodes: str, listing: str = EBS) -> NodeGroup:
    """A group of these nodes, whose template lists a driver."""
    template = GroupTemplate(node=builders.node(""), csi_node=builders.csinode("", {listing: 25}))
    spec = NodeGroupSpec(max_size=5, nodes=nodes, template=template)
    return NodeGroup(metadata=ObjectMeta(name="g"), spec=spec)


def asking_for_capacity(size: str = "100Gi") -> StorageClass:
    one = builders.storage_class("local", "local")
    meta = msgspec.structs.replace(
        one.metadata, annotations={"tonnage.dev/template-capacity": size}
    )
    return msgspec.structs.replace(one, metadata=meta)


def annotated(driver: CSIDriver, **annotations: str) -> CSIDriver:
    meta = msgspec.structs.replace(driver.metadata, annotations=annotations)
    return msgspec.structs.replace(driver, metadata=meta)


def applied_with(field: str) -> CSIDriver:
    """A driver that was applied with a field, of which nothing has remained but kubectl's note."""
    note = f'{{"spec": {{"{field}": true}}}}'
    meta = ObjectMeta(
        name=EBS, annotations={"kubectl.kubernetes.io/last-applied-configuration": note}
    )
    return CSIDriver(metadata=meta)


def opted_in_by_annotation() -> CSIDriver:
    return CSIDriver(metadata=ObjectMeta(name=EBS, annotations={OPT_IN_ANNOTATION: "true"}))


def tainted(driver: str) -> KubeObject:
    taint = Taint(key=f"{driver}/agent-not-ready", effect="NoExecute")
    return builders.node("n1", taints=[taint])


def users(node: str, count: int, **more: Any) -> list[KubeObject]:
    """Pods on a node with a bound claim of EBS each."""
    objects: list[KubeObject] = []
    for number in range(count):
        name = f"db-{number}"
        claim = builders.pvc(name, volume=name)
        objects += [claim, builders.pv(name, driver=EBS, claim=claim)]
        objects.append(builders.pod(name, on=node, volumes=[builders.claim_volume(name)], **more))
    return objects


def waiting(name: str) -> list[KubeObject]:
    """A pending pod with a bound claim of EBS."""
    claim = builders.pvc(name, volume=name)
    volumes = [builders.claim_volume(name)]
    return [
        claim,
        builders.pv(name, driver=EBS, claim=claim),
        builders.pod(name, volumes=volumes),
    ]


def on_disk(node: str) -> KubeObject:
    """A volume on the local disk of a node."""
    here = NodeSelectorRequirement(key="kubernetes.io/hostname", operator="In", values=(node,))
    affinity = NodeSelector(node_selector_terms=(NodeSelectorTerm(match_expressions=(here,)),))
    return builders.pv("v", driver="local", storage_class="local", node_affinity=affinity)


def local(free: str = "100Gi") -> list[KubeObject]:
    """A node whose driver publishes what it has left."""
    hostname = {"kubernetes.io/hostname": "n1"}
    return [
        typed("n1"),
        builders.csidriver("local", storage_capacity=True),
        builders.storage_class("local", "local"),
        builders.capacity("of-n1", "local", free=free, topology=hostname),
    ]


def for_templates(free: str, *, type_: str = "m5.large") -> KubeObject:
    topology = {TEMPLATE_NODE_LABEL: "true", TYPE: type_}
    return builders.capacity("of-templates", "local", free=free, topology=topology)
