"""A large made-up cluster, the same for the same seed, as the pages an API server would send."""

import itertools
import random
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from benchmarks import workloads
from benchmarks.workloads import (
    EBS,
    EFS,
    GP3,
    HOSTNAME,
    LOCAL,
    LONG_AGO,
    LVM,
    SHARED,
    TOPOLVM,
    ZONE,
    Form,
    Manifest,
    Workload,
)
from tonnage.objects import codec, kinds
from tonnage.objects.kinds import Kind, KubeObject

SEED = 20261115
PAGE = 500
ZONES = ("eu-1a", "eu-1b", "eu-1c")
EBS_ZONE = "topology.ebs.csi.aws.com/zone"
LVM_NODE = "topology.topolvm.io/node"
_LOCAL_SIZES = ("100Gi", "200Gi", "375Gi")
_TRIES = 30


class Size(NamedTuple):
    nodes: int
    pods: int


FULL = Size(5_000, 150_000)
QUICK = Size(200, 6_000)


class Page(NamedTuple):
    """Objects of one kind as one answer of a list: `{"items": [...]}`."""

    kind: Kind
    body: bytes


class Pool(NamedTuple):
    name: str
    share: float
    cpu_milli: int
    memory_mi: int
    slots: int
    tainted: bool = False


POOLS = (
    Pool("general", 0.50, 16_000, 64 << 10, 8),
    Pool("compute", 0.20, 32_000, 64 << 10, 16),
    Pool("memory", 0.15, 16_000, 128 << 10, 25),
    Pool("database", 0.10, 32_000, 256 << 10, 25, tainted=True),
    Pool("gpu", 0.05, 64_000, 512 << 10, 12, tainted=True),
)


class _Node:
    """A node and what is still free on it."""

    __slots__ = ("cpu_milli", "memory_mi", "name", "number", "pods", "pool", "slots", "zone")

    def __init__(self, number: int, pool: Pool) -> None:
        self.number = number
        self.name = f"ip-10-{number >> 8}-{number & 255}-7.eu-1.compute.internal"
        self.pool = pool
        self.zone = ZONES[number % len(ZONES)]
        self.cpu_milli = pool.cpu_milli
        self.memory_mi = pool.memory_mi
        self.pods = 110
        self.slots = pool.slots

    def has_room(self, one: Workload) -> bool:
        return (
            self.pods > 0
            and self.cpu_milli >= one.cpu_milli
            and self.memory_mi >= one.memory_mi
            and self.slots >= one.claims.count(GP3)
        )

    def take(self, one: Workload) -> None:
        self.pods -= 1
        self.cpu_milli -= one.cpu_milli
        self.memory_mi -= one.memory_mi
        self.slots -= one.claims.count(GP3)


class LargeCluster:
    """Every pod is on a node with room for it, and every volume is in its pod's zone."""

    def __init__(self, size: Size, *, seed: int = SEED) -> None:
        self.size = size
        self._seed = seed
        self._rng = random.Random(seed)
        self.nodes = [_Node(number, pool) for number, pool in enumerate(_pools(size.nodes))]
        self.workloads = self._make_workloads()
        self._placed = [
            (workload, number, node)
            for workload in self.workloads
            for number, node in enumerate(self._places(workload))
        ]

    def pages(self) -> Iterator[Page]:
        """Everything there is: nodes first, then storage, then pods; the same every time."""
        rng = random.Random(self._seed)
        yield from _paged("v1", "Namespace", map(_namespace, workloads.NAMESPACES))
        yield from _paged("v1", "Node", map(_node, self.nodes))
        yield from _paged("storage.k8s.io/v1", "CSINode", map(_csi_node, self.nodes))
        yield from _paged("storage.k8s.io/v1", "CSIDriver", map(msgspec.json.encode, _DRIVERS))
        yield from _paged("storage.k8s.io/v1", "StorageClass", map(msgspec.json.encode, _CLASSES))
        database = [node for node in self.nodes if node.pool.name == "database"]
        roomy = [node for node in self.nodes if node.pool.name in ("database", "memory")]
        yield from _paged("storage.k8s.io/v1", "CSIStorageCapacity", map(_capacity, database))
        claims = list(self._claims())
        local = ((node, number) for node in roomy for number in range(len(_LOCAL_SIZES)))
        volumes = itertools.chain(
            itertools.starmap(_volume, claims), itertools.starmap(_local, local)
        )
        yield from _paged("v1", "PersistentVolume", volumes)
        yield from _paged("v1", "PersistentVolumeClaim", itertools.starmap(_claim, claims))
        yield from _paged("storage.k8s.io/v1", "VolumeAttachment", self._attachments(claims, rng))
        yield from _paged("v1", "Pod", self._pods(rng))

    def _make_workloads(self) -> list[Workload]:
        daemons = workloads.daemon_sets(self.size.nodes)
        left = self.size.pods - sum(one.replicas for one in daemons)
        stateful = round(self.size.pods * 0.17)  # with the shared claims of others, 20 %
        return [
            *daemons,
            *workloads.stateful_sets(self._rng, stateful),
            *workloads.deployments(self._rng, left - stateful),
        ]

    def _places(self, one: Workload) -> Iterator[_Node]:
        if one.kind == "DaemonSet":
            for node in self.nodes:
                node.take(one)
                yield node
            return
        candidates = [node for node in self.nodes if node.pool.name == one.pool]
        start = self._rng.randrange(len(candidates))
        for number in range(one.replicas):
            node = self._place(one, candidates, start + number)
            node.take(one)
            yield node

    def _place(self, one: Workload, candidates: list[_Node], number: int) -> _Node:
        """Somewhere with room; neighbours in number are in different zones, so walking spreads."""
        if one.one_per_node or one.even_zones:
            tries: Iterable[int] = range(number, number + len(candidates), len(ZONES))
        else:
            tries = (self._rng.randrange(len(candidates)) for _ in range(_TRIES))
        chosen = (candidates[attempt % len(candidates)] for attempt in tries)
        found = next((node for node in chosen if node.has_room(one)), None)
        return found or max(candidates, key=lambda node: (node.slots > 2, node.cpu_milli))

    def _pods(self, rng: random.Random) -> Iterator[bytes]:
        form, last = None, None
        for one, number, node in self._placed:
            if one is not last:
                form, last = workloads.pod_form(rng, one), one
            assert form is not None
            serial = rng.getrandbits(128)
            digits = f"{serial:032x}"
            minute = f"2026-{serial % 9 + 1:02d}-{serial % 27 + 1:02d}T{serial % 23:02d}"
            yield form.fill(
                name=_pod_name(one, number),
                uid=f"{digits[:8]}-{digits[8:12]}-4000-8000-{digits[20:]}",
                node=node.name,
                token=digits[12:17],
                index=str(number),
                address=f"100.64.{serial >> 8 & 255}.{serial & 255}",
                created=f"{minute}:{serial % 59:02d}:{serial % 53:02d}Z",
                started=f"{minute}:{serial % 59:02d}:{serial % 53 + 5:02d}Z",
            )

    def _claims(self) -> Iterator[tuple[str, str, str, _Node]]:
        """Namespace, name and class of every claim, and a node that uses it."""
        for one, number, node in self._placed:
            for index, storage_class in enumerate(one.claims):
                if storage_class != SHARED or number == 0:
                    name = one.claim_name(index, _pod_name(one, number))
                    yield one.namespace, name, storage_class, node

    def _attachments(
        self, claims: Iterable[tuple[str, str, str, _Node]], rng: random.Random
    ) -> Iterator[bytes]:
        """One per block volume, and one in a hundred also where its pod was before."""
        for namespace, name, storage_class, node in claims:
            if storage_class == GP3:
                yield _attachment(namespace, name, node)
                if rng.random() < 0.01:
                    before = self.nodes[(node.number + len(ZONES)) % len(self.nodes)]
                    yield _attachment(namespace, name, before)


def decode(page: Page) -> list[KubeObject]:
    """The objects of a page, as the client for an API server makes them."""
    with codec.collector_paused():
        return [codec.decode(item, page.kind) for item in items_of(page)]


def items_of(page: Page) -> list[msgspec.Raw]:
    """The objects of a page as they were written."""
    return _PAGE.decode(page.body).items


class _Items(msgspec.Struct):
    items: list[msgspec.Raw]


_PAGE = msgspec.json.Decoder(_Items)


def _paged(api_version: str, name: str, items: Iterable[bytes]) -> Iterator[Page]:
    kind = kinds.by_kind(api_version, name)
    assert kind is not None
    rest = iter(items)
    while batch := list(itertools.islice(rest, PAGE)):
        yield Page(
            kind, b'{"metadata":{"resourceVersion":"1"},"items":[' + b",".join(batch) + b"]}"
        )


def _pools(nodes: int) -> Iterator[Pool]:
    for pool in POOLS[1:]:
        yield from itertools.repeat(pool, max(3, round(nodes * pool.share)))
    yield from itertools.repeat(
        POOLS[0], nodes - sum(max(3, round(nodes * pool.share)) for pool in POOLS[1:])
    )


def _pod_name(one: Workload, number: int) -> str:
    match one.kind:
        case "StatefulSet":
            return f"{one.name}-{number}"
        case _:
            return f"{one.name}-6d4f9c7b5-{number:05x}"


def volume_name(namespace: str, claim: str) -> str:
    return f"pvc-{namespace}-{claim}"


def _namespace(name: str) -> bytes:
    labels = {"kubernetes.io/metadata.name": name, "environment": "production"}
    return msgspec.json.encode({"metadata": {"name": name, "labels": labels}})


def _node(node: _Node) -> bytes:
    pool = node.pool
    amounts = {
        "cpu": f"{pool.cpu_milli}m",
        "memory": f"{pool.memory_mi}Mi",
        "ephemeral-storage": "100Gi",
        "hugepages-2Mi": "0",
        "pods": "110",
        **({"nvidia.com/gpu": "8"} if pool.name == "gpu" else {}),
    }
    taint = {"key": "dedicated", "value": pool.name, "effect": "NoSchedule"}
    return msgspec.json.encode(
        {
            "metadata": {
                "name": node.name,
                "uid": f"node-{node.number}",
                "creationTimestamp": LONG_AGO,
                "labels": {
                    HOSTNAME: node.name,
                    ZONE: node.zone,
                    "topology.kubernetes.io/region": "eu-1",
                    EBS_ZONE: node.zone,
                    "node.kubernetes.io/instance-type": f"{pool.name}.4xlarge",
                    "kubernetes.io/arch": "amd64",
                    "kubernetes.io/os": "linux",
                    "pool": pool.name,
                    "example.com/rack": f"rack-{node.number % 150}",
                    **({LVM_NODE: node.name} if pool.name == "database" else {}),
                },
                "annotations": {
                    "csi.volume.kubernetes.io/nodeid": f'{{"{EBS}":"i-{node.number:017x}"}}'
                },
            },
            "spec": {
                "providerID": f"aws:///{node.zone}/i-{node.number:017x}",
                "taints": [taint] if pool.tainted else [],
                "unschedulable": node.number % 199 == 0,
            },
            "status": {
                "capacity": amounts,
                "allocatable": amounts,
                "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": LONG_AGO}],
            },
        }
    )


def _csi_node(node: _Node) -> bytes:
    drivers: list[Manifest] = [
        {
            "name": EBS,
            "nodeID": f"i-{node.number:017x}",
            "topologyKeys": [EBS_ZONE],
            "allocatable": {"count": node.pool.slots},
        },
        {"name": EFS, "nodeID": f"i-{node.number:017x}"},
    ]
    if node.pool.name == "database":
        drivers.append({"name": TOPOLVM, "nodeID": node.name, "topologyKeys": [LVM_NODE]})
    return msgspec.json.encode({"metadata": {"name": node.name}, "spec": {"drivers": drivers}})


def _capacity(node: _Node) -> bytes:
    return msgspec.json.encode(
        {
            "metadata": {"name": f"csisc-{node.number:05d}", "namespace": "topolvm-system"},
            "storageClassName": LVM,
            "nodeTopology": {"matchLabels": {LVM_NODE: node.name}},
            "capacity": f"{node.number % 97 * 8}Gi",
        }
    )


def _claim(namespace: str, name: str, storage_class: str, _: _Node) -> bytes:
    return _CLAIM.fill(namespace=namespace, name=name, kind=storage_class)


def _volume(namespace: str, name: str, storage_class: str, node: _Node) -> bytes:
    volume = volume_name(namespace, name)
    match storage_class:
        case workloads.GP3:
            key, value, driver = EBS_ZONE, node.zone, EBS
        case workloads.LVM:
            key, value, driver = LVM_NODE, node.name, TOPOLVM
        case _:
            key, value, driver = "kubernetes.io/os", "linux", EFS
    return _VOLUME.fill(
        name=volume,
        namespace=namespace,
        claim=name,
        kind=storage_class,
        driver=driver,
        key=key,
        value=value,
    )


def _local(node: _Node, number: int) -> bytes:
    """A disk of the node that waits for a claim."""
    return _LOCAL.fill(
        name=f"local-{node.number:05d}-{number}",
        size=_LOCAL_SIZES[number],
        key=HOSTNAME,
        value=node.name,
    )


def _attachment(namespace: str, claim: str, node: _Node) -> bytes:
    volume = volume_name(namespace, claim)
    return _ATTACHMENT.fill(name=f"csi-{volume}-{node.number}", volume=volume, node=node.name)


_DRIVERS: tuple[Manifest, ...] = (
    {"metadata": {"name": EBS}, "spec": {"preventPodSchedulingIfMissing": True}},
    {"metadata": {"name": EFS}, "spec": {"attachRequired": False}},
    {"metadata": {"name": TOPOLVM}, "spec": {"storageCapacity": True, "attachRequired": False}},
)
_CLASSES: tuple[Manifest, ...] = tuple(
    {
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    for name, provisioner in (
        (GP3, EBS),
        (SHARED, EFS),
        (LVM, TOPOLVM),
        (LOCAL, "kubernetes.io/no-provisioner"),
    )
)
_CLAIM = Form(
    {
        "metadata": {
            "name": "@name@",
            "namespace": "@namespace@",
            "uid": "claim-@namespace@-@name@",
            "creationTimestamp": LONG_AGO,
            "annotations": {"pv.kubernetes.io/bind-completed": "yes"},
            "finalizers": ["kubernetes.io/pvc-protection"],
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "20Gi"}},
            "storageClassName": "@kind@",
            "volumeMode": "Filesystem",
            "volumeName": "pvc-@namespace@-@name@",
        },
        "status": {"phase": "Bound", "capacity": {"storage": "20Gi"}},
    },
    *("name", "namespace", "kind"),
)


def _volume_manifest(source: Manifest, status: Manifest) -> Manifest:
    requirement = {"key": "@key@", "operator": "In", "values": ["@value@"]}
    return {
        "metadata": {
            "name": "@name@",
            "uid": "volume-@name@",
            "creationTimestamp": LONG_AGO,
            "finalizers": ["kubernetes.io/pv-protection"],
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Delete",
            "volumeMode": "Filesystem",
            "nodeAffinity": {
                "required": {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}
            },
            **source,
        },
        "status": status,
    }


_VOLUME = Form(
    _volume_manifest(
        {
            "capacity": {"storage": "20Gi"},
            "storageClassName": "@kind@",
            "csi": {"driver": "@driver@", "volumeHandle": "vol-@name@", "fsType": "ext4"},
            "claimRef": {
                "kind": "PersistentVolumeClaim",
                "namespace": "@namespace@",
                "name": "@claim@",
                "uid": "claim-@namespace@-@claim@",
            },
        },
        {"phase": "Bound"},
    ),
    *("name", "namespace", "claim", "kind", "driver", "key", "value"),
)
_LOCAL = Form(
    _volume_manifest(
        {
            "capacity": {"storage": "@size@"},
            "storageClassName": LOCAL,
            "local": {"path": "/mnt/@name@"},
        },
        {"phase": "Available"},
    ),
    *("name", "size", "key", "value"),
)
_ATTACHMENT = Form(
    {
        "metadata": {"name": "@name@", "uid": "attachment-@name@", "creationTimestamp": LONG_AGO},
        "spec": {
            "attacher": EBS,
            "nodeName": "@node@",
            "source": {"persistentVolumeName": "@volume@"},
        },
        "status": {"attached": True},
    },
    *("name", "volume", "node"),
)
