"""Clusters without their names: what a bug report may show.

Every word (a run of letters and digits) of a name, a label's value or a volume's handle is replaced
by a code, the same one wherever the word occurs. What is between words stays, and codes sort as
their words do. So everything that holds between names still holds between codes: equal names stay
equal, `web-0-cache` is still the claim of volume `cache` of pod `web-0`, and whatever is decided by
the order of names is decided the same way. Verdicts and plans stay as they were.

What has a meaning of its own is kept: keys of labels, annotations and taints, names of
resources and CSI drivers, instance types, amounts and times. Annotations nobody here reads are left
out, and so are messages.
"""

import math
import re
from collections.abc import Callable, Iterable
from functools import cache, partial
from typing import Any, TypeAlias

import msgspec

from tonnage.groups.catalogue.formulas import GCE_OVERRIDE_LABEL
from tonnage.groups.daemons import DAEMON_ANNOTATION, MIRROR_ANNOTATION, plugin_of
from tonnage.objects import (
    buffers,
    evictions,
    gangs,
    meta,
    nodes,
    pods,
    quotas,
    scenarios,
    storage,
    volume_sources,
    workloads,
)
from tonnage.objects.kinds import KubeObject
from tonnage.objects.labels import POD_INDEX_LABEL
from tonnage.objects.provisioning_requests import (
    CONSUME_ANNOTATION,
    OLD_CONSUME_ANNOTATION,
    ProvisioningRequestSpec,
    ProvisioningRequestStatus,
)

KEPT_LABELS = frozenset(
    {
        "beta.kubernetes.io/arch",
        "beta.kubernetes.io/instance-type",
        "beta.kubernetes.io/os",
        "kubernetes.io/arch",
        "kubernetes.io/os",
        "node.kubernetes.io/instance-type",
        POD_INDEX_LABEL,
        GCE_OVERRIDE_LABEL,
    }
)
"""Labels whose values mean the same in every cluster."""

OUR_PREFIXES = ("tonnage.dev/", "cluster-autoscaler.kubernetes.io/")
"""Labels and annotations that are orders to autoscalers: switches, numbers, names of drivers."""

KEPT_ANNOTATIONS = frozenset(
    {
        DAEMON_ANNOTATION,
        gangs.KUEUE_TOTAL_ANNOTATION,
        storage.BIND_COMPLETED_ANNOTATION,
        storage.MIGRATED_PLUGINS_ANNOTATION,
        storage.OPT_IN_ANNOTATION,
    }
)
RENAMED_ANNOTATIONS = frozenset(
    {
        MIRROR_ANNOTATION,
        CONSUME_ANNOTATION,
        OLD_CONSUME_ANNOTATION,
        storage.CLASS_ANNOTATION,
        storage.SELECTED_NODE_ANNOTATION,
        "kubernetes.io/azure-file-resource-group",
    }
)

_WORD = re.compile(r"[^\W_]+")
_INTEGER = re.compile(r"[+-]?[0-9]+")
# No vowels: a code is never a word, and never a number.
_LETTERS = "bcdfghjklmnpqrstvwxz"
_SCHEMES = frozenset({"aws", "azure", "gce", "kwok", "openstack", "vsphere"})
_HANDLE_WORDS = _SCHEMES | {
    "vol", "projects", "zones", "regions", "disks", "UNSPECIFIED", "storage", "account", "secret",
}  # fmt: skip
"""What handles are recognised by."""

_NARROWEST = 3
_FOR_LATER = 6
"""Letters of codes of words that come later: enough for 64 million of them."""

_EVERY_HOST = frozenset({"0.0.0.0", "::", "127.0.0.1", "::1"})
_LONGEST_LABEL = 63
_SYSTEM_CLASS = "system-"
_NODE_NAME_FIELD = "metadata.name"


class Anonymiser:
    """Knows the words of the objects it was made of. Equal texts have equal aliases, others others.

    Aliases sort as the texts do, as far as these are words between `-`, `.` and `/`.
    """

    def __init__(self, objects: Iterable[KubeObject]) -> None:
        self._comparisons = _Comparisons()
        self._long: dict[str, str] = {}
        objects = list(objects)
        for obj in objects:
            self._comparisons.look_at(obj)
        words: set[str] = set()
        collecting = _Rewriter(lambda text: _collected(text, words), self._label, self._comparisons)
        for obj in objects:
            collecting.rewritten(obj)
        self._codes = _codes(words)
        self._later = 0
        self._rewriter = _Rewriter(self.alias, self._label, self._comparisons)

    def learn(self, obj: KubeObject) -> None:
        """Know the words of one more object. Their codes are longer than those of words known from
        the beginning, and come in the order of their words only by chance.
        """
        words: set[str] = set()
        collecting = _Rewriter(lambda text: _collected(text, words), self._label, self._comparisons)
        collecting.rewritten(obj)
        width = len(next(iter(self._codes.values()), "")) or _NARROWEST
        for word in sorted(words - self._codes.keys()):
            self._codes[word] = _code(self._later, max(width + 1, _FOR_LATER))
            self._later += 1

    def alias(self, text: str) -> str:
        """The text with a code for every word; words that no object has stay as they are."""
        return _WORD.sub(lambda word: self._codes.get(word[0], word[0]), text)

    def renamed(self, obj: KubeObject) -> KubeObject:
        """One of the objects, without its names."""
        renamed: KubeObject = self._rewriter.rewritten(obj)
        if isinstance(obj, storage.CSIDriver) or (
            isinstance(obj, workloads.PriorityClass) and obj.metadata.name.startswith(_SYSTEM_CLASS)
        ):
            metadata = msgspec.structs.replace(renamed.metadata, name=obj.metadata.name)
            return msgspec.structs.replace(renamed, metadata=metadata)
        return renamed

    def _label(self, raw: str, alias: str) -> str:
        """A label's value, as valid as it was: only its length can have changed that."""
        if len(raw) <= _LONGEST_LABEL < len(alias):
            width = len(next(iter(self._codes.values()))) + 1
            return self._long.setdefault(raw, _code(len(self._long), width))
        if len(alias) <= _LONGEST_LABEL < len(raw):
            return alias.ljust(_LONGEST_LABEL + 1, "x")
        return alias


class _Comparisons:
    """Which keys are compared as numbers: their values must stay numbers."""

    def __init__(self) -> None:
        self.keys: set[str] = set()
        self.taints = False

    def look_at(self, value: Any) -> None:
        if isinstance(value, pods.NodeSelectorRequirement):
            if value.operator in ("Gt", "Lt"):
                self.keys.add(value.key)
        elif isinstance(value, pods.Toleration):
            self.taints = self.taints or value.operator in ("Gt", "Lt")
        elif isinstance(value, tuple):
            for one in value:
                self.look_at(one)
        elif isinstance(value, meta.Record):
            type_: type = type(value)
            for field in _records_in(type_):
                self.look_at(getattr(value, field))


_Text: TypeAlias = Callable[[str], str]
_Change: TypeAlias = Callable[["_Rewriter", Any], Any]


class _Rewriter:
    """Passes every text of a record that names something through a function."""

    def __init__(
        self, text: _Text, label: Callable[[str, str], str], comparisons: _Comparisons
    ) -> None:
        self.text = text
        self._label = label
        self._comparisons = comparisons

    def rewritten(self, record: Any) -> Any:
        changes = {}
        type_: type = type(record)
        for field, change in _changes(type_):
            value = getattr(record, field)
            # Nothing at all names nothing, and means "nothing" wherever it is compared.
            if value:
                changes[field] = change(self, value)
        return msgspec.structs.replace(record, **changes) if changes else record

    def label(self, key: str, value: str) -> str:
        if key == _NODE_NAME_FIELD:
            return self.text(value)
        if key in KEPT_LABELS or key.startswith(OUR_PREFIXES):
            return value
        if key in self._comparisons.keys and _INTEGER.fullmatch(value):
            return value
        return self._label(value, self.text(value))

    def taint(self, value: str) -> str:
        kept = self._comparisons.taints and _INTEGER.fullmatch(value)
        return value if kept else self.text(value)


def _collected(text: str, words: set[str]) -> str:
    words.update(_WORD.findall(text))
    return text


def _codes(words: set[str]) -> dict[str, str]:
    width = max(_NARROWEST, math.ceil(math.log(len(words) + 1, len(_LETTERS))))
    return {word: _code(rank, width) for rank, word in enumerate(sorted(words))}


def _code(rank: int, width: int) -> str:
    letters = []
    for _ in range(width):
        rank, digit = divmod(rank, len(_LETTERS))
        letters.append(_LETTERS[digit])
    return "".join(reversed(letters))


# What is done to a field


def _kept(_: _Rewriter, value: Any) -> Any:
    return value


def _dropped(_: _Rewriter, value: Any) -> Any:
    return type(value)()


def _name(rewriter: _Rewriter, value: str) -> str:
    return rewriter.text(value)


def _names(rewriter: _Rewriter, values: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(map(rewriter.text, values))


def _handle(rewriter: _Rewriter, value: str) -> str:
    return _WORD.sub(
        lambda word: word[0] if word[0] in _HANDLE_WORDS else rewriter.text(word[0]), value
    )


def _plugin_path(_: _Rewriter, value: str) -> str:
    """The part of a path that names a CSI driver, as kept elsewhere; nothing of any other."""
    driver = plugin_of(value)
    return f"/kubelet/plugins/{driver}" if driver else ""


def _host(rewriter: _Rewriter, value: str) -> str:
    return value if value in _EVERY_HOST else rewriter.text(value)


def _class(rewriter: _Rewriter, value: str) -> str:
    return value if value.startswith(_SYSTEM_CLASS) else rewriter.text(value)


def _class_names(rewriter: _Rewriter, values: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(_class(rewriter, value) for value in values)


def _labels(rewriter: _Rewriter, labels: dict[str, str]) -> dict[str, str]:
    return {key: rewriter.label(key, value) for key, value in labels.items()}


def _annotations(rewriter: _Rewriter, annotations: dict[str, str]) -> dict[str, str]:
    found = {}
    for key, value in annotations.items():
        if key in RENAMED_ANNOTATIONS:
            found[key] = rewriter.text(value)
        elif key in KEPT_ANNOTATIONS or key.startswith(OUR_PREFIXES):
            found[key] = value
    return found


def _requirements(rewriter: _Rewriter, requirements: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(
        msgspec.structs.replace(
            requirement,
            values=tuple(rewriter.label(requirement.key, value) for value in requirement.values),
        )
        for requirement in requirements
    )


def _descended(rewriter: _Rewriter, value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(rewriter.rewritten, value))
    return rewriter.rewritten(value)


def _fields(type_: type, change: _Change, *names: str) -> dict[tuple[type, str], _Change]:
    return {(type_, name): change for name in names}


_sources = volume_sources
_TREATMENT: dict[tuple[type, str], _Change] = {
    **_fields(meta.OwnerReference, _kept, "api_version", "kind"),
    **_fields(meta.OwnerReference, _name, "name", "uid"),
    **_fields(meta.ObjectMeta, _name, "name", "namespace", "uid", "generate_name"),
    **_fields(meta.ObjectMeta, _dropped, "resource_version"),
    **_fields(meta.ObjectMeta, _kept, "finalizers", "creation_timestamp", "deletion_timestamp"),
    **_fields(meta.ObjectMeta, _labels, "labels"),
    **_fields(meta.ObjectMeta, _annotations, "annotations"),
    **_fields(meta.LabelSelector, _labels, "match_labels"),
    **_fields(meta.LabelSelector, _requirements, "match_expressions"),
    **_fields(meta.Condition, _dropped, "message"),
    **_fields(
        meta.Condition, _kept, "type", "status", "reason",
        "last_transition_time", "last_heartbeat_time", "last_probe_time",
    ),
    **_fields(nodes.Taint, _kept, "key", "effect", "time_added"),
    **_fields(nodes.Taint, _Rewriter.taint, "value"),
    **_fields(nodes.NodeSpec, _handle, "provider_id"),
    **_fields(nodes.NodeStatus, _kept, "capacity", "allocatable", "declared_features"),
    **_fields(pods.ResourceRequirements, _kept, "requests", "limits"),
    **_fields(pods.ContainerPort, _host, "host_ip"),
    **_fields(pods.ContainerPort, _kept, "protocol"),
    **_fields(pods.ContainerRestartRule, _kept, "action"),
    **_fields(pods.VolumeMount, _kept, "bind_mount_options"),
    **_fields(pods.Container, _name, "name"),
    **_fields(pods.Container, _kept, "restart_policy"),
    **_fields(pods.NodeSelectorTerm, _requirements, "match_expressions", "match_fields"),
    **_fields(pods.PodAffinityTerm, _names, "namespaces"),
    **_fields(
        pods.PodAffinityTerm, _kept, "topology_key", "match_label_keys", "mismatch_label_keys"
    ),
    **_fields(pods.Toleration, _kept, "key", "operator", "effect"),
    **_fields(pods.Toleration, _Rewriter.taint, "value"),
    **_fields(
        pods.TopologySpreadConstraint, _kept, "topology_key", "when_unsatisfiable",
        "node_affinity_policy", "node_taints_policy", "match_label_keys",
    ),
    **_fields(pods.SchedulingGate, _kept, "name"),
    **_fields(pods.SchedulingGroup, _name, "pod_group_name"),
    **_fields(pods.ResourceClaimReference, _name, "name"),
    **_fields(pods.EvictionResponder, _name, "name"),
    **_fields(evictions.EvictionPodReference, _name, "name", "uid"),
    **_fields(evictions.EvictionRequestSpec, _kept, "requester", "intent"),
    **_fields(pods.PodSpec, _name, "node_name"),
    **_fields(pods.PodSpec, _labels, "node_selector"),
    **_fields(pods.PodSpec, _class, "priority_class_name"),
    **_fields(
        pods.PodSpec, _kept, "scheduler_name", "overhead", "preemption_policy", "restart_policy"
    ),
    **_fields(pods.ContainerStatus, _name, "name"),
    **_fields(pods.ContainerStatus, _kept, "allocated_resources"),
    **_fields(pods.PodStatus, _name, "nominated_node_name"),
    **_fields(pods.PodStatus, _kept, "phase", "allocated_resources", "start_time"),
    **_fields(_sources.ClaimReference, _name, "claim_name"),
    **_fields(_sources.VolumeResources, _kept, "requests"),
    **_fields(_sources.ClaimSpec, _kept, "access_modes", "volume_mode"),
    **_fields(
        _sources.ClaimSpec, _name,
        "volume_name", "storage_class_name", "volume_attributes_class_name",
    ),
    **_fields(_sources.CSISource, _kept, "driver"),
    **_fields(_sources.EmptyDirSource, _kept, "medium"),
    **_fields(_sources.CSISource, _handle, "volume_handle"),
    **_fields(_sources.AWSElasticBlockStoreSource, _handle, "volume_id"),
    **_fields(_sources.GCEPersistentDiskSource, _handle, "pd_name"),
    **_fields(_sources.AzureDiskSource, _handle, "disk_name", "disk_uri"),
    **_fields(_sources.AzureDiskSource, _kept, "kind"),
    **_fields(_sources.AzureFileSource, _handle, "secret_name", "share_name"),
    **_fields(_sources.AzureFileSource, _name, "secret_namespace"),
    **_fields(_sources.CinderSource, _handle, "volume_id"),
    **_fields(_sources.VsphereVolumeSource, _handle, "volume_path"),
    **_fields(_sources.PortworxVolumeSource, _handle, "volume_id"),
    **_fields(_sources.ISCSISource, _name, "iqn"),
    **_fields(_sources.HostPathSource, _plugin_path, "path"),
    **_fields(_sources.RBDSource, _name, "image", "pool"),
    **_fields(_sources.RBDSource, _names, "monitors"),
    **_fields(_sources.VolumeSource, _name, "name"),
    **_fields(storage.ClaimStatus, _kept, "phase", "capacity"),
    **_fields(storage.ObjectReference, _kept, "kind"),
    **_fields(storage.ObjectReference, _name, "namespace", "name", "uid"),
    **_fields(storage.VolumeSpec, _kept, "capacity", "access_modes", "volume_mode"),
    **_fields(storage.VolumeSpec, _name, "storage_class_name", "volume_attributes_class_name"),
    **_fields(storage.VolumeStatus, _kept, "phase"),
    **_fields(storage.TopologyTerm, _requirements, "match_label_expressions"),
    **_fields(storage.StorageClass, _kept, "provisioner", "volume_binding_mode"),
    **_fields(storage.NodeDriver, _kept, "name", "topology_keys"),
    **_fields(storage.NodeDriver, _name, "node_id"),
    **_fields(storage.CSIStorageCapacity, _name, "storage_class_name"),
    **_fields(storage.CSIStorageCapacity, _kept, "capacity", "maximum_volume_size"),
    **_fields(storage.AttachmentSource, _name, "persistent_volume_name"),
    **_fields(storage.AttachmentSpec, _kept, "attacher"),
    **_fields(storage.AttachmentSpec, _name, "node_name"),
    **_fields(storage.AttachError, _kept, "time"),
    **_fields(storage.AttachError, _dropped, "message"),
    **_fields(workloads.ServiceSpec, _labels, "selector"),
    **_fields(workloads.ReplicationControllerSpec, _labels, "selector"),
    **_fields(workloads.StatefulSetSpec, _name, "service_name"),
    **_fields(workloads.DisruptionBudgetSpec, _kept, "min_available", "max_unavailable"),
    **_fields(workloads.PriorityClass, _kept, "preemption_policy"),
    **_fields(workloads.LeaseSpec, _name, "holder_identity"),
    **_fields(workloads.LeaseSpec, _kept, "acquire_time", "renew_time"),
    **_fields(buffers.PodTemplateReference, _name, "name"),
    **_fields(
        ProvisioningRequestSpec, _kept, "provisioning_class_name", "parameters"
    ),
    **_fields(ProvisioningRequestStatus, _labels, "provisioning_class_details"),
    **_fields(buffers.ScalableReference, _kept, "api_group", "kind"),
    **_fields(buffers.ScalableReference, _name, "name"),
    **_fields(buffers.CapacityBufferSpec, _kept, "provisioning_strategy", "limits"),
    **_fields(buffers.CapacityBufferStatus, _kept, "provisioning_strategy"),
    **_fields(quotas.ResourceQuotaSpec, _kept, "hard", "scopes"),
    **_fields(quotas.ResourceQuotaStatus, _kept, "hard", "used"),
    **_fields(quotas.QuotaScopeRequirement, _kept, "scope_name", "operator"),
    **_fields(quotas.QuotaScopeRequirement, _class_names, "values"),
    **_fields(workloads.DeploymentStrategy, _kept, "type"),
    **_fields(workloads.StatefulSetSpec, _kept, "pod_management_policy"),
    **_fields(scenarios.NodeGroupSpec, _kept, "scaling", "limits", "price_per_hour", "options"),
    **_fields(scenarios.NodeGroupSpec, _names, "nodes"),
    **_fields(scenarios.StorageCapacity, _name, "storage_class_name"),
    **_fields(scenarios.StorageCapacity, _kept, "capacity", "maximum_volume_size"),
    **_fields(scenarios.SlotPool, _kept, "name", "members"),  # names may be the catalogue's
}  # fmt: skip
"""What becomes of every field that holds text; fields that hold records are descended into."""


@cache
def _changes(type_: type) -> tuple[tuple[str, _Change], ...]:
    """What is done to the fields of a record; a field with text that has no entry is an error."""
    found = []
    for field, (text, records) in _contents(type_).items():
        change = _treatment(type_, field)
        if change is None and records:
            change = _descended
        if change is None and text:
            raise TypeError(f"{type_.__name__}.{field} holds text: is it a name?")
        if change is not None and change is not _kept:
            found.append((field, change))
    return tuple(found)


def _treatment(type_: type, field: str) -> _Change | None:
    return next(filter(None, (_TREATMENT.get((base, field)) for base in type_.__mro__)), None)


@cache
def _records_in(type_: type) -> tuple[str, ...]:
    return tuple(field for field, (_, records) in _contents(type_).items() if records)


@cache
def _contents(type_: type) -> dict[str, tuple[bool, bool]]:
    """Of each field of a record: may it hold text, may it hold records?"""
    info = msgspec.inspect.type_info(type_)
    assert isinstance(info, msgspec.inspect.StructType)
    return {
        field.name: (
            _may_be(msgspec.inspect.StrType, field.type),
            _may_be(msgspec.inspect.StructType, field.type),
        )
        for field in info.fields
    }


def _may_be(wanted: type, info: msgspec.inspect.Type) -> bool:
    inside = partial(_may_be, wanted)
    match info:
        case msgspec.inspect.UnionType():
            return any(map(inside, info.types))
        case msgspec.inspect.VarTupleType():
            return inside(info.item_type)
        case msgspec.inspect.DictType():
            return inside(info.key_type) or inside(info.value_type)
        case _:
            return isinstance(info, wanted)
