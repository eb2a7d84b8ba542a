"""Whatever is in a file, loading it ends in objects or in an `InputError`, never otherwise."""

import contextlib
import copy
import gzip
import io
import json
from random import Random
from typing import Any

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tonnage.errors import InputError
from tonnage.files import Loaded, decode_scenario, load
from tonnage.objects import kinds

MANIFESTS = """\
apiVersion: v1
kind: Node
metadata: {name: n1, labels: {topology.kubernetes.io/zone: z1}, creationTimestamp: null}
spec: {unschedulable: false, providerID: "aws:///z1/i-1", taints: [{key: k, effect: NoSchedule}]}
status:
  capacity: {cpu: "4", memory: 16Gi, pods: 110}
  allocatable: {cpu: 3920m, memory: 15Gi, pods: "110", example.com/gpu: 2}
  conditions: [{type: Ready, status: "True", lastHeartbeatTime: null}]
---
apiVersion: v1
kind: Pod
metadata:
  generateName: db-
  labels: {app: db}
  ownerReferences: [{apiVersion: apps/v1, kind: StatefulSet, name: db, controller: true}]
spec:
  priority: 100
  nodeSelector: {disktype: ssd}
  containers:
    - name: main
      resources: {requests: {cpu: 500m, memory: 1Gi}, limits: {memory: 1Gi}}
      ports: [{containerPort: 5432, hostPort: 5432, protocol: TCP}]
  initContainers: [{name: init, restartPolicy: Always, resources: {requests: {cpu: 0.5}}}]
  volumes:
    - {name: data, persistentVolumeClaim: {claimName: data-db-0}}
    - name: scratch
      ephemeral: {volumeClaimTemplate: {spec: {resources: {requests: {storage: 5Gi}}}}}
  topologySpreadConstraints:
    - {maxSkew: 1, topologyKey: zone, labelSelector: {matchLabels: {app: db}}, minDomains: 2}
  affinity:
    nodeAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
        nodeSelectorTerms: [{matchExpressions: [{key: a, operator: In, values: [b]}]}]
      preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: {}}]
    podAntiAffinity:
      requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname}]
  tolerations: [{operator: Exists}]
  overhead: {cpu: 10m}
status: {phase: Pending, containerStatuses: [{name: main, allocatedResources: {cpu: 500m}}]}
---
apiVersion: storage.k8s.io/v1
kind: CSINode
metadata: {name: n1}
spec: {drivers: [{name: ebs.csi.aws.com, nodeID: i-1, allocatable: {count: 25}}]}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data-db-0}
spec: {resources: {requests: {storage: 10Gi}}, storageClassName: fast, accessModes: [RWO]}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: pv-1}
spec:
  capacity: {storage: 10Gi}
  csi: {driver: ebs.csi.aws.com, volumeHandle: vol-1}
  claimRef: {namespace: default, name: data-db-0}
---
apiVersion: storage.k8s.io/v1
kind: CSIStorageCapacity
metadata: {name: c1, namespace: kube-system}
storageClassName: fast
capacity: 100Gi
nodeTopology: {matchLabels: {zone: z1}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 3
  template: {spec: {containers: [{name: main, resources: {requests: {cpu: 1}}}]}}
  volumeClaimTemplates: [{metadata: {name: data}, spec: {resources: {requests: {storage: 1Gi}}}}]
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: db}
spec: {maxUnavailable: 1, selector: {matchLabels: {app: db}}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: c}
data: {key: value}
---
apiVersion: tonnage.dev/v1alpha1
kind: NodeGroup
metadata: {name: g1}
spec:
  minSize: 0
  maxSize: 10
  scaling: any
  limits: {ebs.csi.aws.com: 24}
  pricePerHour: "0.5"
  template:
    node: {metadata: {labels: {a: b}}, status: {capacity: {cpu: 4}, allocatable: {cpu: 4}}}
    csiNode: {spec: {drivers: [{name: ebs.csi.aws.com, allocatable: {count: 25}}]}}
"""

DOCUMENTS: list[dict[str, Any]] = list(yaml.safe_load_all(MANIFESTS))
FORMS = (
    MANIFESTS.encode(),
    b"".join(json.dumps(document).encode() + b"\n" for document in DOCUMENTS),
    json.dumps({"apiVersion": "v1", "kind": "List", "items": DOCUMENTS}, indent=1).encode(),
)
ODDITIES: tuple[object, ...] = (
    None, True, False, 0, -1, 1, 10**30, -(10**30), 2**63, 0.5, -0.5, 1e300,
    "", " ", "-1", "1e999", "\U0001f680", "\ud7ff\u2028\x7f", "a\nb", "x" * 10_000,
    "*x", "&x", "<<",
    [], [None], [[]], {}, {"": None}, {"a": {"b": []}}, [{}],
    "List", "Scenario", "Pod", "v1", "tonnage.dev/v1alpha1",
)  # fmt: skip
BYTES = (
    b"", b"\0", b"\xff", b"\xc3", b"{", b"}", b"[", b"]", b'"', b"'", b":", b",", b"\n", b"\t",
    b"-", b"---\n", b"&a ", b"*a", b"!!int ", b"|", b">", b"#", b"9" * 400, b"e9", b"null",
    b"\\u", b"\\ud800", b"\xf0\x9f\x9a\x80", b"\xef\xbb\xbf", b"\xe2\x80\xa8", b"[" * 2_000,
)  # fmt: skip


def scenario(documents: list[Any]) -> dict[str, Any]:
    return {
        "apiVersion": "tonnage.dev/v1alpha1",
        "kind": "Scenario",
        "metadata": {"name": "s"},
        "spec": {
            "kubernetesVersion": "1.37",
            "featureGates": {"VolumeLimitScaling": True},
            "options": {"expander": "least-waste"},
            "objects": documents,
        },
    }


def read(data: bytes, *, lenient: bool) -> Loaded:
    return load(["-"], stdin=io.BytesIO(data), lenient=lenient)


def attempt(data: bytes, *, lenient: bool) -> Loaded | str:
    """What was loaded, or what the `InputError` says."""
    try:
        return read(data, lenient=lenient)
    except InputError as error:
        return str(error)


def is_good_message(text: str) -> bool:
    return text.startswith("standard input: ") and text.isprintable()


def disturbed_bytes(data: bytes, random: Random) -> bytes:
    """The same bytes with a few cuts, repetitions and insertions."""
    for _ in range(random.randint(1, 4)):
        start = random.randrange(len(data) + 1)
        length = random.choice((0, 0, 1, 1, 2, 10, 100))
        middle = random.choice((*BYTES, data[start : start + length] * 2))
        data = data[:start] + middle + data[start + length :]
    return data


def places(value: object) -> list[tuple[Any, Any]]:
    """Every (container, key) in a tree of dicts and lists."""
    found: list[tuple[Any, Any]] = []
    pending = [value]
    while pending:
        container = pending.pop()
        if isinstance(container, dict | list):
            keys = list(container) if isinstance(container, dict) else range(len(container))
            found += [(container, key) for key in keys]
            pending += [container[key] for key in keys]
    return found


def disturb_structure(value: Any, random: Random) -> None:
    """A few values deleted, replaced, moved or renamed, wherever they are."""
    for _ in range(random.randint(1, 3)):
        everywhere = places(value)
        if not everywhere:
            return
        container, key = random.choice(everywhere)
        match random.randrange(5):
            case 0:
                del container[key]
            case 1:
                container[key] = copy.deepcopy(random.choice(ODDITIES))
            case 2:
                container[key] = copy.deepcopy(random.choice(everywhere)[0])
            case 3:
                container[key] = [container[key]]
            case _ if isinstance(container, dict):
                container[str(random.choice(ODDITIES))[:50]] = container.pop(key)
            case _:
                container.insert(key, copy.deepcopy(random.choice(ODDITIES)))


def forms_of(documents: list[Any]) -> list[bytes]:
    whole = {"apiVersion": "v1", "kind": "List", "items": documents}
    return [
        b"".join(json.dumps(document).encode() + b"\n" for document in documents),
        json.dumps(whole).encode(),
        yaml.dump_all(documents, Dumper=yaml.CSafeDumper, allow_unicode=True).encode(),
        json.dumps(scenario(documents)).encode(),
        yaml.dump(scenario(documents), Dumper=yaml.CSafeDumper).encode(),
    ]


def test_undisturbed_every_form_gives_the_same_objects() -> None:
    wanted = {type(obj).__name__ for obj in read(FORMS[0], lenient=False).objects}
    assert wanted == {d["kind"] for d in DOCUMENTS} & {row.kind for row in kinds.ALL}
    forms = (*FORMS, *forms_of(DOCUMENTS))
    first, *others = (load(["-"], stdin=io.BytesIO(data), expand=False).objects for data in forms)
    assert all(other == first for other in others)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(FORMS), st.randoms(use_true_random=False), st.booleans(), st.booleans())
def test_disturbed_bytes_give_objects_or_an_input_error(
    data: bytes, random: Random, lenient: bool, packed: bool
) -> None:
    disturbed = disturbed_bytes(data, random)
    if packed:
        disturbed = disturbed_bytes(gzip.compress(disturbed), random)
    outcome = attempt(disturbed, lenient=lenient)
    if isinstance(outcome, str):
        assert is_good_message(outcome)
    else:
        assert lenient or not outcome.problems


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=200), st.booleans())
def test_arbitrary_bytes_give_objects_or_an_input_error(data: bytes, lenient: bool) -> None:
    outcome = attempt(data, lenient=lenient)
    assert isinstance(outcome, Loaded) or is_good_message(outcome)


@settings(max_examples=150, deadline=None)
@given(st.randoms(use_true_random=False))
def test_disturbed_objects_are_left_out_or_an_input_error(random: Random) -> None:
    documents = copy.deepcopy(DOCUMENTS)
    disturb_structure(documents, random)
    for data in forms_of(documents) if documents else []:
        loaded = read(data, lenient=True)
        strict = attempt(data, lenient=False)
        if isinstance(strict, str):
            assert strict == str(loaded.problems[0])
            assert is_good_message(strict)
        else:
            assert (strict.objects, loaded.problems) == (loaded.objects, [])


@settings(max_examples=100, deadline=None)
@given(st.randoms(use_true_random=False))
def test_a_disturbed_scenario_is_read_or_an_input_error(random: Random) -> None:
    value = scenario(copy.deepcopy(DOCUMENTS))
    disturb_structure(value, random)
    with contextlib.suppress(InputError):
        assert isinstance(decode_scenario(json.dumps(value).encode()), Loaded)
