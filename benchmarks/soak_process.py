"""Programs of a soak: the embedded API with a large cluster in its file, and the autoscaler.

Both are the commands that people start, as processes of their own that can be killed and started
again, or stopped for a while with their connections open. The autoscaler's clock and provider can
be disturbed (`soak_faults`).
"""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from benchmarks import soak_faults
from benchmarks.clusters import LargeCluster, items_of
from benchmarks.soak_faults import Faults
from benchmarks.workloads import EBS, ZONE
from tonnage.objects import kinds
from tonnage.objects.kinds import Kind
from tonnage.providers.kwok_objects import GROUP_LABEL

FRESH = "fresh"
"""The group that churn buys from and gives back to; it begins without a node."""

_TONNAGE = Path(sys.executable).with_name("tonnage")
_PATIENCE = 1800.0
"""Seconds until a program answers; past it something is broken, not slow."""
_FORMAT = "tonnage embedded cluster, format 1"
_TICKS = os.sysconf("SC_CLK_TCK")
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class SoakProcess:
    """A command that can be killed, revived and held up; its log is in a file."""

    def __init__(self, name: str, command: Sequence[str], *, directory: Path, probe: str) -> None:
        self._command = command
        self._log = directory / f"{name}.log"
        self._probe = probe
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> float:
        """Seconds until it answers its probe."""
        began = time.monotonic()
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)
        while not answers(self._probe):
            if self._process.poll() is not None or time.monotonic() - began > _PATIENCE:
                end = self._log.read_text(errors="replace")[-2000:]
                raise RuntimeError(f"{' '.join(self._command)} does not answer:\n{end}")
            time.sleep(0.05)
        return time.monotonic() - began

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    @contextmanager
    def held_up(self) -> Iterator[None]:
        """Stopped, with its connections open: it neither answers nor refuses."""
        self._running.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._running.send_signal(signal.SIGCONT)

    @property
    def processor(self) -> float:
        """Seconds of processor that it has used since it was started."""
        # After the name, which may hold anything and ends with the last parenthesis.
        fields = Path(f"/proc/{self._running.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    @property
    def resident(self) -> int:
        """Bytes that it has in memory now."""
        return resident(self._running.pid)

    @property
    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise RuntimeError(f"{' '.join(self._command)} is not running")
        return self._process


def embedded_api(cluster: LargeCluster, directory: Path) -> tuple[SoakProcess, str, Path]:
    """The API server with the cluster in its file, its URL and a kubeconfig."""
    data, kubeconfig, port = directory / "cluster.jsonl", directory / "kubeconfig", free_port()
    write_data(cluster, data)
    url = f"http://127.0.0.1:{port}"
    arguments = [f"--port={port}", f"--data={data}", f"--kubeconfig={kubeconfig}", "--no-token"]
    api = SoakProcess(
        "embedded",
        [str(_TONNAGE), "embedded", *arguments],
        directory=directory,
        probe=f"{url}/version",
    )
    return api, url, kubeconfig


class SoakedAutoscaler(SoakProcess):
    """`tonnage run` with the provider of nodes without machines, its metrics and its faults."""

    def __init__(
        self,
        cluster: LargeCluster,
        directory: Path,
        kubeconfig: Path,
        settings: Mapping[str, object],
    ) -> None:
        groups, config = directory / "groups.json", directory / "config.json"
        items = list(node_groups(cluster))
        groups.write_bytes(msgspec.json.encode({"kind": "List", "items": items}))
        config.write_bytes(msgspec.json.encode(settings))
        self._faults = directory / "faults.json"
        self.suffer(soak_faults.NONE)
        self._url = f"http://127.0.0.1:{free_port()}"
        program = [sys.executable, "-m", "benchmarks.soak_faults", str(self._faults), "run"]
        options = ["--provider=kwok", f"--node-groups={groups}", f"--config={config}"]
        reached = [f"--kubeconfig={kubeconfig}", f"--address={self._url.removeprefix('http://')}"]
        super().__init__(
            "run", [*program, *options, *reached], directory=directory, probe=f"{self._url}/readyz"
        )

    def suffer(self, faults: Faults) -> None:
        """From now on."""
        soak_faults.write(self._faults, faults)

    def metrics(self) -> dict[str, float]:
        """Samples by name and labels, as they are printed."""
        with _OPENER.open(f"{self._url}/metrics", timeout=60) as response:
            lines = response.read().decode().splitlines()
        return {
            name: float(value)
            for name, _, value in (line.rpartition(" ") for line in lines if line[:1] != "#")
        }


def node_groups(cluster: LargeCluster) -> Iterator[dict[str, object]]:
    """A group for each pool and zone that stays as it is, and the one that churn uses."""
    sizes: dict[str, int] = {}
    for node in cluster.nodes:
        group = f"{node.pool.name}-{node.zone}"
        sizes[group] = sizes.get(group, 0) + 1
    for name, size in sorted(sizes.items()):
        yield _group(name, {"minSize": size, "maxSize": size, "targetSize": size})
    amounts = {"cpu": "16", "memory": "64Gi", "pods": "110"}
    template_node = {
        "metadata": {"labels": {"pool": FRESH, ZONE: "eu-1a"}},
        "status": {"capacity": amounts, "allocatable": amounts},
    }
    driver = {"name": EBS, "nodeID": "template", "allocatable": {"count": 24}}
    template = {"node": template_node, "csiNode": {"spec": {"drivers": [driver]}}}
    yield _group(FRESH, {"minSize": 0, "maxSize": 1000, "template": template})


def _group(name: str, spec: dict[str, object]) -> dict[str, object]:
    return {
        "apiVersion": "tonnage.dev/v1alpha1",
        "kind": "NodeGroup",
        "metadata": {"name": name},
        "spec": spec,
    }


def write_data(cluster: LargeCluster, path: Path) -> None:
    """The cluster as the file of an embedded API: nodes belong to the groups above.

    The controllers of pods are there too: a pod whose owner is not would be deleted as soon as
    anything about it changes.
    """
    groups = {node.name: f"{node.pool.name}-{node.zone}" for node in cluster.nodes}
    replicas = Counter[tuple[str, ...]]()
    with path.open("wb") as file:
        file.write(msgspec.json.encode({"format": _FORMAT, "version": 1}) + b"\n")
        version = 1
        for page in cluster.pages():
            for item in items_of(page):
                version += 1
                obj = msgspec.json.decode(item)
                meta = obj["metadata"]
                if page.kind.kind == "Node":
                    meta.setdefault("labels", {})[GROUP_LABEL] = groups[meta["name"]]
                for one in meta.get("ownerReferences", ()):
                    owner = one["apiVersion"], one["kind"], meta["namespace"], one["name"]
                    replicas[(*owner, one["uid"])] += 1
                file.write(_line(page.kind, obj, version) + b"\n")
        for (api_version, name, *identity), count in replicas.items():
            version += 1
            kind = kinds.by_kind(api_version, name)
            assert kind is not None
            file.write(_line(kind, _controller(*identity, replicas=count), version) + b"\n")


def _controller(namespace: str, name: str, uid: str, *, replicas: int) -> dict[str, Any]:
    """Nothing of it runs on nodes that churn buys, not even if it is a DaemonSet."""
    elsewhere = {"key": "pool", "operator": "NotIn", "values": [FRESH]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [elsewhere]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    labels = {"controller": name}
    template = {
        "metadata": {"labels": labels},
        "spec": {
            "affinity": {"nodeAffinity": required},
            "containers": [{"name": "main", "image": "soak"}],
        },
    }
    return {
        "metadata": {"namespace": namespace, "name": name, "uid": uid},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": template,
        },
    }


def _line(kind: Kind, obj: dict[str, Any], version: int) -> bytes:
    meta = obj["metadata"]
    meta["resourceVersion"] = str(version)
    meta.setdefault("uid", f"{kind.plural}-{version}")
    key = (kind.group, kind.version, kind.plural, meta.get("namespace", ""), meta["name"])
    return msgspec.json.encode(
        {
            "version": version,
            "key": key,
            "object": {"apiVersion": kind.api_version, "kind": kind.kind, **obj},
        }
    )


def resident(pid: int) -> int:
    """Bytes that a process has in memory now."""
    pages = Path(f"/proc/{pid}/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def answers(url: str) -> bool:
    try:
        with _OPENER.open(url, timeout=10) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False
