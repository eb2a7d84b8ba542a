"""A cluster read from its API, for the commands that otherwise read files.

A kind we may not list is named with the right that is missing, and left out; without nodes or pods
there is no question to answer. An object that cannot be used is left out, as a running
autoscaler would: nobody can edit a live cluster to please a reader.
"""

import asyncio
import os
from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec

from tonnage.api.cluster_objects import with_namespaces
from tonnage.cli import cluster_access, console, progress_line
from tonnage.cli.cluster_access import ClusterChoice
from tonnage.cluster import errors, resources
from tonnage.cluster.calls import CallPatience
from tonnage.cluster.client import Client, Listing
from tonnage.cluster.config import Access
from tonnage.cluster.watch_events import Unreadable
from tonnage.errors import ClusterError
from tonnage.files import Loaded, ScenarioOptions
from tonnage.files.loaded import FileProblem
from tonnage.objects import nodes, pods, quotas, storage, workloads
from tonnage.objects.codec import collector_paused
from tonnage.objects.kinds import KubeObject
from tonnage.objects.meta import ObjectMeta, Record
from tonnage.objects.validation import one_line
from tonnage.rules import features
from tonnage.service import connections

Consequences: TypeAlias = Mapping[type[KubeObject], str]
"""What answers lack without a kind; nothing for kinds without which there are none."""

NEEDED: Consequences = {
    nodes.Node: "",
    pods.Pod: "",
    nodes.Namespace: "namespaceSelectors see no labels of namespaces",
    storage.CSINode: "attach limits of nodes are not known",
    storage.CSIDriver: "no driver counts as opted in",
    storage.StorageClass: "claims that are not bound cannot be placed",
    storage.PersistentVolume: "bound claims cannot be followed to their volumes",
    storage.PersistentVolumeClaim: "pods with claims cannot be placed",
    storage.VolumeAttachment: "volumes attached without a pod are not counted",
    storage.CSIStorageCapacity: "drivers that publish capacity seem to have none",
    workloads.DaemonSet: "new nodes seem emptier than they will be",
}
"""What decisions read."""

WORKLOADS: Consequences = dict.fromkeys(
    (
        workloads.Service,
        workloads.ReplicationController,
        workloads.ReplicaSet,
        workloads.StatefulSet,
        workloads.Job,
        workloads.PodDisruptionBudget,
        workloads.PriorityClass,
        quotas.ResourceQuota,
    ),
    "the export lacks them",
)
"""What an export has besides: who owns the pods, and what protects them."""


class UntypedObject(Record, frozen=True, kw_only=True):
    """An object of a kind that has no type here, as the server sent it."""

    metadata: ObjectMeta
    written: dict[str, Any]


def document_kind(kind: str, plural: str, *, group: str, namespaced: bool) -> Any:
    return resources.Resource(
        UntypedObject,
        kind=kind,
        group=group,
        version="v1",
        plural=plural,
        namespaced=namespaced,
        decode=lambda data: _document(kind, data),
    )


_RBAC = "rbac.authorization.k8s.io"

BESIDE = {
    document_kind("Deployment", "deployments", group="apps", namespaced=True): (
        "autoscalers and schedulers that run in it are not recognised"
    ),
    document_kind("ClusterRole", "clusterroles", group=_RBAC, namespaced=False): (
        "rights of what runs in it are not checked"
    ),
    document_kind("ClusterRoleBinding", "clusterrolebindings", group=_RBAC, namespaced=False): (
        "rights of what runs in it are not checked"
    ),
}
"""Kinds that only inspections look at, and what they lack without."""


def load(live: ClusterChoice, *, kinds: Consequences = NEEDED, beside: bool = False) -> Loaded:
    """All objects of these kinds; its Scenario has the version of the server.

    With `beside`, documents of the kinds `BESIDE` too.
    """
    access = cluster_access.find(live)
    read = _Reading(access, cluster_access.patience(live))
    with collector_paused():
        # It returns nothing: up to Python 3.12 asyncio.run makes a repr of what it is given.
        try:
            asyncio.run(read.all(kinds, beside=beside))
        except ClusterError as error:
            raise cluster_access.explained(error, access) from error
    return with_namespaces(
        Loaded(
            objects=read.objects,
            name=access.context,
            scenario=ScenarioOptions(kubernetes_version=read.version),
            problems=read.problems,
            notes=read.notes,
            beside=[one.written for one in read.documents],
            unread=frozenset(read.unread),
        )
    )


class _Reading:
    """Gathers what one pass over the server finds."""

    def __init__(self, access: Access, patience: CallPatience | None) -> None:
        self.objects: list[KubeObject] = []
        self.problems: list[FileProblem] = []
        self.notes: list[str] = []
        self.documents: list[UntypedObject] = []
        self.unread: set[str] = set()
        self.version = ""
        self._access = access
        self._patience = patience

    async def all(self, kinds: Consequences, *, beside: bool = False) -> None:
        async with connections.connected(
            self._access, environ=os.environ, patience=self._patience
        ) as connection:
            client = connection.client
            with progress_line.shown(f"asking {self._access.endpoint.shown}"):
                self.version, note = modelled(await client.version())
                self.notes += [note] if note else []
            for kind, consequence in kinds.items():
                await self._kind(client, resources.of(kind), consequence, into=self.objects)
            for kind, consequence in BESIDE.items() if beside else ():
                await self._kind(client, kind, consequence, into=self.documents)

    async def _kind(self, client: Client, kind: Any, consequence: str, *, into: list[Any]) -> None:
        already = len(into)
        with progress_line.shown(lambda: f"listing {kind.plural}: {len(into) - already:,}"):
            try:
                await self._pages(client, kind, into=into)
            except errors.Forbidden as error:
                del into[already:]
                missing = (
                    f"not allowed to {error.verb} {kind.full_name}"
                    f" (verb {error.verb}, kind {error.kind}, group {_quoted(error.group)})"
                )
                if not consequence:
                    raise ClusterError(f"{missing}: without them there is no answer") from error
                self.unread.add(kind.kind)
                console.warn(f"{missing}: going on without, {consequence}")
            except errors.NotFound as error:
                if not consequence:
                    raise
                self.unread.add(kind.kind)
                console.warn(f"{error}: going on without {kind.full_name}, {consequence}")

    async def _pages(self, client: Client, kind: Any, *, into: list[Any]) -> None:
        already = len(into)
        bad, remarks = len(self.problems), len(self.notes)
        try:
            async for page in client.pages(kind):
                self._take(kind, page, into=into)
        except errors.Gone:
            # The server forgot the version between two pages: everything once more, in one piece.
            del into[already:], self.problems[bad:], self.notes[remarks:]
            async for page in client.pages(kind, page=0):
                self._take(kind, page, into=into)

    def _take(self, kind: Any, page: Listing[Any], *, into: list[Any]) -> None:
        into += page.items
        self.problems += map(self._problem, page.unreadable)
        self.notes += [
            f"{kind.kind} {one_line('/'.join(filter(None, key)))}: {remark}"
            for key, remark in page.remarks.items()
        ]

    def _problem(self, one: Unreadable) -> FileProblem:
        return FileProblem(
            file=self._access.context or self._access.endpoint.shown,
            position="",
            object="",
            field="",
            # The message of a decoding error begins with the kind and the name.
            message=one.problem,
        )


def modelled(told: str) -> tuple[str, str]:
    """The server's version, or the nearest one whose scheduler is modelled, and a note about it."""
    major, minor = _number(told)
    nearest = min(max((major, minor), features.OLDEST), features.NEWEST)
    shown = f"{nearest[0]}.{nearest[1]}"
    if nearest == (major, minor):
        return shown, ""
    return shown, (
        f"the server is {told}: answering as {shown}, the nearest version that is modelled"
    )


def _document(kind: str, data: bytes | msgspec.Raw) -> UntypedObject:
    written = msgspec.json.decode(data)
    metadata = msgspec.convert(written.get("metadata", {}), ObjectMeta)
    return UntypedObject(metadata=metadata, written={**written, "kind": kind})


def _number(told: str) -> tuple[int, int]:
    """Major and minor of `v1.37.2-eks-1`; the newest we know if it says nothing of the kind."""
    major, _, rest = told.removeprefix("v").partition(".")
    minor = rest.partition(".")[0].rstrip("+")
    if not (major.isdecimal() and minor.isdecimal()):
        return features.NEWEST
    return int(major), int(minor)


def _quoted(group: str) -> str:
    return group or '""'
