"""The embedded API through the eyes of kubectl."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e import manifests
from tests.e2e.controlplane import KubectlError, programs, wait_until

WEB = """\
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 2
  serviceName: web
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: main
        image: example:1
        ports: [{containerPort: 80}]
"""

WIDGETS = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget, shortNames: [wd]}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
    additionalPrinterColumns:
    - {name: Size, type: integer, jsonPath: .spec.size}
"""


class Kubectl:
    """kubectl with the kubeconfig that `tonnage embedded` wrote."""

    def __init__(self, directory: Path, kubeconfig: Path) -> None:
        self._program = str(programs() / "kubectl")
        self._environ = {
            "PATH": os.defpath, "HOME": str(directory), "KUBECONFIG": str(kubeconfig)
        }  # fmt: skip

    def __call__(self, *arguments: str, stdin: str = "") -> str:
        run = subprocess.run(
            [self._program, *arguments],
            input=stdin,
            env=self._environ,
            capture_output=True,
            text=True,
            timeout=180.0,
        )
        if run.returncode != 0:
            raise KubectlError(f"kubectl {' '.join(arguments)}: {run.stderr.strip()}")
        assert "warning" not in run.stderr.lower().replace("warning: immediate deletion", "")
        return run.stdout

    def apply(self, *objects: dict[str, Any]) -> str:
        listed = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
        return self("apply", "-f", "-", stdin=json.dumps(listed))

    def started(self, *arguments: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [self._program, *arguments], env=self._environ, stdout=subprocess.PIPE, text=True
        )

    def table(self, *arguments: str) -> list[list[str]]:
        """What `get` prints, split at the gaps between columns."""
        lines = self("get", *arguments).splitlines()
        return [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in lines]


@pytest.fixture(scope="module")
def kubectl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    directory = tmp_path_factory.mktemp("embedded")
    kubeconfig = directory / "kubeconfig"
    program = Path(sys.executable).with_name("tonnage")
    command = [str(program), "embedded", "--kubeconfig", str(kubeconfig)]
    # Into a file: nobody reads while the tests run, and a full pipe would stop it.
    with (directory / "embedded.log").open("w") as log:
        server = subprocess.Popen(command, stderr=log)

    def listens() -> bool:
        assert server.poll() is None, "the embedded cluster ended at once"
        return kubeconfig.exists() and kubeconfig.stat().st_size > 0

    try:
        wait_until(listens, what="the embedded cluster has written its kubeconfig")
        yield Kubectl(directory, kubeconfig)
    finally:
        server.send_signal(signal.SIGINT)
        assert server.wait(timeout=60) == 0


def test_the_server_says_which_version_it_is(kubectl: Kubectl) -> None:
    told = json.loads(kubectl("version", "-o", "json"))
    assert told["serverVersion"]["gitVersion"] == "v1.37.0+tonnage"


def test_kinds_are_listed(kubectl: Kubectl) -> None:
    names = kubectl("api-resources", "-o", "name").split()
    assert {"pods", "csinodes.storage.k8s.io", "leases.coordination.k8s.io"} <= set(names)


def test_what_is_applied_is_there_and_applying_it_again_changes_nothing(kubectl: Kubectl) -> None:
    assert kubectl("apply", "-f", "-", stdin=WEB) == "statefulset.apps/web created\n"
    assert kubectl("apply", "-f", "-", stdin=WEB) == "statefulset.apps/web unchanged\n"
    newer = WEB.replace("example:1", "example:2")
    assert kubectl("apply", "-f", "-", stdin=newer) == "statefulset.apps/web configured\n"
    path = "jsonpath={.spec.template.spec.containers[*]['image']}"
    assert kubectl("get", "sts", "web", "-o", path) == "example:2"
    assert (
        kubectl("delete", "-f", "-", stdin=WEB)
        == 'statefulset.apps "web" deleted from default namespace\n'
    )


def test_server_side_apply_works(kubectl: Kubectl) -> None:
    told = kubectl("apply", "--server-side", "-f", "-", stdin=WEB)
    assert told == "statefulset.apps/web serverside-applied\n"
    again = kubectl(
        "apply", "--server-side", "-f", "-", stdin=WEB.replace("replicas: 2", "replicas: 5")
    )
    assert again == "statefulset.apps/web serverside-applied\n"
    assert kubectl.table("sts", "web")[1][:2] == ["web", "0/5"]
    kubectl("delete", "sts", "web")


def test_a_dry_run_changes_nothing(kubectl: Kubectl) -> None:
    kubectl("create", "--dry-run=server", "-f", "-", stdin=WEB)
    assert kubectl("get", "sts") == ""


def test_nodes_are_shown_with_their_state(kubectl: Kubectl) -> None:
    kubectl.apply(manifests.node("n1", labels={"topology.kubernetes.io/zone": "z1"}))
    kubectl("cordon", "n1")
    columns, (*shown, _age) = kubectl.table("nodes", "n1")
    assert columns == ["NAME", "STATUS", "ROLES", "AGE", "VERSION"]
    assert shown == ["n1", "Ready,SchedulingDisabled", "<none>"]
    kubectl("uncordon", "n1")
    kubectl("taint", "node", "n1", "a=b:NoSchedule")
    assert "Taints:             a=b:NoSchedule" in kubectl("describe", "node", "n1")
    kubectl("delete", "node", "n1")


def test_csi_nodes_are_shown_with_their_limits(kubectl: Kubectl) -> None:
    kubectl.apply(manifests.csinode("n1", {"a.example.com": 25, "b.example.com": None}))
    shown = kubectl.table("csinodes")
    assert shown[0] == ["NAME", "DRIVERS", "AGE", "LIMITS"]
    assert shown[1][3] == "a.example.com=25,b.example.com=unlimited"
    kubectl("delete", "csinode", "n1")


def test_pods_are_shown_described_labelled_and_deleted(kubectl: Kubectl) -> None:
    kubectl.apply(manifests.pod("p1", namespace="default", labels={"app": "a"}))
    assert kubectl.table("pods", "-o", "wide")[1][:4] == ["p1", "0/1", "Pending", "0"]
    kubectl("label", "pod", "p1", "app=b", "--overwrite")
    assert kubectl("get", "pods", "-l", "app=b", "-o", "name") == "pod/p1\n"
    assert kubectl("get", "pods", "-l", "app=a", "-o", "name") == ""
    kubectl("annotate", "pod", "p1", "note=seen")
    assert "note: seen" in kubectl("describe", "pod", "p1")
    assert kubectl("delete", "pod", "p1") == 'pod "p1" deleted from default namespace\n'


def test_patches_of_all_styles_work(kubectl: Kubectl) -> None:
    kubectl("create", "configmap", "cm", "--from-literal=a=1")
    kubectl("patch", "cm", "cm", "-p", '{"data": {"b": "2"}}')
    kubectl("patch", "cm", "cm", "--type=merge", "-p", '{"data": {"a": null}}')
    kubectl("patch", "cm", "cm", "--type=json", "-p", '[{"op":"add","path":"/data/c","value":"3"}]')
    assert json.loads(kubectl("get", "cm", "cm", "-o", "json"))["data"] == {"b": "2", "c": "3"}
    kubectl("delete", "cm", "cm")


def test_replicas_are_scaled(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=WEB)
    assert kubectl("scale", "sts", "web", "--replicas=7") == "statefulset.apps/web scaled\n"
    assert kubectl.table("sts")[1][1] == "0/7"
    kubectl("delete", "sts", "web")


def test_a_watch_prints_what_happens(kubectl: Kubectl) -> None:
    kubectl("create", "configmap", "first")
    with kubectl.started("get", "cm", "-w", "--no-headers") as watching:
        assert watching.stdout is not None
        assert watching.stdout.readline().split()[0] == "first"
        kubectl("create", "configmap", "second")
        assert watching.stdout.readline().split()[0] == "second"
        kubectl("delete", "cm", "first", "second")
        assert [watching.stdout.readline().split()[0] for _ in range(2)] == ["first", "second"]
        watching.terminate()


def test_a_kind_of_ones_own_is_served_with_its_columns(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=WIDGETS)
    kubectl("wait", "--for=condition=Established", "crd/widgets.example.com", "--timeout=20s")
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", "spec": {"size": 3}}
    kubectl.apply({**widget, "metadata": {"name": "one", "namespace": "default"}})
    assert kubectl.table("wd") == [["NAME", "SIZE"], ["one", "3"]]
    kubectl("delete", "crd", "widgets.example.com")


def test_events_are_shown_with_what_they_are_about(kubectl: Kubectl) -> None:
    kubectl.apply(manifests.pod("p2", namespace="default"))
    uid = kubectl("get", "pod", "p2", "-o", "jsonpath={.metadata.uid}")
    about = {"kind": "Pod", "name": "p2", "namespace": "default", "uid": uid, "apiVersion": "v1"}
    event = {
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "p2.1", "namespace": "default"},
        "involvedObject": about, "reason": "TriggeredScaleUp", "message": "bought a node",
        "type": "Normal",
    }  # fmt: skip
    kubectl("create", "-f", "-", stdin=json.dumps(event))
    assert "bought a node" in kubectl("describe", "pod", "p2")
    assert "pod/p2" in kubectl("get", "events")
    kubectl("delete", "pod/p2", "event/p2.1")


def test_a_node_is_drained(kubectl: Kubectl) -> None:
    kubectl.apply(manifests.node("n2"), manifests.pod("p3", namespace="default", nodeName="n2"))
    # Nobody ends the pod here, so draining is over when its deletion is asked for.
    with pytest.raises(KubectlError, match="to terminate"):
        kubectl("drain", "n2", "--force", "--timeout=5s")
    assert kubectl.table("pods", "p3")[1][2] == "Terminating"
    kubectl("delete", "pod", "p3", "--grace-period=0", "--force")
    kubectl("delete", "node", "n2")


def test_a_namespace_is_deleted_with_what_is_in_it(kubectl: Kubectl) -> None:
    kubectl("create", "namespace", "inner")
    kubectl("create", "configmap", "cm", "-n", "inner")
    kubectl("delete", "namespace", "inner")
    assert kubectl("get", "cm", "-n", "inner", "-o", "name") == ""


def test_logs_are_refused_with_a_reason(kubectl: Kubectl) -> None:
    kubectl.apply(manifests.pod("silent", namespace="default"))
    with pytest.raises(KubectlError, match="no containers run in the embedded cluster"):
        kubectl("logs", "silent")
    kubectl("delete", "pod", "silent")


def test_what_is_not_there_is_told(kubectl: Kubectl) -> None:
    with pytest.raises(KubectlError, match='pods "absent" not found'):
        kubectl("get", "pod", "absent")
    with pytest.raises(KubectlError, match="doesn't have a resource type"):
        kubectl("get", "nonsense")


def test_workloads_are_created_by_a_command(kubectl: Kubectl) -> None:
    kubectl("create", "deployment", "web", "--image", "example:1", "--replicas", "3")
    kubectl("create", "job", "once", "--image", "example:1")
    kubectl("create", "cronjob", "nightly", "--image", "example:1", "--schedule", "0 1 * * *")
    kubectl("set", "image", "deployment/web", "example=example:2")
    found = kubectl("get", "deployment,job,cronjob", "--output", "name").split()
    assert found == ["deployment.apps/web", "job.batch/once", "cronjob.batch/nightly"]
    wide = kubectl("get", "deployment", "web", "--output", "jsonpath={.spec.replicas}")
    assert wide == "3"


def test_everybody_may_do_everything(kubectl: Kubectl) -> None:
    assert kubectl("auth", "can-i", "create", "pods").strip() == "yes"
    assert "anybody" in kubectl("auth", "whoami")
