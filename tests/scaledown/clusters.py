"""Small clusters for tests of scale-down, built by keyword."""

from typing import Any

from tests.scaleup.groups import owned_by
from tonnage.api import Cluster
from tonnage.objects.kinds import KubeObject
from tonnage.objects.meta import LabelSelector, ObjectMeta
from tonnage.objects.pods import Pod
from tonnage.objects.scenarios import GroupTemplate, NodeGroup, NodeGroupSpec
from tonnage.objects.workloads import (
    DisruptionBudgetSpec,
    DisruptionBudgetStatus,
    PodDisruptionBudget,
    ReplicaSet,
    ReplicaSetSpec,
    StatefulSet,
)
from tonnage.scaledown.plan import NodeDecision, ScaleDownPlan
from tonnage.testing import builders as make

DRIVER = "disk.example.com"


def group(*nodes: str, least: int = 0, price: str | None = None, **spec: Any) -> NodeGroup:
    """A group of these nodes."""
    return NodeGroup(
        metadata=ObjectMeta(name="g"),
        spec=NodeGroupSpec(min_size=least, max_size=50, nodes=nodes, price_per_hour=price, **spec),
    )


def template(zone: str) -> GroupTemplate:
    return GroupTemplate(node=make.node("template", zone=zone))


WEB = ReplicaSet(
    metadata=ObjectMeta(name="web", namespace="default"), spec=ReplicaSetSpec(replicas=3)
)
DB = StatefulSet(metadata=ObjectMeta(name="db", namespace="default"))


def web(name: str, on: str, **fields: Any) -> Pod:
    """A pod of a ReplicaSet."""
    fields = {"cpu": "500m", "labels": {"app": "web"}, **fields}
    return make.pod(name, on=on, owner=owned_by("ReplicaSet", "web"), **fields)


def db(name: str, on: str, **fields: Any) -> Pod:
    """A pod of a StatefulSet."""
    fields = {"cpu": "500m", "labels": {"app": "db"}, **fields}
    return make.pod(name, on=on, owner=owned_by("StatefulSet", "db"), **fields)


def budget(allowed: int, app: str = "web") -> PodDisruptionBudget:
    return PodDisruptionBudget(
        metadata=ObjectMeta(name=app, namespace="default"),
        spec=DisruptionBudgetSpec(selector=LabelSelector(match_labels={"app": app})),
        status=DisruptionBudgetStatus(disruptions_allowed=allowed),
    )


def volume(claim: str, **fields: Any) -> list[KubeObject]:
    """A claim bound to a volume of the driver."""
    asking = make.pvc(claim, storage_class="disk", volume=f"pv-{claim}")
    bound = make.pv(f"pv-{claim}", driver=DRIVER, storage_class="disk", claim=asking, **fields)
    return [asking, bound]


def plan(*objects: KubeObject, **options: Any) -> ScaleDownPlan:
    return Cluster([WEB, DB, *objects]).scale_down(options)


def nodes(made: ScaleDownPlan) -> dict[str, NodeDecision]:
    return {node.node: node for node in made.nodes}


def going(made: ScaleDownPlan) -> list[str]:
    return [node.node for node in made.going]
