"""The chart as Helm renders it, on a real control plane: every component under its account alone.

There is nobody here to run containers, so workloads are not applied: their programs are started
with the arguments, the settings and the account that the chart gives them.
"""

import json
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.chart import helm
from tests.e2e import deployed, manifests, metrics
from tests.e2e.controlplane import ControlPlane, free_ports, wait_until
from tests.e2e.processes import Program, Watchdog
from tests.e2e.workspace import Workspace

pytestmark = helm.required("helm")

RELEASE = "chart"
NAMESPACE = "chart-system"
"""Of its own: lease and state of other tests are in the usual one."""
AGENTS = "chart-agents"
GROUP = {
    "apiVersion": "tonnage.dev/v1alpha1",
    "kind": "NodeGroup",
    "metadata": {"name": "chart-group"},
    "spec": {
        "maxSize": 3,
        "template": {
            "node": {
                "metadata": {"labels": {"chart": "group"}},
                "status": {
                    "capacity": {"cpu": "4", "memory": "8Gi", "pods": "20"},
                    "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "20"},
                },
            }
        },
    },
}
VALUES: dict[str, Any] = {
    "autoscaler": {
        "provider": "kwok",
        "nodeGroups": [GROUP],
        "config": {"scaleDownEnabled": True, "removeStartupTaints": True},
    },
    "scheduler": {"enabled": True, "schedulerName": "chart"},
    "extender": {"enabled": True},
    "capacityTemplates": {"enabled": True},
    "nodeAgent": {"enabled": True, "namespace": AGENTS},
    "networkPolicy": {"enabled": True},
    "metrics": {"dashboard": {"enabled": True}},
}
_TONNAGE = str(Path(sys.executable).with_name("tonnage"))


class Component:
    """A program of the chart, under the account that its pods have."""

    def __init__(self, program: Program, port: int, tls: ssl.SSLContext | None) -> None:
        self.program = program
        scheme = "http" if tls is None else "https"
        self._url = f"{scheme}://127.0.0.1:{port}"
        self._opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}),
            *([urllib.request.HTTPSHandler(context=tls)] if tls is not None else []),
        )

    def read(self, path: str) -> str:
        try:
            with self._opener.open(self._url + path, timeout=10.0) as answer:
                return str(answer.read().decode())
        except OSError:
            return ""

    def wait_ready(self) -> None:
        wait_until(
            lambda: bool(self.read("/readyz")),
            what=f"{self.program.name} is ready",
            late=lambda: self.program.last_words() + self.read("/readyz?verbose"),
        )

    def missing_rights(self) -> list[str]:
        """What it was refused, by its metrics and its log."""
        told = [
            line
            for line in self.read("/metrics").splitlines()
            if line.startswith("tonnage_cache_forbidden") and not line.endswith(" 0.0")
        ]
        log = self.program.log.read_text()
        return told + [line for line in log.splitlines() if "forbidden" in line.lower()]

    @property
    def megabytes(self) -> float:
        (line,) = [
            line
            for line in Path(f"/proc/{self.program.pid}/status").read_text().splitlines()
            if line.startswith("VmRSS:")
        ]
        return int(line.split()[1]) / 1024


@pytest.fixture
def components(
    work: Workspace, watchdog: Watchdog, tmp_path: Path
) -> Iterator[dict[str, Component]]:
    """All of them, running and ready."""
    cluster = work.cluster
    rendered = helm.render(VALUES, release=RELEASE, namespace=NAMESPACE)
    runs = ("Deployment", "DaemonSet", "Pod")
    shipped = [one for one in rendered if one["kind"] not in runs]
    _install(cluster, rendered, shipped)
    node = f"{work.namespace}-agent"
    work.create(manifests.node(node, labels={"kubernetes.io/os": "linux"}), manifests.csinode(node))
    made: dict[str, Component] = {}
    try:
        for workload in rendered:
            if workload["kind"] in ("Deployment", "DaemonSet"):
                one = _component(workload, rendered, cluster, watchdog, tmp_path, node=node)
                made[one.program.name] = one
                one.program.start()
        for one in made.values():
            one.wait_ready()
        yield made
    finally:
        for one in made.values():
            one.program.kill()
        cluster.kubectl(
            "delete", "--ignore-not-found", "--wait=false", "-f", "-",
            stdin=yaml.safe_dump_all(shipped),
        )  # fmt: skip
        cluster.kubectl("delete", "nodes", "-l", "chart=group", "--ignore-not-found")
        cluster.kubectl("delete", "namespace", NAMESPACE, "--wait=false")


def _install(
    cluster: ControlPlane, rendered: list[dict[str, Any]], shipped: list[dict[str, Any]]
) -> None:
    """Everything but workloads; when it returns, every account has the rights of its roles."""
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all([namespace, *shipped]))
    for workload in rendered:
        if workload["kind"] in ("Deployment", "DaemonSet"):
            account = workload["spec"]["template"]["spec"]["serviceAccountName"]
            deployed.wait_for_rights(
                cluster,
                [one for one in shipped if one["metadata"]["name"] == account],
                account=account,
                namespace=workload["metadata"]["namespace"],
            )


def _component(
    workload: dict[str, Any],
    rendered: list[dict[str, Any]],
    cluster: ControlPlane,
    watchdog: Watchdog,
    directory: Path,
    *,
    node: str,
) -> Component:
    (port,) = free_ports(1)
    pods = workload["spec"]["template"]["spec"]
    (container,) = pods["containers"]
    command, namespace = container["args"][0], workload["metadata"]["namespace"]
    account = pods["serviceAccountName"]
    arguments = dict(argument.partition("=")[::2] for argument in map(str, container["args"][1:]))
    for volume in pods["volumes"]:
        if "configMap" in volume:
            found = helm.only(rendered, "ConfigMap", volume["configMap"]["name"])
            settings = directory / f"{command}.yaml"
            settings.write_text(found["data"]["config.yaml"])
            arguments["--config"] = str(settings)
    kubeconfig = cluster.kubeconfig_of_account(account, namespace=namespace)
    arguments |= {"--kubeconfig": str(kubeconfig), "--address": f"127.0.0.1:{port}"}
    if "--debug-address" in arguments:
        arguments["--debug-address"] = "127.0.0.1:0"
    tls = None
    if command == "extender":
        certificate, key = cluster.certificate
        arguments |= {
            "--tls-cert-file": str(certificate),
            "--tls-private-key-file": str(key),
            "--client-ca-file": str(cluster.authority),
        }
        tls = ssl.create_default_context(cafile=cluster.authority)
        tls.load_cert_chain(*cluster.client_certificate("system:kube-scheduler"))
    if command == "node-agent":
        for name in ("plugins_registry", "plugins", "host/sys", "host/proc"):
            (directory / name).mkdir(parents=True, exist_ok=True)
        arguments |= {
            "--kubeconfig": str(_bound_to(node, kubeconfig, cluster, directory, account)),
            "--kubelet-dir": str(directory),
            "--host-root": str(directory / "host"),
        }
    program = Program(
        command,
        [_TONNAGE, command, *(f"{name}={value}" for name, value in arguments.items())],
        log=directory / f"{command}.log",
        environ={"PATH": "/usr/bin:/bin", "HOME": str(directory), "NODE_NAME": node},
        watchdog=watchdog,
    )
    return Component(program, port, tls)


def _bound_to(
    node: str, kubeconfig: Path, cluster: ControlPlane, directory: Path, account: str
) -> Path:
    """The same with a token as the kubelet of the node gives it to a pod there."""
    pod = manifests.pod(node, namespace=AGENTS, nodeName=node)
    pod["spec"]["serviceAccountName"] = account
    cluster.create(pod)
    token = cluster.kubectl(
        *("create", "token", account, "-n", AGENTS),
        *("--bound-object-kind=Pod", f"--bound-object-name={node}"),
    )
    config = json.loads(kubeconfig.read_text())
    config["users"][0]["user"] = {"token": token.strip()}
    path = directory / "agent-kubeconfig"
    path.write_text(json.dumps(config))
    return path


def doctor(cluster: ControlPlane) -> tuple[int, list[str]]:
    """What the test of the release would end with, and what it says it may not see."""
    kubeconfig = cluster.kubeconfig_of_account("chart-tonnage-doctor", namespace=NAMESPACE)
    told = subprocess.run(
        [_TONNAGE, "doctor", "--fail-on=never", f"--kubeconfig={kubeconfig}"],
        capture_output=True,
        text=True,
    )
    return told.returncode, [line for line in told.stderr.splitlines() if "not allowed" in line]


def bought(work: Workspace) -> list[str]:
    listed = work.cluster.kubectl("get", "nodes", "-l", "chart=group", "-o", "name")
    return [one.removeprefix("node/") for one in listed.split()]


def test_every_component_runs_under_exactly_the_rights_of_the_chart(
    components: dict[str, Component], work: Workspace, figure: Callable[[str], None]
) -> None:
    assert set(components) == {
        "run", "scheduler", "extender", "capacity-templates", "node-agent",
    }  # fmt: skip
    # Bought by the autoscaler, then bound by the scheduler: both have written what they write.
    pod = manifests.pod("waits", namespace=work.namespace, schedulerName="chart")
    pod["spec"] |= {"nodeSelector": {"chart": "group"}, "tolerations": [{"operator": "Exists"}]}
    work.create(pod)
    wait_until(
        lambda: bool(bought(work)),
        what="a node is bought",
        late=components["run"].program.last_words,
    )
    (name,) = bought(work)
    wait_until(
        lambda: work.node_of("waits") == name,
        what="the pod is bound",
        late=components["scheduler"].program.last_words,
    )
    assert work.events("waits", reason="TriggeredScaleUp")
    for component in components.values():
        assert component.missing_rights() == []
        assert metrics.known(component.read("/metrics"), "Node") > 0
    assert doctor(work.cluster) == (0, [])
    sizes = ", ".join(f"{name} {one.megabytes:.0f} MB" for name, one in sorted(components.items()))
    figure(f"chart: resident memory in an almost empty cluster: {sizes}")
