"""The control plane itself: what the other tests take for granted."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e import manifests
from tests.e2e.controlplane import (
    COMPONENTS,
    ETCD,
    SCHEDULER,
    ControlPlane,
    KubectlError,
    wait_until,
)
from tests.e2e.manifests import Manifest
from tests.e2e.workspace import Workspace

DRIVER = "disk.example.com"
NOT_INSTALLED = f"{DRIVER} CSI driver is not installed on the node"


def alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and was not waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def opted_in(work: Workspace) -> None:
    """A driver that wants pods kept off nodes without it, and a claim for a volume of it."""
    work.create(
        manifests.csidriver(DRIVER, opt_in=True),
        manifests.storage_class("disk", DRIVER),
        manifests.claim("data", "disk", namespace=work.namespace),
    )


def applied(work: Workspace, manifest: Manifest, *options: str) -> bool:
    """Whether the server took it; asking again is fine if it did and could not say so."""
    with contextlib.suppress(KubectlError):
        work.cluster.kubectl("apply", "-f", "-", *options, stdin=json.dumps(manifest))
        return True
    return False


def provision(work: Workspace, claim: str) -> None:
    """Play the driver's provisioner: make the volume once the scheduler has chosen a node."""

    def chosen() -> bool:
        meta = work.get("pvc", claim)["metadata"]
        return "volume.kubernetes.io/selected-node" in meta.get("annotations", {})

    wait_until(chosen, what=f"a node is chosen for claim {claim}")
    asked = work.get("pvc", claim)
    name = f"{work.namespace}-{claim}"
    work.create(manifests.volume(name, "disk", driver=DRIVER, claim=asked))


def test_server_and_kubectl_are_of_the_version_that_was_built(cluster: ControlPlane) -> None:
    told = json.loads(cluster.kubectl("version", "-o", "json"))
    versions = {told["serverVersion"]["gitVersion"], told["clientVersion"]["gitVersion"]}
    assert versions == {cluster.versions["kubernetes"]}


def test_the_server_emulates_its_own_minor_version(cluster: ControlPlane) -> None:
    told = json.loads(cluster.kubectl("get", "--raw", "/version"))
    minor = cluster.versions["kubernetes"].split(".")[1]
    assert (told["minor"], told.get("emulationMinor", minor)) == (minor, minor)


def test_a_driver_keeps_its_opt_in(work: Workspace) -> None:
    work.create(manifests.csidriver(DRIVER, opt_in=True))
    assert work.get("csidriver", DRIVER)["spec"]["preventPodSchedulingIfMissing"] is True


def test_without_the_gate_the_opt_in_is_dropped_and_two_control_planes_run_side_by_side(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    driver = "of-the-other.example.com"
    with ControlPlane(tmp_path, feature_gates={"VolumeLimitScaling": False}) as other:
        other.create(manifests.csidriver(driver, opt_in=True))
        kept = other.get("csidriver", driver)["spec"].get("preventPodSchedulingIfMissing")
        pids = other.pids()
    assert kept is None
    assert [name for name, pid in pids.items() if alive(pid)] == []
    assert not (tmp_path / "etcd").exists()
    assert cluster.kubectl("get", "csidriver", driver, "--ignore-not-found") == ""


def test_a_pod_waits_on_a_node_without_the_driver_and_runs_when_it_has_registered(
    work: Workspace,
) -> None:
    node = f"{work.namespace}-n1"
    opted_in(work)
    work.create(manifests.node(node), manifests.csinode(node))
    work.create(manifests.pod("db", namespace=work.namespace, claims=["data"]))
    refusal = f"0/1 nodes are available: 1 {NOT_INSTALLED}."
    wait_until(
        lambda: work.scheduler_says("db").startswith(refusal),
        what="the scheduler refused the pod",
        late=lambda: work.scheduler_says("db"),
    )

    registered = [{"name": DRIVER, "nodeID": node, "allocatable": {"count": 2}}]
    patch = json.dumps({"spec": {"drivers": registered}})
    work.cluster.kubectl("patch", "csinode", node, "--type=merge", "-p", patch)
    provision(work, "data")
    wait_until(lambda: work.node_of("db") == node, what="the pod is bound")


def test_a_stateful_set_gets_pods_with_claims_of_their_own(work: Workspace) -> None:
    template = manifests.pod("db", namespace=work.namespace, claims=[], labels={"app": "db"})
    claim = manifests.claim("data", "disk", namespace=work.namespace)
    work.create(
        {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "metadata": {"name": "db", "namespace": work.namespace},
            "spec": {
                "replicas": 2,
                "podManagementPolicy": "Parallel",
                "selector": {"matchLabels": {"app": "db"}},
                "template": {"metadata": {"labels": {"app": "db"}}, "spec": template["spec"]},
                "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": claim["spec"]}],
            },
        }
    )

    def names(kind: str) -> set[str]:
        return set(work.cluster.kubectl("get", kind, "-n", work.namespace, "-o", "name").split())

    wait_until(lambda: names("pods") == {"pod/db-0", "pod/db-1"}, what="both pods exist")
    prefix = "persistentvolumeclaim/data"
    assert names("pvc") == {f"{prefix}-db-0", f"{prefix}-db-1"}


def test_a_user_may_do_what_a_role_allows_and_nothing_else(work: Workspace) -> None:
    kubectl = work.cluster.kubectl
    as_reader = work.cluster.kubeconfig("reader", group="readers")
    namespaced = ("-n", work.namespace)
    kubectl("create", "role", "reader", "--verb=get,list", "--resource=pods", *namespaced)
    kubectl("create", "rolebinding", "readers", "--role=reader", "--group=readers", *namespaced)

    def may_list() -> bool:
        with contextlib.suppress(KubectlError):
            kubectl("get", "pods", *namespaced, kubeconfig=as_reader)
            return True
        return False

    wait_until(may_list, what="the role is in force")
    with pytest.raises(KubectlError, match="forbidden"):
        kubectl("get", "nodes", kubeconfig=as_reader)


def test_a_service_account_is_known_by_its_token(work: Workspace) -> None:
    kubeconfig = work.cluster.kubeconfig_of_account("default", namespace=work.namespace)
    told = work.cluster.kubectl("auth", "whoami", "-o", "json", kubeconfig=kubeconfig)
    user = json.loads(told)["status"]["userInfo"]["username"]
    assert user == f"system:serviceaccount:{work.namespace}:default"


@pytest.mark.parametrize("component", COMPONENTS)
def test_work_goes_on_after_a_component_was_killed(work: Workspace, component: str) -> None:
    node = f"{work.namespace}-n1"
    work.create(manifests.node(node))
    work.cluster.kill(component)
    work.cluster.start(component)
    pod = manifests.pod("web", namespace=work.namespace)
    # The API server finds the way back to its etcd a moment after that is there.
    wait_until(lambda: applied(work, pod), what="the server takes writes again")
    wait_until(lambda: work.node_of("web") == node, what="the pod is bound")


def test_nothing_is_scheduled_while_the_scheduler_stands_still(work: Workspace) -> None:
    node = f"{work.namespace}-n1"
    work.create(manifests.node(node))
    with work.cluster.paused(SCHEDULER):
        work.create(manifests.pod("web", namespace=work.namespace))
        assert work.node_of("web") == ""
    wait_until(lambda: work.node_of("web") == node, what="the pod is bound")


def test_nothing_can_be_written_until_an_etcd_that_stands_still_goes_on(work: Workspace) -> None:
    def config_map(name: str) -> Manifest:
        meta = {"name": name, "namespace": work.namespace}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}

    with work.cluster.paused(ETCD):
        assert not applied(work, config_map("early"), "--request-timeout=2s")
    wait_until(lambda: applied(work, config_map("late")), what="the server takes writes again")


def test_a_program_does_not_outlive_a_test_session_that_is_killed(tmp_path: Path) -> None:
    session = f"""
import time
from pathlib import Path
from tests.e2e.processes import Program, Watchdog
data = Path({str(tmp_path)!r}) / "data"
data.mkdir()
log = data.with_name("log")
program = Program("sleep", ["sleep", "600"], log=log, environ={{}}, watchdog=Watchdog(data))
program.start()
print(program.pid, flush=True)
time.sleep(600)
"""
    run = subprocess.Popen([sys.executable, "-c", session], stdout=subprocess.PIPE, text=True)
    assert run.stdout is not None
    pid = int(run.stdout.readline())
    assert alive(pid)
    os.kill(run.pid, signal.SIGKILL)
    run.wait()
    run.stdout.close()
    wait_until(lambda: not alive(pid), what="the program has ended")
    wait_until(lambda: not (tmp_path / "data").exists(), what="its data is removed")
