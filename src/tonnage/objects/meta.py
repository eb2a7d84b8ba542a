"""What every Kubernetes object shares: metadata, owners, label selectors."""

from typing import TypeAlias

import msgspec

Quantity: TypeAlias = str | int | float
"""A resource quantity as it stands in a manifest; `quantities` gives it a value."""

ResourceList: TypeAlias = dict[str, Quantity]


class Record(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """Base of wire objects: immutable, camelCase on the wire, unknown fields ignored.

    `gc=False` keeps the collector off millions of records; it is safe because wire
    objects are trees.
    """


class WholeRecord(Record, frozen=True, omit_defaults=False):
    """Base of output that names every field, also where it says nothing."""


class OwnerReference(Record, frozen=True, kw_only=True):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False


class ObjectMeta(Record, frozen=True, kw_only=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    generate_name: str = ""
    resource_version: str = ""
    generation: int = 0
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None

    @property
    def key(self) -> str:
        """`namespace/name`, or the name of an object that belongs to no namespace."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @property
    def controller(self) -> OwnerReference | None:
        """The owner that manages the object, if any."""
        for owner in self.owner_references:
            if owner.controller:
                return owner
        return None


class ObjectRecord(Record, frozen=True, kw_only=True):
    """Base of what has metadata of its own, such as an object or a pod template."""

    metadata: ObjectMeta = ObjectMeta()


class LabelRequirement(Record, frozen=True, kw_only=True):
    key: str
    operator: str
    values: tuple[str, ...] = ()


class LabelSelector(Record, frozen=True, kw_only=True):
    match_labels: dict[str, str] = {}
    match_expressions: tuple[LabelRequirement, ...] = ()


class Condition(Record, frozen=True, kw_only=True):
    type: str
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None
    last_heartbeat_time: str | None = None
    last_probe_time: str | None = None
