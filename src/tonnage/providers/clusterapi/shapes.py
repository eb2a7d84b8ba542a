"""The objects of Cluster API, as far as they are read here, in the shapes of v1beta1 and v1beta2.

Both versions decode into the same records: what has moved between them is looked for in both
places.
"""

from typing import NamedTuple

import msgspec

from tonnage.cluster.records import Scale
from tonnage.cluster.resources import Resource, T
from tonnage.objects.meta import Condition, ObjectRecord, Record
from tonnage.objects.nodes import Taint

MACHINE_DEPLOYMENT = "MachineDeployment"
MACHINE_SET = "MachineSet"
MACHINE_POOL = "MachinePool"


class Reference(Record, frozen=True, kw_only=True):
    """`apiGroup` is v1beta2, whose references stay within a namespace; `apiVersion` is v1beta1."""

    api_version: str = ""
    api_group: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""


class Labelled(Record, frozen=True, kw_only=True):
    labels: dict[str, str] = {}


class MachineTemplateSpec(Record, frozen=True, kw_only=True):
    metadata: Labelled = Labelled()
    infrastructure_ref: Reference = Reference()
    taints: tuple[Taint, ...] = ()


class MachineTemplate(Record, frozen=True, kw_only=True):
    metadata: Labelled = Labelled()
    spec: MachineTemplateSpec = MachineTemplateSpec()


class ScalableSpec(Record, frozen=True, kw_only=True):
    cluster_name: str = ""
    replicas: int = 0
    template: MachineTemplate = MachineTemplate()
    provider_id_list: tuple[str, ...] = msgspec.field(default=(), name="providerIDList")


class Scalable(ObjectRecord, frozen=True, kw_only=True):
    """A MachineDeployment, MachineSet or MachinePool; only the last has a list of ids."""

    spec: ScalableSpec = ScalableSpec()


class MachineSpec(Record, frozen=True, kw_only=True):
    provider_id: str = msgspec.field(default="", name="providerID")


class OldFailure(Record, frozen=True, kw_only=True):
    failure_reason: str = ""
    failure_message: str = ""


class Deprecated(Record, frozen=True, kw_only=True):
    v1beta1: OldFailure = OldFailure()


class MachineStatus(Record, frozen=True, kw_only=True):
    phase: str = ""
    node_ref: Reference | None = None
    failure_reason: str = ""
    failure_message: str = ""
    conditions: tuple[Condition, ...] = ()
    deprecated: Deprecated = Deprecated()


class ApiMachine(ObjectRecord, frozen=True, kw_only=True):
    spec: MachineSpec = MachineSpec()
    status: MachineStatus = MachineStatus()


class ClusterSpec(Record, frozen=True, kw_only=True):
    paused: bool = False


class ApiCluster(ObjectRecord, frozen=True, kw_only=True):
    spec: ClusterSpec = ClusterSpec()


class NodeInfo(Record, frozen=True, kw_only=True):
    architecture: str = ""
    operating_system: str = ""


class InfrastructureStatus(Record, frozen=True, kw_only=True):
    capacity: dict[str, str | int | float] = {}
    node_info: NodeInfo = NodeInfo()


class Infrastructure(ObjectRecord, frozen=True, kw_only=True):
    """A template of machines of some infrastructure provider; not all of them fill the status."""

    status: InfrastructureStatus = InfrastructureStatus()


class Kinds(NamedTuple):
    """How the kinds are addressed in one version of the group."""

    machines: Resource[ApiMachine]
    machine_sets: Resource[Scalable]
    machine_deployments: Resource[Scalable]
    machine_pools: Resource[Scalable]
    clusters: Resource[ApiCluster]


def kinds(group: str, version: str) -> Kinds:
    return Kinds(
        machines=_resource(ApiMachine, "Machine", group, version),
        machine_sets=_resource(Scalable, MACHINE_SET, group, version),
        machine_deployments=_resource(Scalable, MACHINE_DEPLOYMENT, group, version),
        machine_pools=_resource(Scalable, MACHINE_POOL, group, version),
        clusters=_resource(ApiCluster, "Cluster", group, version),
    )


def scale_of(scalable: Resource[Scalable]) -> Resource[Scale]:
    """The same objects seen as their scale, to be patched in the subresource of that name."""
    return _resource(Scale, scalable.kind, scalable.group, scalable.version)


def infrastructure(kind: str, *, group: str, version: str) -> Resource[Infrastructure]:
    return _resource(Infrastructure, kind, group, version)


def _resource(type_: type[T], kind: str, group: str, version: str) -> Resource[T]:
    """Cluster API requires of its providers that plurals are made in this plain way."""
    return Resource(
        type_,
        kind=kind,
        group=group,
        version=version,
        plural=f"{kind.lower()}s",
        namespaced=True,
    )
