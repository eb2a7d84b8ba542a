"""The workloads of a large made-up cluster: what their pods look like on the wire.

A pod here is as long as a real one (about 5 KB: managed fields, probes, statuses), and carries
what makes real pods differ although they are replicas of one thing: the name of the
service account's token volume, a StatefulSet's pod name label, a DaemonSet's pin to its node.
"""

import random
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

import msgspec

Manifest: TypeAlias = dict[str, Any]

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
EBS, EFS, TOPOLVM = "ebs.csi.aws.com", "efs.csi.aws.com", "topolvm.io"
GP3, SHARED, LVM, LOCAL = "gp3", "shared", "lvm", "local"
NAMESPACES = tuple(f"team-{number:03d}" for number in range(200))
LONG_AGO = "2026-01-01T00:00:00Z"
POD_BLANKS = ("name", "uid", "node", "token", "index", "address", "created", "started")


class Form:
    """JSON with blanks: `@name@` in any string is filled in later, at the price of one copy."""

    def __init__(self, manifest: Manifest, *blanks: str) -> None:
        text = msgspec.json.encode(manifest).replace(b"%", b"%%")
        for blank in blanks:
            text = text.replace(f"@{blank}@".encode(), f"%({blank})b".encode())
        self._text = text

    def fill(self, **values: str) -> bytes:
        return self._text % {key.encode(): value.encode() for key, value in values.items()}


class Workload(NamedTuple):
    """One controller: how many pods, on which pool, what each takes, and how they keep apart."""

    namespace: str
    name: str
    kind: str
    replicas: int
    pool: str
    cpu_milli: int
    memory_mi: int
    claims: tuple[str, ...] = ()
    """Storage classes of the claims of each pod; with `SHARED` all pods use one claim."""
    one_per_node: bool = False
    even_zones: bool = False
    beside: str = ""
    """Name of a workload of the namespace whose zones it wants to be in."""

    def claim_name(self, number: int, pod: str) -> str:
        return self.name if self.claims[number] == SHARED else f"data{number}-{pod}"


def daemon_sets(nodes: int) -> list[Workload]:
    """What runs on every node."""
    return [
        Workload("kube-system", name, "DaemonSet", nodes, "", cpu_milli, memory_mi)
        for name, cpu_milli, memory_mi in (
            ("network-agent", 100, 128),
            ("csi-node", 50, 96),
            ("log-agent", 100, 256),
            ("node-exporter", 20, 64),
        )
    ]


def stateful_sets(rng: random.Random, pods: int) -> list[Workload]:
    """Workloads with volumes of their own, `pods` in all."""
    found: list[Workload] = []
    left = pods
    while left:
        replicas = min(left, rng.choice((1, 1, 2, 3, 3, 3, 5, 7, 9, 12, 24, 60)))
        pool = rng.choices(("database", "memory", "general"), (3, 4, 3))[0]
        count = rng.choices((1, 2, 3), (70, 25, 5))[0]
        kind = LVM if pool == "database" and rng.random() < 0.2 else GP3
        found.append(
            Workload(
                rng.choice(NAMESPACES),
                f"store-{len(found):04d}",
                "StatefulSet",
                replicas,
                pool,
                rng.choice((100, 250, 250, 500)),
                rng.choice((512, 1024, 2048)),
                claims=(kind,) * count,
                one_per_node=rng.random() < 0.3,
                even_zones=rng.random() < 0.3,
            )
        )
        left -= replicas
    return found


def deployments(rng: random.Random, pods: int) -> list[Workload]:
    """Workloads without volumes, except that one in fifteen shares one claim among its pods."""
    found: list[Workload] = []
    left = pods
    while left:
        replicas = min(left, rng.choice((1, 2, 2, 3, 5, 10, 10, 20, 40, 80, 250)))
        pool = rng.choices(("general", "compute", "memory", "gpu"), (60, 25, 14, 1))[0]
        namespace = rng.choice(NAMESPACES)
        neighbours = [one.name for one in found[-40:] if one.namespace == namespace]
        found.append(
            Workload(
                namespace,
                f"web-{len(found):04d}",
                "ReplicaSet",
                replicas,
                pool,
                rng.choice((50, 100, 100, 250, 500, 1000)),
                rng.choice((128, 256, 512, 1024)),
                claims=(SHARED,) if rng.random() < 1 / 15 else (),
                one_per_node=replicas < 100 and rng.random() < 0.1,
                even_zones=rng.random() < 0.25,
                beside=neighbours[-1] if neighbours and rng.random() < 0.3 else "",
            )
        )
        left -= replicas
    return found


def pod_form(rng: random.Random, one: Workload) -> Form:
    """A pod of the workload; `POD_BLANKS` are to be filled in."""
    return Form(
        {
            "metadata": _metadata(rng, one),
            "spec": _spec(one),
            "status": _status(one),
        },
        *POD_BLANKS,
    )


def _metadata(rng: random.Random, one: Workload) -> Manifest:
    revision = f"{rng.getrandbits(36):09x}"
    owner = one.name if one.kind == "StatefulSet" else f"{one.name}-{revision}"
    return {
        "name": "@name@",
        "generateName": f"{owner}-",
        "namespace": one.namespace,
        "uid": "@uid@",
        "resourceVersion": str(rng.getrandbits(31)),
        "creationTimestamp": "@created@",
        "labels": {**labels_of(one), **_controller_labels(one, revision)},
        "annotations": {
            "checksum/config": f"{rng.getrandbits(256):064x}",
            "prometheus.io/scrape": "true",
            "prometheus.io/port": "9102",
        },
        "ownerReferences": [
            {
                "apiVersion": "apps/v1",
                "kind": one.kind,
                "name": owner,
                "uid": _uid(rng),
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
        "managedFields": _MANAGED_FIELDS,
    }


def labels_of(one: Workload) -> dict[str, str]:
    return {
        "app.kubernetes.io/name": one.name,
        "app.kubernetes.io/part-of": one.namespace,
        "app.kubernetes.io/managed-by": "helm",
        "tier": "storage" if one.claims else "frontend",
    }


def _controller_labels(one: Workload, revision: str) -> dict[str, str]:
    match one.kind:
        case "StatefulSet":
            return {
                "controller-revision-hash": f"{one.name}-{revision}",
                "statefulset.kubernetes.io/pod-name": "@name@",
                "apps.kubernetes.io/pod-index": "@index@",
            }
        case "DaemonSet":
            return {"controller-revision-hash": revision, "pod-template-generation": "3"}
        case _:
            return {"pod-template-hash": revision}


def _spec(one: Workload) -> Manifest:
    return {
        "nodeName": "@node@",
        "schedulerName": "default-scheduler",
        "serviceAccountName": one.name,
        "restartPolicy": "Always",
        "dnsPolicy": "ClusterFirst",
        "enableServiceLinks": True,
        "terminationGracePeriodSeconds": 30,
        "preemptionPolicy": "PreemptLowerPriority",
        "priority": 0,
        "securityContext": {"fsGroup": 2000, "runAsNonRoot": True, "runAsUser": 1000},
        "nodeSelector": {"pool": one.pool} if one.pool else {},
        "affinity": _affinity(one),
        "topologySpreadConstraints": _spread(one),
        "tolerations": _tolerations(one),
        "containers": [_container(one)],
        "volumes": [
            {"name": "config", "configMap": {"name": one.name, "defaultMode": 420}},
            *(
                {
                    "name": f"data{number}",
                    "persistentVolumeClaim": {"claimName": one.claim_name(number, "@name@")},
                }
                for number in range(len(one.claims))
            ),
            {"name": "kube-api-access-@token@", "projected": _TOKEN},
        ],
    }


def _container(one: Workload) -> Manifest:
    requests = {"cpu": f"{one.cpu_milli}m", "memory": f"{one.memory_mi}Mi"}
    if one.pool == "gpu":
        requests["nvidia.com/gpu"] = "1"
    probe = {"httpGet": {"path": "/healthz", "port": 8080, "scheme": "HTTP"}, "periodSeconds": 10}
    return {
        "name": "main",
        "image": f"registry.example.com/{one.namespace}/{one.name}:v1.2.3",
        "imagePullPolicy": "IfNotPresent",
        "args": ["--listen=:8080", "--config=/etc/config/app.yaml", "--log-level=info"],
        "env": [{"name": name, "value": "a value of some length"} for name in _VARIABLES],
        "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
        "resources": {"requests": requests, "limits": {"memory": f"{one.memory_mi * 2}Mi"}},
        "livenessProbe": probe,
        "readinessProbe": probe,
        "volumeMounts": [
            {"name": "config", "mountPath": "/etc/config"},
            *(
                {"name": f"data{number}", "mountPath": f"/data{number}"}
                for number in range(len(one.claims))
            ),
            {
                "name": "kube-api-access-@token@",
                "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
                "readOnly": True,
            },
        ],
    }


def _affinity(one: Workload) -> Manifest:
    found: Manifest = {}
    if one.kind == "DaemonSet":
        pin = {"key": "metadata.name", "operator": "In", "values": ["@node@"]}
        found["nodeAffinity"] = _required({"nodeSelectorTerms": [{"matchFields": [pin]}]})
    if one.beside:
        found["podAffinity"] = _required([_term(ZONE, {"app.kubernetes.io/name": one.beside})])
    if one.one_per_node:
        itself = {"app.kubernetes.io/name": one.name}
        found["podAntiAffinity"] = _required([_term(HOSTNAME, itself)])
    return found


def _required(terms: object) -> Manifest:
    return {"requiredDuringSchedulingIgnoredDuringExecution": terms}


def _term(topology_key: str, labels: Mapping[str, str]) -> Manifest:
    return {"topologyKey": topology_key, "labelSelector": {"matchLabels": labels}}


def _spread(one: Workload) -> list[Manifest]:
    selector = {"matchLabels": {"app.kubernetes.io/name": one.name}}
    constraint = {"maxSkew": 1, "topologyKey": ZONE, "labelSelector": selector}
    return [{**constraint, "whenUnsatisfiable": "DoNotSchedule"}] if one.even_zones else []


def _tolerations(one: Workload) -> list[Manifest]:
    if one.kind == "DaemonSet":
        return [{"operator": "Exists"}]
    patient = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    found: list[Manifest] = [
        {"key": "node.kubernetes.io/not-ready", **patient},
        {"key": "node.kubernetes.io/unreachable", **patient},
    ]
    if one.pool in ("database", "gpu"):
        found.append({"key": "dedicated", "operator": "Equal", "value": one.pool})
    return found


def _status(one: Workload) -> Manifest:
    running = {"running": {"startedAt": "@started@"}}
    return {
        "phase": "Running",
        "qosClass": "Burstable",
        "podIP": "@address@",
        "podIPs": [{"ip": "@address@"}],
        "startTime": "@created@",
        "conditions": [
            {"type": kind, "status": "True", "lastProbeTime": None, "lastTransitionTime": since}
            for kind, since in _CONDITIONS
        ],
        "containerStatuses": [
            {
                "name": "main",
                "image": f"registry.example.com/{one.namespace}/{one.name}:v1.2.3",
                "imageID": f"registry.example.com/{one.namespace}/{one.name}@sha256:{'0' * 64}",
                "containerID": f"containerd://{'1' * 64}",
                "ready": True,
                "started": True,
                "restartCount": 0,
                "state": running,
                "lastState": {},
            }
        ],
    }


def _uid(rng: random.Random) -> str:
    digits = f"{rng.getrandbits(128):032x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


_VARIABLES = ("LOG_FORMAT", "REGION", "CLUSTER", "FEATURE_FLAGS", "UPSTREAM_URL", "CACHE_SIZE")
_CONDITIONS = (
    ("PodReadyToStartContainers", "@started@"),
    ("Initialized", "@created@"),
    ("Ready", "@started@"),
    ("ContainersReady", "@started@"),
    ("PodScheduled", "@created@"),
)
_TOKEN = {
    "defaultMode": 420,
    "sources": [
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
    ],
}
_FIELD_NAMES = ("image", "env", "ports", "resources", "livenessProbe", "readinessProbe", "args")
_MANAGED_FIELDS = [
    {
        "manager": manager,
        "operation": "Update",
        "apiVersion": "v1",
        "time": LONG_AGO,
        "fieldsType": "FieldsV1",
        "fieldsV1": {
            "f:metadata": {"f:annotations": {".": {}}, "f:labels": {".": {}, "f:tier": {}}},
            "f:spec": {
                'f:containers:{"name":"main"}': {
                    f"f:{name}": {".": {}, "f:first": {}, "f:second": {}} for name in _FIELD_NAMES
                },
                **{f"f:field{number}": {} for number in range(20)},
            },
        },
    }
    for manager in ("kube-controller-manager", "kubelet")
]
