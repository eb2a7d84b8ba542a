"""Which kinds the API serves: the built-in ones, and those that definitions add."""

import msgspec

from tonnage.embedded.apiserver.refusals import Tree
from tonnage.objects import kinds

FIELDS = ("metadata.name", "metadata.namespace")
"""What can be selected by in every kind."""


class PrinterColumn(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A column of a custom kind's table, as its definition says."""

    name: str
    type: str = "string"
    json_path: str = ""
    priority: int = 0


class ServedKind(msgspec.Struct, frozen=True, kw_only=True):
    """A kind as the API serves it. The core group is the empty string."""

    group: str
    version: str
    kind: str
    plural: str
    singular: str
    namespaced: bool
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    has_status: bool = False
    """With a `status` of its own, which the main path neither sets nor changes."""
    scale: tuple[str, str, str] | None = None
    """The paths of wanted replicas, present replicas and the selector, if it can be scaled."""
    generations: bool = False
    """Counts the changes of what is wanted."""
    unconditional: bool = True
    """May be replaced by someone who does not say which version they saw."""
    custom: bool = False
    fields: tuple[str, ...] = FIELDS
    index: str = ""
    """The field by whose value objects are found without looking at all, as in kube-apiserver."""
    columns: tuple[PrinterColumn, ...] = ()
    schema: Tree | None = None
    """Of a custom kind, as its definition says."""
    row: kinds.Kind | None = None
    """How Tonnage reads it, if it does."""

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def full_name(self) -> str:
        """`volumeattachments.storage.k8s.io`, as messages have it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def subresources(self) -> tuple[str, ...]:
        more = ("binding", "eviction") if self.full_name == "pods" else ()
        status = ("status",) if self.has_status else ()
        return (*status, *(("scale",) if self.scale else ()), *more)


class Names(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a custom kind is called."""

    plural: str = ""
    kind: str = ""
    singular: str | None = None
    short_names: tuple[str, ...] | None = None
    categories: tuple[str, ...] | None = None


class _Scale(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    spec_replicas_path: str = ""
    status_replicas_path: str = ""
    label_selector_path: str = ""


class _Subresources(msgspec.Struct, frozen=True, kw_only=True):
    status: Tree | None = None
    scale: _Scale | None = None


class _Selectable(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    json_path: str = ""


class _Schema(msgspec.Struct, frozen=True, kw_only=True):
    openapi: Tree | None = msgspec.field(default=None, name="openAPIV3Schema")


class _Version(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    name: str = ""
    storage: bool = False
    subresources: _Subresources | None = None
    additional_printer_columns: tuple[PrinterColumn, ...] | None = None
    selectable_fields: tuple[_Selectable, ...] | None = None
    schema: _Schema | None = None


class DefinitionSpec(msgspec.Struct, frozen=True, kw_only=True):
    """The spec of a CustomResourceDefinition, of the right types, if perhaps not complete."""

    group: str = ""
    scope: str = ""
    names: Names = Names()
    versions: tuple[_Version, ...] = ()


def definition_spec(definition: Tree) -> DefinitionSpec:
    """Raises `msgspec.ValidationError` where a type is wrong."""
    return msgspec.convert(definition.get("spec", {}), DefinitionSpec)


def from_definition(definition: Tree) -> ServedKind:
    """The kind that a valid CustomResourceDefinition adds, in the version that is stored."""
    spec = definition_spec(definition)
    names = spec.names
    version = next(version for version in spec.versions if version.storage)
    parts = version.subresources or _Subresources()
    selectable = version.selectable_fields or ()
    return ServedKind(
        group=spec.group,
        version=version.name,
        kind=names.kind,
        plural=names.plural,
        singular=names.singular or names.kind.lower(),
        namespaced=spec.scope == "Namespaced",
        short_names=names.short_names or (),
        categories=names.categories or (),
        has_status=parts.status is not None,
        scale=_scale_paths(parts.scale) if parts.scale is not None else None,
        generations=True,
        unconditional=False,
        custom=True,
        fields=(*FIELDS, *(field.json_path.removeprefix(".") for field in selectable)),
        columns=version.additional_printer_columns or (),
        schema=version.schema.openapi if version.schema is not None else None,
    )


def _scale_paths(scale: _Scale) -> tuple[str, str, str]:
    paths = (scale.spec_replicas_path, scale.status_replicas_path, scale.label_selector_path)
    wanted, present, selector = (path.removeprefix(".") for path in paths)
    return wanted, present, selector


def _built_in(
    api_version: str,
    kind: str,
    plural: str,
    *,
    namespaced: bool = True,
    traits: str = "",
    short: str = "",
    fields: str = "",
    index: str = "",
) -> ServedKind:
    """`traits`: `status`, `scale`, `generations`, `versioned` (never replaced unseen), `all`."""
    group, _, version = api_version.rpartition("/")
    has = traits.split()
    return ServedKind(
        group=group,
        version=version,
        kind=kind,
        plural=plural,
        singular=kind.lower(),
        namespaced=namespaced,
        short_names=tuple(short.split()),
        categories=("all",) if "all" in has else (),
        has_status="status" in has,
        scale=("spec.replicas", "status.replicas", "spec.selector") if "scale" in has else None,
        generations="generations" in has,
        unconditional="versioned" not in has,
        fields=(*FIELDS, *fields.split()),
        index=index,
        row=kinds.by_kind(api_version, kind),
    )


_NODE_NAME = "spec.nodeName"
_POD_FIELDS = (
    f"{_NODE_NAME} spec.restartPolicy spec.schedulerName spec.serviceAccountName"
    " spec.hostNetwork status.phase status.podIP status.nominatedNodeName"
)
_EVENT_FIELDS = (
    "involvedObject.kind involvedObject.namespace involvedObject.name involvedObject.uid"
    " involvedObject.apiVersion involvedObject.resourceVersion involvedObject.fieldPath"
    " reason reportingComponent source type"
)
_WORKLOAD = "status scale generations all"
_ADMISSION = "admissionregistration.k8s.io/v1"
"""Policies are kept, and not carried out: nothing here evaluates CEL."""
_APPS, _BATCH, _RBAC = "apps/v1", "batch/v1", "rbac.authorization.k8s.io/v1"
_STORAGE, _TONNAGE = "storage.k8s.io/v1", "tonnage.dev/v1alpha1"

DEFINITIONS = _built_in(
    "apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions",
    namespaced=False, traits="status generations versioned", short="crd crds",
)  # fmt: skip

# fmt: off
BUILT_IN: tuple[ServedKind, ...] = (
    _built_in("v1", "Namespace", "namespaces", namespaced=False, traits="status", short="ns",
              fields="status.phase"),
    _built_in("v1", "Node", "nodes", namespaced=False, traits="status", short="no",
              fields="spec.unschedulable"),
    _built_in("v1", "Pod", "pods", traits="status generations all", short="po",
              fields=_POD_FIELDS, index=_NODE_NAME),
    _built_in("v1", "PersistentVolume", "persistentvolumes", namespaced=False, traits="status",
              short="pv"),
    _built_in("v1", "PersistentVolumeClaim", "persistentvolumeclaims", traits="status",
              short="pvc"),
    _built_in("v1", "PodTemplate", "podtemplates", traits="generations"),
    _built_in("v1", "ConfigMap", "configmaps", short="cm"),
    _built_in("v1", "Secret", "secrets", fields="type"),
    _built_in("v1", "Service", "services", traits="status all", short="svc",
              fields="spec.clusterIP spec.type"),
    _built_in("v1", "ServiceAccount", "serviceaccounts", short="sa"),
    _built_in("v1", "Event", "events", short="ev", fields=_EVENT_FIELDS),
    _built_in("v1", "ReplicationController", "replicationcontrollers", traits=_WORKLOAD,
              short="rc", fields="status.replicas"),
    _built_in("v1", "ResourceQuota", "resourcequotas", traits="status", short="quota"),
    _built_in("v1", "LimitRange", "limitranges", short="limits"),
    _built_in(_APPS, "Deployment", "deployments", traits=_WORKLOAD, short="deploy"),
    _built_in(_APPS, "ReplicaSet", "replicasets", traits=_WORKLOAD, short="rs",
              fields="status.replicas"),
    _built_in(_APPS, "StatefulSet", "statefulsets", traits=_WORKLOAD, short="sts"),
    _built_in(_APPS, "DaemonSet", "daemonsets", traits="status generations all", short="ds"),
    _built_in(_APPS, "ControllerRevision", "controllerrevisions"),
    _built_in(_BATCH, "Job", "jobs", traits="status generations all", fields="status.successful"),
    _built_in(_BATCH, "CronJob", "cronjobs", traits="status generations all", short="cj"),
    _built_in("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets",
              traits="status generations versioned", short="pdb"),
    _built_in("scheduling.k8s.io/v1", "PriorityClass", "priorityclasses", namespaced=False,
              short="pc"),
    _built_in("coordination.k8s.io/v1", "Lease", "leases", traits="versioned"),
    _built_in(_STORAGE, "StorageClass", "storageclasses", namespaced=False, short="sc"),
    _built_in(_STORAGE, "CSINode", "csinodes", namespaced=False, traits="versioned"),
    _built_in(_STORAGE, "CSIDriver", "csidrivers", namespaced=False, traits="versioned"),
    _built_in(_STORAGE, "CSIStorageCapacity", "csistoragecapacities"),
    _built_in(_STORAGE, "VolumeAttachment", "volumeattachments", namespaced=False,
              traits="status versioned"),
    _built_in(_RBAC, "ClusterRole", "clusterroles", namespaced=False),
    _built_in(_RBAC, "ClusterRoleBinding", "clusterrolebindings", namespaced=False),
    _built_in(_RBAC, "Role", "roles"),
    _built_in(_RBAC, "RoleBinding", "rolebindings"),
    _built_in(_ADMISSION, "ValidatingAdmissionPolicy", "validatingadmissionpolicies",
              namespaced=False, traits="status generations"),
    _built_in(_ADMISSION, "ValidatingAdmissionPolicyBinding",
              "validatingadmissionpolicybindings", namespaced=False),
    _built_in("autoscaling.x-k8s.io/v1beta1", "CapacityBuffer", "capacitybuffers",
              traits="status generations versioned", short="cb"),
    _built_in("autoscaling.x-k8s.io/v1", "ProvisioningRequest", "provisioningrequests",
              traits="status generations versioned", short="provreq provreqs"),
    _built_in("scheduling.k8s.io/v1beta1", "PodGroup", "podgroups", traits="status generations"),
    _built_in("scheduling.x-k8s.io/v1alpha1", "PodGroup", "podgroups",
              traits="status generations versioned", short="pg"),
    _built_in("lifecycle.k8s.io/v1alpha1", "EvictionRequest", "evictionrequests",
              traits="status generations versioned"),
    _built_in(_TONNAGE, "NodeGroup", "nodegroups", namespaced=False),
    _built_in(_TONNAGE, "Scenario", "scenarios", namespaced=False),
    DEFINITIONS,
)
# fmt: on
