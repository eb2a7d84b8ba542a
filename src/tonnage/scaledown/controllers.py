"""Controllers of pods, found by their reference: whether they exist, and how many they want."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol

from tonnage.objects.meta import OwnerReference
from tonnage.objects.workloads import (
    DaemonSet,
    Job,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)

KINDS = ("ReplicationController", "DaemonSet", "Job", "ReplicaSet", "StatefulSet")
"""Those that are looked up."""


class Controller(NamedTuple):
    """A controller that exists; `replicas` is `None` where it is not a number of its own.

    `owner` is who controls it in turn, such as the Deployment of a ReplicaSet.
    """

    replicas: int | None
    owner: OwnerReference | None = None


class Controllers(Protocol):
    """Where controllers are found."""

    def find(self, namespace: str, owner: OwnerReference) -> Controller | None: ...


class ControllerIndex:
    """Controllers of a file, by kind, namespace and name."""

    def __init__(self, objects: Iterable[object]) -> None:
        self._known: Mapping[tuple[str, str, str], Controller] = {
            (type(one).__name__, one.metadata.namespace, one.metadata.name): Controller(
                one.spec.replicas
                if isinstance(one, ReplicaSet | ReplicationController | StatefulSet)
                else None,
                one.metadata.controller,
            )
            for one in objects
            if isinstance(one, DaemonSet | Job | ReplicaSet | ReplicationController | StatefulSet)
        }

    def find(self, namespace: str, owner: OwnerReference) -> Controller | None:
        return self._known.get((owner.kind, namespace, owner.name))
