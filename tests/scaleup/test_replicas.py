"""Pods of workloads that no controller has seen yet."""

from typing import Any

import pytest

from tonnage.errors import InputError
from tonnage.objects import codec, kinds
from tonnage.objects.kinds import KubeObject
from tonnage.objects.pods import Pod
from tonnage.objects.storage import PersistentVolumeClaim
from tonnage.scaleup import replicas

TEMPLATE: dict[str, Any] = {
    "metadata": {"labels": {"app": "x"}},
    "spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": "1"}}}]},
}


def made(kind: str, name: str, api: str = "apps/v1", *, uid: str = "", **spec: Any) -> KubeObject:
    row = kinds.by_kind(api, kind)
    assert row is not None
    return codec.convert({"metadata": {"name": name, "uid": uid}, "spec": spec}, row)


def pods_of(*workloads: KubeObject, cluster: tuple[KubeObject, ...] = ()) -> list[Pod]:
    found = replicas.missing(workloads, [*cluster, *workloads]).objects
    return [one for one in found if isinstance(one, Pod)]


def names(*workloads: KubeObject, cluster: tuple[KubeObject, ...] = ()) -> list[str]:
    return [pod.metadata.name for pod in pods_of(*workloads, cluster=cluster)]


def database(replicas: int, **spec: Any) -> KubeObject:
    claim = {"metadata": {"name": "data"}, "spec": {"resources": {"requests": {"storage": "1Gi"}}}}
    return made(
        "StatefulSet",
        "db",
        replicas=replicas,
        template=TEMPLATE,
        volumeClaimTemplates=[claim],
        **spec,
    )


def test_a_stateful_set_has_numbered_pods() -> None:
    assert names(database(3)) == ["db-0", "db-1", "db-2"]


def test_numbers_begin_where_it_says() -> None:
    assert names(database(2, ordinals={"start": 5})) == ["db-5", "db-6"]


def test_each_pod_has_its_claim() -> None:
    found = replicas.missing([database(2)], []).objects
    claims = [one.metadata.name for one in found if isinstance(one, PersistentVolumeClaim)]
    volumes = [
        volume.persistent_volume_claim.claim_name
        for one in found
        if isinstance(one, Pod)
        for volume in one.spec.volumes
        if volume.persistent_volume_claim is not None
    ]
    assert claims == volumes == ["data-db-0", "data-db-1"]


def test_a_claim_that_is_there_is_kept() -> None:
    there = made("PersistentVolumeClaim", "data-db-0", "v1")
    found = replicas.missing([database(1)], [there]).objects
    assert not any(isinstance(one, PersistentVolumeClaim) for one in found)


def test_claims_without_a_class_get_the_default_one() -> None:
    row = kinds.by_kind("storage.k8s.io/v1", "StorageClass")
    assert row is not None
    default = {"storageclass.kubernetes.io/is-default-class": "true"}
    there = codec.convert({"metadata": {"name": "gp3", "annotations": default}}, row)
    found = replicas.missing([database(1)], [there]).objects
    assert found[0].spec.storage_class_name == "gp3"  # type: ignore[union-attr]


def test_pods_that_are_there_are_not_made_again() -> None:
    there = pods_of(database(2))
    assert names(database(3), cluster=tuple(there)) == ["db-2"]


def test_a_deployment_has_pods_of_its_replica_set() -> None:
    web = made("Deployment", "web", replicas=2, template=TEMPLATE)
    owners = {pod.metadata.controller.kind for pod in pods_of(web) if pod.metadata.controller}
    assert (len(names(web)), owners) == (2, {"ReplicaSet"})


def test_without_a_number_there_is_one_pod() -> None:
    assert len(names(made("Deployment", "web", template=TEMPLATE))) == 1


def test_a_job_has_as_many_pods_as_run_at_once() -> None:
    job = made("Job", "j", "batch/v1", parallelism=5, completions=3, template=TEMPLATE)
    assert len(names(job)) == 3


def test_a_cron_job_has_the_pods_of_one_run_and_says_so() -> None:
    cron = made("CronJob", "c", "batch/v1", jobTemplate={"spec": {"template": TEMPLATE}})
    assert len(names(cron)) == 1
    assert "one run" in replicas.missing([cron], []).notes[-1]


def test_a_daemon_set_has_a_pod_pinned_to_each_node_it_is_meant_for() -> None:
    nodes = tuple(made("Node", name, "v1") for name in ("n1", "n2"))
    agent = made("DaemonSet", "agent", template=TEMPLATE)
    made_pods = pods_of(agent, cluster=nodes)
    assert [pod.spec.node_name for pod in made_pods] == ["", ""]
    assert all(pod.spec.affinity is not None for pod in made_pods)


def test_requests_are_those_of_the_limits_where_none_are_given() -> None:
    pod = pods_of(database(1))[0]
    assert pod.spec.containers[0].resources.requests == {"cpu": "1"}


def test_a_priority_class_gives_its_value() -> None:
    row = kinds.by_kind("scheduling.k8s.io/v1", "PriorityClass")
    assert row is not None
    high = codec.convert({"metadata": {"name": "high"}, "value": 7}, row)
    spec = {**TEMPLATE["spec"], "priorityClassName": "high"}
    web = made("Deployment", "web", template={"spec": spec})
    assert pods_of(web, cluster=(high,))[0].spec.priority == 7


def test_a_workload_of_a_dump_is_left_to_its_pods() -> None:
    there = pods_of(database(1))
    seen = made("StatefulSet", "db", uid="u1", replicas=3, template=TEMPLATE)
    assert names(seen, cluster=tuple(there)) == []


def test_the_replica_set_of_a_deployment_is_left_to_it() -> None:
    row = kinds.by_kind("apps/v1", "ReplicaSet")
    assert row is not None
    owner = {"kind": "Deployment", "name": "web", "controller": True}
    owned = codec.convert({"metadata": {"name": "web-1", "ownerReferences": [owner]}}, row)
    assert names(owned) == []


def test_a_slip_of_the_keyboard_is_refused() -> None:
    with pytest.raises(InputError, match="expected at most"):
        names(database(2_000_000_000))
