"""Workload controllers of the played world: Deployments, StatefulSets, DaemonSets, Jobs."""

from collections import Counter

import pytest

from tests.embedded.embedded_cluster import DRIVER, Cluster, Json, living, template, workload
from tonnage.embedded.world import RUNS_FOR, Delay, DriverBehaviour
from tonnage.objects.nodes import Taint
from tonnage.objects.pods import Pod
from tonnage.testing.clock import VirtualClock

NOT_READY = "node.kubernetes.io/not-ready"


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


def status(cluster: Cluster, plural: str, name: str, *fields: str) -> list[int]:
    found: Json = cluster.get(plural, name)["status"]
    return [found[field] for field in fields]


# ReplicaSets and Deployments


async def test_a_replica_set_has_as_many_pods_as_it_wants(clock):
    async with living(clock) as cluster:
        cluster.nodes(2)
        cluster.put("replicasets", "web", spec=workload(replicas=5))
        await cluster.after(10)
        assert cluster.phases() == {"Running": 5}
        assert status(cluster, "replicasets", "web", "replicas", "readyReplicas") == [5, 5]


async def test_a_pod_has_all_of_the_template_and_not_only_what_decisions_read(clock):
    async with living(clock) as cluster:
        spec = workload(replicas=1, template=template(dnsPolicy="Default"))
        cluster.put("replicasets", "web", spec=spec)
        await cluster.after(1)
        (pod,) = cluster.all("pods")
    assert (pod["spec"]["dnsPolicy"], pod["spec"]["containers"][0]["image"]) == ("Default", "x")


async def test_a_deleted_pod_is_made_again(clock):
    async with living(clock) as cluster:
        cluster.nodes(1)
        cluster.put("replicasets", "web", spec=workload(replicas=2))
        await cluster.after(10)
        gone = cluster.names("pods")[0]
        cluster.delete("pods", gone)
        await cluster.after(10)
        assert gone not in cluster.names("pods")
        assert cluster.phases() == {"Running": 2}


async def test_pods_of_a_node_that_is_gone_are_made_again_elsewhere(clock):
    async with living(clock) as cluster:
        cluster.nodes(2)
        cluster.put("replicasets", "web", spec=workload(replicas=4))
        await cluster.after(10)
        cluster.delete("nodes", "n1")
        await cluster.after(10)
        assert Counter(cluster.places().values()) == {"n2": 4}
        assert cluster.phases() == {"Running": 4}


async def test_pods_without_a_node_go_first(clock):
    async with living(clock, binds=False) as cluster:
        cluster.nodes(1)
        cluster.put("replicasets", "web", spec=workload(replicas=3))
        await cluster.after(5)
        kept = cluster.names("pods")[1]
        await cluster.client.bind(await _pod(cluster, kept), "n1")
        await cluster.after(5)
        cluster.patch("replicasets", "web", {"spec": {"replicas": 1}})
        await cluster.after(5)
        assert cluster.names("pods") == [kept]


async def test_a_deployment_has_its_pods_through_a_replica_set(clock):
    async with living(clock) as cluster:
        cluster.nodes(1)
        cluster.put("deployments", "web", spec=workload(replicas=3))
        await cluster.after(10)
        (owner,) = cluster.all("replicasets")
        assert owner["metadata"]["ownerReferences"][0]["name"] == "web"
        assert all(name.startswith(owner["metadata"]["name"]) for name in cluster.names("pods"))
        assert cluster.phases() == {"Running": 3}
        counts = status(cluster, "deployments", "web", "replicas", "availableReplicas")
        assert counts == [3, 3]


async def test_a_deployment_is_scaled_by_its_scale(clock):
    async with living(clock) as cluster:
        cluster.nodes(1)
        cluster.put("deployments", "web", spec=workload(replicas=3))
        await cluster.after(5)
        for replicas in (6, 1, 0):
            cluster.patch("deployments", "web", {"spec": {"replicas": replicas}})
            await cluster.after(5)
            assert len(cluster.names("pods")) == replicas


async def test_a_new_template_rolls_out_within_its_bounds(clock):
    rolling = {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    async with living(clock, pod_start=Delay(2.0)) as cluster:
        cluster.nodes(2)
        cluster.put("deployments", "web", spec=workload(replicas=4, strategy=rolling))
        await cluster.after(10)
        changed = {"template": template(labels={"version": "2"})}
        cluster.patch("deployments", "web", {"spec": changed})
        seen = []
        for _ in range(100):
            await cluster.after(0.5)
            pods = [one for one in cluster.all("pods") if not _leaves(one)]
            seen.append((len(pods), sum(one["status"]["phase"] == "Running" for one in pods)))
        versions = [one["metadata"]["labels"].get("version") for one in cluster.all("pods")]
    assert versions == ["2"] * 4
    assert max(all_ for all_, _ in seen) == 5
    assert min(running for _, running in seen) == 4


async def test_recreate_ends_the_old_pods_before_it_makes_new_ones(clock):
    async with living(clock, pod_stop=Delay(5.0)) as cluster:
        cluster.nodes(1)
        spec = workload(replicas=2, strategy={"type": "Recreate"})
        cluster.put("deployments", "web", spec=spec)
        await cluster.after(10)
        changed = {"template": template(labels={"version": "2"})}
        cluster.patch("deployments", "web", {"spec": changed})
        await cluster.after(2)
        assert all(_leaves(one) for one in cluster.all("pods"))
        await cluster.after(20)
        assert cluster.phases() == {"Running": 2}


async def test_what_a_deployment_owned_goes_with_it(clock):
    async with living(clock) as cluster:
        cluster.nodes(1)
        cluster.put("deployments", "web", spec=workload(replicas=3))
        await cluster.after(5)
        cluster.delete("deployments", "web")
        await cluster.after(5)
        assert cluster.names("replicasets") + cluster.names("pods") == []


# StatefulSets


def stateful(**more: object) -> Json:
    claim = {
        "metadata": {"name": "data"},
        "spec": {
            "storageClassName": "disk",
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    return workload(**{"serviceName": "db", "volumeClaimTemplates": [claim], **more})


def disks() -> tuple[DriverBehaviour, ...]:
    return (DriverBehaviour(name=DRIVER, limit=25),)


async def test_pods_of_a_stateful_set_come_one_after_the_other(clock):
    async with living(clock, drivers=disks(), pod_start=Delay(10.0)) as cluster:
        cluster.disk_class()
        cluster.nodes(1)
        cluster.put("statefulsets", "db", spec=stateful(replicas=3))
        seen = []
        for _ in range(3):
            await cluster.after(11)
            seen.append(cluster.phases())
        await cluster.after(10)
        assert seen[0] in ({"Pending": 1}, {"Running": 1, "Pending": 1})
        assert cluster.names("pods") == ["db-0", "db-1", "db-2"]
        assert cluster.phases() == {"Running": 3}


async def test_in_parallel_they_come_all_at_once(clock):
    async with living(clock, drivers=disks(), binds=False) as cluster:
        cluster.disk_class()
        spec = stateful(replicas=3, podManagementPolicy="Parallel")
        cluster.put("statefulsets", "db", spec=spec)
        await cluster.after(1)
        assert cluster.names("pods") == ["db-0", "db-1", "db-2"]


async def test_each_pod_has_its_own_claim_and_keeps_it(clock):
    async with living(clock, drivers=disks()) as cluster:
        cluster.disk_class()
        cluster.nodes(1)
        cluster.put("statefulsets", "db", spec=stateful(replicas=2))
        await cluster.after(10)
        claims = {one["metadata"]["uid"] for one in cluster.all("persistentvolumeclaims")}
        assert cluster.names("persistentvolumeclaims") == ["data-db-0", "data-db-1"]
        cluster.delete("pods", "db-0")
        await cluster.after(10)
        pod = cluster.get("pods", "db-0")
        assert pod["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"] == "data-db-0"
        assert {one["metadata"]["uid"] for one in cluster.all("persistentvolumeclaims")} == claims


async def test_a_stateful_set_shrinks_from_the_end_one_by_one(clock):
    async with living(clock, drivers=disks(), pod_stop=Delay(5.0)) as cluster:
        cluster.disk_class()
        cluster.nodes(1)
        cluster.put("statefulsets", "db", spec=stateful(replicas=3))
        await cluster.after(10)
        cluster.patch("statefulsets", "db", {"spec": {"replicas": 1}})
        await cluster.after(2)
        assert [one["metadata"]["name"] for one in cluster.all("pods") if _leaves(one)] == ["db-2"]
        await cluster.after(20)
        assert cluster.names("pods") == ["db-0"]
        assert len(cluster.names("persistentvolumeclaims")) == 3


async def test_an_updated_stateful_set_renews_its_pods_from_the_end(clock):
    async with living(clock, drivers=disks()) as cluster:
        cluster.disk_class()
        cluster.nodes(1)
        cluster.put("statefulsets", "db", spec=stateful(replicas=2))
        await cluster.after(10)
        before = {one["metadata"]["uid"] for one in cluster.all("pods")}
        changed = {"template": template(labels={"version": "2"})}
        cluster.patch("statefulsets", "db", {"spec": changed})
        await cluster.after(30)
        pods = cluster.all("pods")
        assert [one["metadata"]["labels"]["version"] for one in pods] == ["2", "2"]
        assert not before & {one["metadata"]["uid"] for one in pods}
        assert status(cluster, "statefulsets", "db", "readyReplicas", "updatedReplicas") == [2, 2]


async def test_a_stateful_set_has_two_revisions_until_its_last_pod_is_renewed(clock):
    async with living(clock, drivers=disks(), pod_start=Delay(10.0)) as cluster:
        cluster.disk_class()
        cluster.nodes(1)
        cluster.put("statefulsets", "db", spec=stateful(replicas=2))
        await cluster.after(60)
        changed = {"template": template(labels={"version": "2"})}
        cluster.patch("statefulsets", "db", {"spec": changed})
        await cluster.after(5)
        first, second, of_first = status(
            cluster, "statefulsets", "db", "currentRevision", "updateRevision", "currentReplicas"
        )
        assert first != second
        assert of_first == 1
        await cluster.after(60)
        assert status(cluster, "statefulsets", "db", "currentRevision") == [second]


# DaemonSets


async def test_every_node_has_one_daemon_pod_also_those_that_come_later(clock):
    async with living(clock) as cluster:
        cluster.nodes(2)
        cluster.put("daemonsets", "agent", spec=workload())
        await cluster.after(10)
        cluster.node("n3")
        await cluster.after(10)
        assert sorted(cluster.places().values()) == ["n1", "n2", "n3"]
        counts = ("desiredNumberScheduled", "currentNumberScheduled", "numberReady")
        assert status(cluster, "daemonsets", "agent", *counts) == [3, 3, 3]


async def test_a_daemon_pod_is_only_where_its_selector_and_tolerations_allow_it(clock):
    async with living(clock) as cluster:
        cluster.node("plain")
        cluster.node("disky", labels={"disk": "yes"})
        cluster.node("tainted", labels={"disk": "yes"}, taints=[_taint("dedicated")])
        cluster.put(
            "daemonsets", "agent", spec=workload(template=template(nodeSelector={"disk": "yes"}))
        )
        await cluster.after(10)
        assert list(cluster.places().values()) == ["disky"]


async def test_a_daemon_pod_comes_to_a_cordoned_node_and_stays_on_one_that_is_not_ready(clock):
    async with living(clock) as cluster:
        cluster.node("n1", unschedulable=True)
        cluster.put("daemonsets", "agent", spec=workload())
        await cluster.after(10)
        (pod,) = cluster.all("pods")
        keys = {one["key"] for one in pod["spec"]["tolerations"]}
        assert {"node.kubernetes.io/unschedulable", NOT_READY} <= keys
        await cluster.world.kubelets.report("n1", ready=False)
        await cluster.after(1000)
        assert cluster.names("pods") == [pod["metadata"]["name"]]


async def test_a_daemon_pod_goes_when_its_node_no_longer_fits(clock):
    async with living(clock) as cluster:
        cluster.node("n1", labels={"disk": "yes"})
        spec = workload(template=template(nodeSelector={"disk": "yes"}))
        cluster.put("daemonsets", "agent", spec=spec)
        await cluster.after(10)
        cluster.patch("nodes", "n1", {"metadata": {"labels": {"disk": "no"}}})
        await cluster.after(10)
        assert cluster.names("pods") == []


async def test_daemon_pods_go_with_their_node_bound_or_not(clock):
    async with living(clock, binds=False) as cluster:
        cluster.nodes(1)
        cluster.put("daemonsets", "agent", spec=workload())
        await cluster.after(10)
        assert len(cluster.names("pods")) == 1
        cluster.delete("nodes", "n1")
        await cluster.after(10)
        assert cluster.names("pods") == []


# Jobs


def work(seconds: str = "60", **more: object) -> Json:
    made = template(annotations={RUNS_FOR: seconds}, restartPolicy="Never")
    return {"template": made, **more}


async def test_a_job_is_complete_when_enough_of_its_pods_have_done_their_work(clock):
    async with living(clock) as cluster:
        cluster.nodes(1)
        cluster.put("jobs", "sum", spec=work(completions=5, parallelism=2))
        seen = []
        for _ in range(4):
            await cluster.after(62)
            seen.append(cluster.phases())
        assert seen[0] == {"Succeeded": 2, "Running": 2} or seen[0]["Running"] <= 2
        assert cluster.phases() == {"Succeeded": 5}
        found = cluster.get("jobs", "sum")["status"]
    assert (found["succeeded"], found["active"]) == (5, 0)
    assert found["conditions"][0]["type"] == "Complete"


@pytest.mark.parametrize(("text", "seconds"), [("90", 90), ("90s", 90), ("1m30s", 90)])
async def test_a_pod_runs_for_as_long_as_it_says(clock, text, seconds):
    async with living(clock) as cluster:
        cluster.nodes(1)
        cluster.put("jobs", "sum", spec=work(text))
        await cluster.after(seconds)
        assert cluster.phases() == {"Running": 1}
        await cluster.after(5)
        assert cluster.phases() == {"Succeeded": 1}


async def test_a_job_that_says_nonsense_fails_and_says_what_is_wrong(clock):
    async with living(clock) as cluster:
        cluster.nodes(1)
        cluster.put("jobs", "sum", spec=work("soon", backoffLimit=2))
        await cluster.after(60)
        assert cluster.phases() == {"Failed": 3}
        assert "'soon': expected a duration" in cluster.all("pods")[0]["status"]["message"]
        assert cluster.get("jobs", "sum")["status"]["conditions"][0]["type"] == "Failed"


async def test_work_lost_with_its_node_is_done_again(clock):
    async with living(clock) as cluster:
        cluster.nodes(2)
        cluster.put("jobs", "sum", spec=work(completions=2, parallelism=2))
        await cluster.after(30)
        cluster.delete("nodes", "n1")
        await cluster.after(50)
        assert cluster.get("jobs", "sum")["status"]["succeeded"] == 1
        await cluster.after(30)
        assert cluster.get("jobs", "sum")["status"]["succeeded"] == 2


async def test_a_job_goes_some_time_after_it_is_done(clock):
    async with living(clock) as cluster:
        cluster.nodes(1)
        cluster.put("jobs", "sum", spec=work(ttlSecondsAfterFinished=100))
        await cluster.after(120)
        assert cluster.names("jobs") == ["sum"]
        await cluster.after(60)
        assert cluster.names("jobs") + cluster.names("pods") == []


async def _pod(cluster: Cluster, name: str) -> Pod:
    return await cluster.client.get(Pod, name, namespace="default")


def _leaves(pod: Json) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def _taint(key: str) -> Taint:
    return Taint(key=key, effect="NoSchedule")
