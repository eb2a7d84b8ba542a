"""Every drain rule both ways: where it speaks, and where it leaves the pod to the next."""

from typing import Any

import msgspec
import pytest

from tests.scaleup.groups import owned_by
from tonnage.groups.scale_down_options import ScaleDownOptions
from tonnage.objects import timestamps
from tonnage.objects.meta import LabelSelector, ObjectMeta
from tonnage.objects.pods import Pod
from tonnage.objects.volume_sources import EmptyDirSource, HostPathSource, VolumeSource
from tonnage.objects.workloads import (
    DisruptionBudgetSpec,
    DisruptionBudgetStatus,
    PodDisruptionBudget,
    ReplicaSet,
    ReplicaSetSpec,
)
from tonnage.scaledown import drain_rules
from tonnage.scaledown.budgets import Budgets
from tonnage.scaledown.codes import PodCode
from tonnage.scaledown.controllers import ControllerIndex
from tonnage.scaledown.drain_rules import DrainQuestion, DrainVerdict
from tonnage.scaledown.plan import Drain
from tonnage.testing import builders as make

NOW = timestamps.parse("2026-01-01T12:00:00Z")
LONG_AGO, JUST_NOW = "2026-01-01T10:00:00Z", "2026-01-01T11:59:00Z"
EVICT = drain_rules.SAFE_TO_EVICT
WEB = owned_by("ReplicaSet", "web")
SCRATCH = VolumeSource(name="scratch", empty_dir=EmptyDirSource())
IN_MEMORY = VolumeSource(name="scratch", empty_dir=EmptyDirSource(medium="Memory"))
HOST = VolumeSource(name="host", host_path=HostPathSource(path="/data"))


def pod(
    *,
    annotations: dict[str, str] | None = None,
    created: str = LONG_AGO,
    deleted: str | None = None,
    grace: int | None = None,
    owner: Any = WEB,
    **fields: Any,
) -> Pod:
    made = make.pod("p", on="n", labels={"app": "web"}, owner=owner, **fields)
    meta = msgspec.structs.replace(
        made.metadata,
        annotations=annotations or {},
        creation_timestamp=created,
        deletion_timestamp=deleted,
    )
    spec = msgspec.structs.replace(made.spec, termination_grace_period_seconds=grace)
    return msgspec.structs.replace(made, metadata=meta, spec=spec)


def replica_set(replicas: int = 3) -> ReplicaSet:
    return ReplicaSet(
        metadata=ObjectMeta(name="web", namespace="default"), spec=ReplicaSetSpec(replicas=replicas)
    )


def budget(allowed: int, namespace: str = "default") -> PodDisruptionBudget:
    return PodDisruptionBudget(
        metadata=ObjectMeta(name="web", namespace=namespace),
        spec=DisruptionBudgetSpec(selector=LabelSelector(match_labels={"app": "web"})),
        status=DisruptionBudgetStatus(disruptions_allowed=allowed),
    )


def judged(subject: Pod, *objects: object, **options: Any) -> DrainVerdict:
    budgets = Budgets(one for one in objects if isinstance(one, PodDisruptionBudget))
    return drain_rules.judge(
        DrainQuestion(
            subject,
            budgets.of(subject.metadata),
            ControllerIndex(objects),
            ScaleDownOptions(**options),
            NOW,
        )
    )


SYSTEM: dict[str, Any] = {"namespace": "kube-system", "owner": owned_by("StatefulSet", "dns")}
ANY = {"skip_nodes_with_custom_controller_pods": False}

ROWS: list[tuple[str, Pod, tuple[object, ...], dict[str, Any], Drain, PodCode | None]] = [
    ("a pod of a ReplicaSet moves", pod(), (replica_set(),), {}, Drain.UNDEFINED, None),
    (
        "a static pod goes with its node",
        pod(annotations={"kubernetes.io/config.mirror": "x"}, owner=None),
        (),
        {},
        Drain.SKIP,
        None,
    ),
    (
        "a pod past its deletion, its grace and half a minute is not waited for",
        pod(deleted="2026-01-01T11:58:00Z", owner=None),
        (),
        {},
        Drain.SKIP,
        None,
    ),
    (
        "a pod within its grace is",
        pod(deleted="2026-01-01T11:58:00Z", grace=600, owner=None),
        (),
        {},
        Drain.BLOCK,
        PodCode.NOT_REPLICATED,
    ),
    (
        "without its controller a pod blocks",
        pod(),
        (),
        {},
        Drain.BLOCK,
        PodCode.CONTROLLER_NOT_FOUND,
    ),
    (
        "unless any controller will do",
        pod(),
        (),
        ANY,
        Drain.UNDEFINED,
        None,
    ),
    (
        "fewer replicas than asked for block",
        pod(),
        (replica_set(1),),
        {"min_replica_count": 2},
        Drain.BLOCK,
        PodCode.MIN_REPLICAS,
    ),
    (
        "as many do not",
        pod(),
        (replica_set(2),),
        {"min_replica_count": 2},
        Drain.UNDEFINED,
        None,
    ),
    (
        "a pod of a DaemonSet goes with its node",
        pod(owner=owned_by("DaemonSet", "agent")),
        (),
        ANY,
        Drain.OK,
        None,
    ),
    (
        "so does one that says it is as good as that",
        pod(annotations={"cluster-autoscaler.kubernetes.io/daemonset-pod": "true"}, owner=None),
        (),
        {},
        Drain.OK,
        None,
    ),
    (
        "safe-to-evict: true moves a pod without a controller",
        pod(annotations={EVICT: "true"}, owner=None),
        (),
        {},
        Drain.OK,
        None,
    ),
    (
        "a finished pod has nothing to lose",
        pod(phase="Succeeded", owner=None),
        (),
        {},
        Drain.OK,
        None,
    ),
    (
        "safe-to-evict: on-completion waits",
        pod(annotations={EVICT: "on-completion"}, owner=None),
        (),
        {},
        Drain.WAIT,
        None,
    ),
    (
        "a pod without a controller blocks",
        pod(owner=None),
        (),
        {},
        Drain.BLOCK,
        PodCode.NOT_REPLICATED,
    ),
    (
        "a pod of an unknown controller blocks",
        pod(owner=owned_by("Rollout", "web")),
        (),
        {},
        Drain.BLOCK,
        PodCode.NOT_REPLICATED,
    ),
    (
        "unless that will do",
        pod(owner=owned_by("Rollout", "web")),
        (),
        ANY,
        Drain.UNDEFINED,
        None,
    ),
    (
        "a young pod of kube-system without a budget blocks",
        pod(created=JUST_NOW, **SYSTEM),
        (),
        ANY,
        Drain.BLOCK,
        PodCode.SYSTEM_POD,
    ),
    ("an old one moves", pod(**SYSTEM), (), ANY, Drain.OK, None),
    (
        "one with a budget moves",
        pod(created=JUST_NOW, **SYSTEM),
        (budget(1, "kube-system"),),
        ANY,
        Drain.UNDEFINED,
        None,
    ),
    (
        "one moves where such pods are not looked at",
        pod(created=JUST_NOW, **SYSTEM),
        (),
        {**ANY, "skip_nodes_with_system_pods": False},
        Drain.UNDEFINED,
        None,
    ),
    (
        "safe-to-evict: false blocks",
        pod(annotations={EVICT: "false"}),
        (replica_set(),),
        {},
        Drain.BLOCK,
        PodCode.NOT_SAFE_TO_EVICT,
    ),
    (
        "any other word does not",
        pod(annotations={EVICT: "no"}),
        (replica_set(),),
        {},
        Drain.UNDEFINED,
        None,
    ),
    (
        "scratch space on the disk blocks",
        pod(volumes=[SCRATCH]),
        (replica_set(),),
        {},
        Drain.BLOCK,
        PodCode.LOCAL_STORAGE,
    ),
    (
        "in memory it does not",
        pod(volumes=[IN_MEMORY]),
        (replica_set(),),
        {},
        Drain.UNDEFINED,
        None,
    ),
    (
        "a volume that is named as safe does not",
        pod(volumes=[SCRATCH], annotations={drain_rules.SAFE_LOCAL_VOLUMES: "other, scratch"}),
        (replica_set(),),
        {},
        Drain.UNDEFINED,
        None,
    ),
    (
        "one that is not named does",
        pod(volumes=[SCRATCH, HOST], annotations={drain_rules.SAFE_LOCAL_VOLUMES: "scratch"}),
        (replica_set(),),
        {},
        Drain.BLOCK,
        PodCode.LOCAL_STORAGE,
    ),
    (
        "none does where local storage is not looked at",
        pod(volumes=[HOST]),
        (replica_set(),),
        {"skip_nodes_with_local_storage": False},
        Drain.UNDEFINED,
        None,
    ),
    (
        "a budget that allows nothing blocks",
        pod(),
        (replica_set(), budget(0)),
        {},
        Drain.BLOCK,
        PodCode.BUDGET,
    ),
    (
        "one that allows something does not",
        pod(),
        (replica_set(), budget(1)),
        {},
        Drain.UNDEFINED,
        None,
    ),
    (
        "one of another namespace says nothing",
        pod(),
        (replica_set(), budget(0, "other")),
        {},
        Drain.UNDEFINED,
        None,
    ),
]


@pytest.mark.parametrize(
    ("subject", "objects", "options", "drain", "code"),
    [row[1:] for row in ROWS],
    ids=[row[0] for row in ROWS],
)
def test_a_rule_says(
    subject: Pod,
    objects: tuple[object, ...],
    options: dict[str, Any],
    drain: Drain,
    code: PodCode | None,
) -> None:
    verdict = judged(subject, *objects, **options)
    assert (verdict.drain, verdict.code) == (drain, code)


def test_a_system_pod_blocks_until_its_hour_is_over() -> None:
    verdict = judged(pod(created=JUST_NOW, **SYSTEM), **ANY)
    assert verdict.until == timestamps.parse(JUST_NOW) + 3600


def test_every_rule_is_in_the_table() -> None:
    said = {judged(row[1], *row[2], **row[3]).code for row in ROWS}
    assert said == {None, *PodCode}
