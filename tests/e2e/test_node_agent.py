"""The node agent on a real API server: a real driver, the shipped rights, a made-up machine."""

import json
import re
import ssl
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e import deployed, manifests
from tests.e2e.connections import connected
from tests.e2e.controlplane import (
    NO_KUBELET,
    REPOSITORY,
    ControlPlane,
    KubectlError,
    wait_until,
)
from tests.e2e.workspace import Workspace
from tests.nodeagent.csidriver import CsiDriver
from tests.nodeagent.hosts import FakeHost, ec2
from tonnage.cluster import errors
from tonnage.objects import limit_keys
from tonnage.objects.nodes import Node

NAMESPACE = ACCOUNT = "tonnage-node-agent"
EBS = "ebs.csi.aws.com"
KEY = "attachable-volumes-csi-ebs.csi.aws.com"
ANNOTATION = "tonnage.dev/attach-limits"
MOST_MEMORY = 90 * 1000**2
LAST_WRITTEN = "node.alpha.kubernetes.io/ttl"
"""An annotation that a controller puts on every new node."""
ONLY_LIMITS = "may only change attach limits"

_TONNAGE = str(Path(sys.executable).with_name("tonnage"))
_QUICK = {
    "apiVersion": "tonnage.dev/v1alpha1",
    "kind": "NodeAgentConfig",
    "pollInterval": "1s",
    "driverTimeout": "30s",
    "driverAttempts": 1,
    "settleLower": 0,
    "settleHigher": 0,
}


class Stage:
    """A node of the cluster with a machine behind it, and a pod of the agent on it."""

    def __init__(self, work: Workspace, kubelet_dir: Path, machine: FakeHost) -> None:
        self.work = work
        self.cluster = work.cluster
        self.kubelet_dir = kubelet_dir
        self.machine = machine
        self.name = f"{work.namespace}-node"
        self.config = kubelet_dir / "agent.yaml"
        self.configure()
        labels = {"node.kubernetes.io/instance-type": "m5.large"}
        work.create(
            manifests.node(self.name, labels=labels), manifests.csinode(self.name, {EBS: 26})
        )
        pod = manifests.pod(self.name, namespace=NAMESPACE, nodeName=self.name)
        pod["spec"]["serviceAccountName"] = ACCOUNT
        self.cluster.create(pod)
        self.kubeconfig = self._kubeconfig()

    def configure(self, **settings: object) -> None:
        self.config.write_text(yaml.safe_dump(_QUICK | settings))

    @contextmanager
    def agent(self) -> Iterator[subprocess.Popen[bytes]]:
        log = self.kubelet_dir / "agent.log"
        with log.open("ab") as file:
            process = subprocess.Popen(
                [_TONNAGE, *self.arguments(), "--address=127.0.0.1:0"], stdout=file, stderr=file
            )
        try:
            yield process
            assert process.poll() is None, log.read_text()
        finally:
            process.terminate()
            process.wait()

    def once(self, *arguments: str) -> dict[str, Any]:
        run = subprocess.run(
            [_TONNAGE, *self.arguments(), "--once", *arguments],
            capture_output=True,
            text=True,
            check=True,
        )
        found: dict[str, Any] = json.loads(run.stdout)
        return found

    def arguments(self) -> list[str]:
        return [
            "node-agent",
            f"--node-name={self.name}",
            f"--config={self.config}",
            f"--kubeconfig={self.kubeconfig}",
            f"--kubelet-dir={self.kubelet_dir}",
            f"--host-root={self.machine.root}",
        ]

    @property
    def published(self) -> dict[str, str]:
        status = self.cluster.get("node", self.name)["status"]
        found = [
            {key: value for key, value in status[part].items() if key.startswith("attachable-")}
            for part in ("capacity", "allocatable")
        ]
        return found[0] if found[0] == found[1] else {}

    @property
    def provenance(self) -> dict[str, Any]:
        meta = self.cluster.get("node", self.name)["metadata"]
        found: dict[str, Any] = json.loads(meta.get("annotations", {}).get(ANNOTATION, "{}"))
        return found

    @property
    def csinode_count(self) -> int | None:
        (driver,) = self.cluster.get("csinode", self.name)["spec"]["drivers"]
        count: int | None = driver.get("allocatable", {}).get("count")
        return count

    def until_published(self, limits: dict[str, str]) -> None:
        wait_until(
            lambda: self.published == limits,
            what=f"{limits} is published",
            late=lambda: f"{self.published}\n{(self.kubelet_dir / 'agent.log').read_text()}",
        )

    def logged(self, words: str) -> int:
        """How often it has said this."""
        return (self.kubelet_dir / "agent.log").read_text().count(words)

    def until_logged(self, words: str, *, more_than: int = 0) -> None:
        wait_until(
            lambda: self.logged(words) > more_than,
            what=f"it says {words!r}",
            late=(self.kubelet_dir / "agent.log").read_text,
        )

    def events(self, reason: str) -> list[str]:
        chosen = f"involvedObject.name={self.name},reason={reason}"
        listed = self.cluster.kubectl(
            "get", "events", "-n", "default", "--field-selector", chosen, "-o", "json"
        )
        return [str(event["message"]) for event in json.loads(listed)["items"]]

    def attach(self, volume: str, **status: object) -> None:
        name = f"{self.name}-{volume}"
        self.work.create(
            {
                "apiVersion": "storage.k8s.io/v1",
                "kind": "VolumeAttachment",
                "metadata": {"name": name},
                "spec": {
                    "attacher": EBS,
                    "nodeName": self.name,
                    "source": {"persistentVolumeName": volume},
                },
            }
        )
        patch = json.dumps({"status": status})
        self.cluster.kubectl(
            *("patch", "volumeattachment", name, "--subresource=status", "--type=merge"),
            *("-p", patch),
        )

    def _kubeconfig(self) -> Path:
        """Of the account, with a token as the kubelet gives it to the pod: it names the node."""
        plain = self.cluster.kubeconfig_of_account(ACCOUNT, namespace=NAMESPACE)
        token = self.cluster.kubectl(
            *("create", "token", ACCOUNT, "-n", NAMESPACE),
            *("--bound-object-kind=Pod", f"--bound-object-name={self.name}"),
        )
        config = json.loads(plain.read_text())
        config["users"][0]["user"] = {"token": token.strip()}
        path = self.kubelet_dir / "kubeconfig"
        path.write_text(json.dumps(config))
        return path


@pytest.fixture
def stage(work: Workspace, tmp_path: Path) -> Iterator[Stage]:
    _install(work.cluster)
    with tempfile.TemporaryDirectory(prefix="k-") as name:
        made = Stage(work, Path(name), ec2(tmp_path / "host", interfaces=2))
        try:
            yield made
        finally:
            work.cluster.kubectl("delete", "pod", made.name, "-n", NAMESPACE, *NO_KUBELET)


def _install(cluster: ControlPlane) -> None:
    """What is shipped, but for the DaemonSet: nobody here runs containers."""
    rendered = cluster.kubectl("kustomize", str(REPOSITORY / "deploy" / "node-agent"))
    shipped = [one for one in yaml.safe_load_all(rendered) if one and one["kind"] != "DaemonSet"]
    deployed.install(cluster, shipped, account=ACCOUNT, namespace=NAMESPACE)
    wait_until(lambda: _has_account(cluster), what="the account of the agent exists")


def _has_account(cluster: ControlPlane) -> bool:
    try:
        cluster.get("serviceaccount", ACCOUNT, namespace=NAMESPACE)
        # Pods are refused until the namespace has this one too.
        cluster.get("serviceaccount", "default", namespace=NAMESPACE)
    except KubectlError:
        return False
    return True


def test_key_count_and_provenance_are_published(stage: Stage) -> None:
    with CsiDriver(stage.kubelet_dir, EBS, limit=26), stage.agent():
        stage.until_published({KEY: "25"})
    assert stage.provenance == {
        EBS: {
            "key": KEY,
            "count": 25,
            "source": "catalogue",
            "reason": "m5.large: 28 shared slots - 1 root disk - 2 ENIs - 0 local NVMe"
            " - 0 reserved = 25",
            "memory": {"answered": 26, "believed": 26, "held": 2},
        }
    }


def test_it_is_small_and_without_numpy_and_writes_once(stage: Stage) -> None:
    with CsiDriver(stage.kubelet_dir, EBS, limit=25), stage.agent() as process:
        stage.until_published({KEY: "25"})
        wait_until(
            lambda: (
                LAST_WRITTEN in stage.cluster.get("node", stage.name)["metadata"]["annotations"]
            ),
            what="nobody else has anything to write to the new node",
        )
        version = stage.cluster.get("node", stage.name)["metadata"]["resourceVersion"]
        wait_until(lambda: bool(stage.events("AttachLimitDrift")), what="drift is told")
        status = Path(f"/proc/{process.pid}/status").read_text()
        mapped = Path(f"/proc/{process.pid}/maps").read_text()
        assert stage.cluster.get("node", stage.name)["metadata"]["resourceVersion"] == version
    resident = re.search(r"^VmRSS:\s+(\d+) kB$", status, re.MULTILINE)
    assert resident is not None
    assert int(resident[1]) * 1024 < MOST_MEMORY
    assert "numpy" not in mapped


def test_drift_between_driver_and_kubelet_is_an_event(stage: Stage) -> None:
    with CsiDriver(stage.kubelet_dir, EBS, limit=25), stage.agent():
        stage.until_published({KEY: "25"})
        wait_until(lambda: bool(stage.events("AttachLimitDrift")), what="drift is told")
        assert stage.events("AttachLimitDrift") == [f"{EBS}: the CSINode says 26, 25 is right"]


@pytest.mark.patience(600)
def test_a_driver_that_changes_hangs_fails_and_restarts(stage: Stage) -> None:
    stage.configure(driverTimeout="2s")
    with CsiDriver(stage.kubelet_dir, EBS, limit=25) as driver, stage.agent():
        stage.until_published({KEY: "25"})
        driver.tell(limit=24)
        stage.until_published({KEY: "24"})
        for behave, words in (("hang", "no answer within"), ("error", "INTERNAL")):
            before = stage.logged(words)
            driver.tell(behave=behave)
            stage.until_logged(words, more_than=before)
            assert stage.published == {KEY: "24"}
        driver.stop()
        stage.until_logged("driver gone")
        assert stage.published == {KEY: "24"}
        driver.tell(behave="well", limit=23)
        driver.start()
        stage.until_published({KEY: "23"})


def test_a_driver_with_a_name_of_200_characters_has_a_hashed_key(stage: Stage) -> None:
    name = "x" * 188 + ".example.com"
    with CsiDriver(stage.kubelet_dir, name, limit=7):
        stage.once()
    assert stage.published == {limit_keys.key_for(name): "7"}
    assert stage.provenance[name]["count"] == 7


def test_a_refused_attach_lowers_the_limit(stage: Stage) -> None:
    for number in range(3):
        stage.attach(f"v{number}", attached=True)
    with CsiDriver(stage.kubelet_dir, EBS, limit=25), stage.agent():
        stage.until_published({KEY: "25"})
        error = {"time": "2030-01-01T00:00:00Z", "message": "no room", "errorCode": 8}
        stage.attach("v3", attached=False, attachError=error)
        stage.until_published({KEY: "3"})
    assert stage.provenance[EBS]["source"] == "measured"


def test_a_restart_among_volumes_of_pods_shrinks_nothing(stage: Stage) -> None:
    for number in range(5):
        stage.attach(f"v{number}", attached=True)
    with CsiDriver(stage.kubelet_dir, EBS, limit=25) as driver:
        stage.once()
        driver.tell(limit=20)
        driver.restart()
        assert stage.once()["limits"][0]["count"] == 25
    assert stage.published == {KEY: "25"}


def test_the_count_of_the_csinode_is_set_on_request_and_put_back(stage: Stage) -> None:
    stage.configure(writeCSINode=True)
    with CsiDriver(stage.kubelet_dir, EBS, limit=26):
        stage.once()
    assert stage.csinode_count == 25
    assert stage.cluster.get("csinode", stage.name)["spec"]["drivers"][0]["nodeID"] == stage.name
    _uninstall(stage)
    assert stage.csinode_count == 26


def test_uninstall_removes_what_was_published(stage: Stage) -> None:
    with CsiDriver(stage.kubelet_dir, EBS, limit=25):
        stage.once()
    assert _uninstall(stage) == f"{stage.name}: removed {KEY}\n"
    node = stage.cluster.get("node", stage.name)
    assert KEY not in node["status"]["capacity"]
    assert KEY not in node["status"]["allocatable"]
    assert ANNOTATION not in node["metadata"].get("annotations", {})


def _uninstall(stage: Stage) -> str:
    """By whoever administers the cluster: the agent itself may not touch other nodes."""
    options = [f"--node-name={stage.name}", f"--kubeconfig={stage.cluster.kubeconfig()}"]
    command = [_TONNAGE, "node-agent", "uninstall", *options]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


async def _patch(stage: Stage, node: str, status: dict[str, object]) -> None:
    """As the agent; kubectl would read the node first, which it may not."""
    async with connected(stage.kubeconfig) as client:
        await client.patch(Node, node, {"status": status}, subresource="status")


@pytest.fixture
def guarded(stage: Stage) -> Stage:
    """The policy is in force: a server hears of a new one a second or two later."""
    wait_until(lambda: ONLY_LIMITS in _tried(stage), what="the policy is in force")
    return stage


def _tried(stage: Stage) -> str:
    """What the server would say if the agent changed something else than limits; nothing is."""
    token = json.loads(stage.kubeconfig.read_text())["users"][0]["user"]["token"]
    request = urllib.request.Request(
        f"{stage.cluster.server}/api/v1/nodes/{stage.name}/status?dryRun=All",
        data=json.dumps({"status": {"capacity": {"cpu": "64"}}}).encode(),
        headers={
            "Authorization": f"Bearer {token}",
            "Content-Type": "application/merge-patch+json",
        },
        method="PATCH",
    )
    context = ssl.create_default_context(cafile=stage.cluster.authority)
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
    )
    try:
        with opener.open(request, timeout=30.0) as answer:
            return str(answer.read().decode())
    except urllib.error.HTTPError as error:
        return str(error.read().decode())


async def test_an_agent_may_not_write_to_other_nodes(guarded: Stage) -> None:
    stage = guarded
    other = f"{stage.name}-2"
    stage.work.create(manifests.node(other))
    with pytest.raises(errors.ApiError, match="may only write to the node it runs on"):
        await _patch(stage, other, {"capacity": {KEY: "1"}})
    await _patch(stage, stage.name, {"capacity": {KEY: "1"}})


@pytest.mark.parametrize(
    "status",
    [
        {"capacity": {"cpu": "64"}},
        {"capacity": {"cpu": None}},
        {"allocatable": {"example.com/gpu": "8"}},
        {"conditions": []},
        {"addresses": [{"type": "InternalIP", "address": "10.0.0.1"}]},
    ],
    ids=["more cpu", "no cpu", "devices", "conditions", "addresses"],
)
async def test_an_agent_may_change_nothing_of_its_node_but_limits(
    guarded: Stage, status: dict[str, object]
) -> None:
    with pytest.raises(errors.ApiError, match=ONLY_LIMITS):
        await _patch(guarded, guarded.name, status)
