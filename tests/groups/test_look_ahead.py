"""What controllers are known to make next, and what bounds it."""

from typing import Any

import msgspec
import pytest

from tonnage.groups import look_ahead
from tonnage.groups.headroom import KeptRoom
from tonnage.objects.meta import (
    Condition,
    LabelSelector,
    ObjectMeta,
    OwnerReference,
    ResourceList,
)
from tonnage.objects.pods import Container, Pod, PodSpec, PodTemplateSpec, ResourceRequirements
from tonnage.objects.quotas import ResourceQuota, ResourceQuotaSpec, ResourceQuotaStatus
from tonnage.objects.timestamps import rfc3339
from tonnage.objects.workloads import (
    Job,
    JobSpec,
    JobStatus,
    ReplicaSet,
    ReplicaSetSpec,
    StatefulSet,
    StatefulSetOrdinals,
    StatefulSetSpec,
)
from tonnage.testing import builders as make

NOW = 1_000_000.0
REQUESTS = ResourceRequirements(requests={"cpu": "500m"}, limits={"cpu": "1"})
TEMPLATE = PodTemplateSpec(
    metadata=ObjectMeta(labels={"app": "db"}),
    spec=PodSpec(containers=(Container(name="c", resources=REQUESTS),)),
)


def meta(name: str, **more: Any) -> ObjectMeta:
    return ObjectMeta(name=name, namespace="default", uid=f"uid-{name}", **more)


def stateful_set(name: str = "db", replicas: int | None = 10, **spec: Any) -> StatefulSet:
    claim = make.pvc("data", storage_class="fast", size="10Gi")
    return StatefulSet(
        metadata=meta(name),
        spec=StatefulSetSpec(
            replicas=replicas,
            selector=LabelSelector(match_labels={"app": "db"}),
            template=TEMPLATE,
            volume_claim_templates=(claim,),
            **spec,
        ),
    )


def pod(name: str, owner: str = "db", *, kind: str = "StatefulSet", age: float = 10.0) -> Pod:
    controlled = OwnerReference(kind=kind, name=owner, uid=f"uid-{owner}", controller=True)
    made = make.pod(name)
    created = make_time(NOW - age)
    return msgspec.structs.replace(
        made,
        metadata=msgspec.structs.replace(
            made.metadata, owner_references=(controlled,), creation_timestamp=created
        ),
    )


def make_time(seconds: float) -> str:
    return rfc3339(seconds)


def ahead(*objects: object, now: float = NOW) -> dict[str, int]:
    found = look_ahead.of_objects(objects, now=now, within=900.0)
    return {room.title: room.chunks for room in found}


def of(title: str = "next pods of StatefulSet default/db", **counts: int) -> dict[str, int]:
    return {title: counts["chunks"]}


def test_a_stateful_set_makes_all_of_its_replicas_that_are_not_there() -> None:
    assert ahead(stateful_set(), pod("db-0"), pod("db-1")) == of(chunks=8)


def test_each_has_claims_of_its_own() -> None:
    (room,) = look_ahead.of_objects([stateful_set(), pod("db-0")], now=NOW, within=900.0)
    assert [claim.metadata.name for claim in room.claims] == ["data"]
    assert isinstance(room, KeptRoom)


def test_never_more_than_its_replicas_however_they_are_numbered() -> None:
    numbered = stateful_set(replicas=3, ordinals=StatefulSetOrdinals(start=5))
    assert ahead(numbered, pod("db-5"), pod("db-6")) == of(chunks=1)
    assert ahead(stateful_set(replicas=2), pod("db-0"), pod("db-1"), pod("db-2")) == {}


def test_a_pod_whose_claim_is_there_already_is_not_guessed_about() -> None:
    claim = make.pvc("data-db-7", storage_class="fast")
    assert ahead(stateful_set(), pod("db-0"), claim) == of(chunks=8)


def test_a_replica_set_lacks_what_it_wants_and_has_not() -> None:
    wanted = ReplicaSet(metadata=meta("web"), spec=ReplicaSetSpec(replicas=5, template=TEMPLATE))
    there = [pod(f"web-{one}", "web", kind="ReplicaSet") for one in "ab"]
    assert ahead(wanted, *there) == {"next pods of ReplicaSet default/web": 3}


@pytest.mark.parametrize(
    ("spec", "status", "pods", "expected"),
    [
        ({"parallelism": 4}, {}, 1, 3),
        ({"parallelism": 4, "completions": 10}, {"succeeded": 8}, 1, 1),
        ({"parallelism": 4, "completions": 3}, {}, 1, 2),
        ({"parallelism": 4}, {"succeeded": 1}, 1, 0),
        ({"parallelism": 4, "suspend": True}, {}, 1, 0),
        ({"parallelism": 2, "completions": 9}, {}, 2, 0),
        ({}, {}, 1, 0),
    ],
)
def test_a_job_makes_no_more_than_its_parallelism_and_completions(
    spec: dict[str, Any], status: dict[str, Any], pods: int, expected: int
) -> None:
    job = Job(
        metadata=meta("work"), spec=JobSpec(template=TEMPLATE, **spec), status=JobStatus(**status)
    )
    there = [pod(f"work-{one}", "work", kind="Job") for one in range(pods)]
    assert sum(ahead(job, *there).values()) == expected


def test_a_job_that_is_over_makes_nothing() -> None:
    over = JobStatus(conditions=(Condition(type="Failed", status="True"),))
    job = Job(metadata=meta("work"), spec=JobSpec(template=TEMPLATE, parallelism=4), status=over)
    assert ahead(job, pod("work-a", "work", kind="Job")) == {}


def quota(hard: ResourceList, used: ResourceList | None = None) -> ResourceQuota:
    return ResourceQuota(
        metadata=meta("quota"),
        spec=ResourceQuotaSpec(hard=hard),
        status=ResourceQuotaStatus(hard=hard, used=used or {}),
    )


@pytest.mark.parametrize(
    ("hard", "used", "expected"),
    [
        ({"pods": "5"}, {"pods": "1"}, 4),
        ({"count/pods": "5"}, {"count/pods": "1"}, 4),
        ({"requests.cpu": "2"}, {"requests.cpu": "500m"}, 3),
        ({"cpu": "2"}, {"cpu": "500m"}, 3),
        ({"limits.cpu": "4"}, {"limits.cpu": "1"}, 3),
        ({"persistentvolumeclaims": "3"}, {"persistentvolumeclaims": "1"}, 2),
        ({"requests.storage": "35Gi"}, {"requests.storage": "10Gi"}, 2),
        ({"fast.storageclass.storage.k8s.io/requests.storage": "20Gi"}, {}, 2),
        ({"slow.storageclass.storage.k8s.io/requests.storage": "0"}, {}, 9),
        ({"pods": "0"}, {"pods": "3"}, 0),
        ({"pods": "nonsense"}, {}, 0),
        ({"configmaps": "1"}, {"configmaps": "1"}, 9),
    ],
)
def test_never_more_than_a_quota_leaves(
    hard: ResourceList, used: ResourceList, expected: int
) -> None:
    assert sum(ahead(stateful_set(), pod("db-0"), quota(hard, used)).values()) == expected


def test_controllers_share_what_a_quota_leaves() -> None:
    controllers = [stateful_set("a"), pod("a-0", "a"), stateful_set("b"), pod("b-0", "b")]
    assert list(ahead(*controllers, quota({"pods": "12"})).values()) == [9, 3]


def test_a_controller_that_makes_no_pods_any_more_is_not_looked_ahead_at() -> None:
    assert ahead(stateful_set(), pod("db-0", age=1000.0)) == {}


def test_what_is_deleted_or_was_never_seen_by_a_server_is_left_out() -> None:
    gone = stateful_set()
    leaving = msgspec.structs.replace(gone.metadata, deletion_timestamp=make_time(NOW))
    assert ahead(msgspec.structs.replace(gone, metadata=leaving), pod("db-0")) == {}
    unseen = msgspec.structs.replace(gone.metadata, uid="")
    assert ahead(msgspec.structs.replace(gone, metadata=unseen), pod("db-0")) == {}
