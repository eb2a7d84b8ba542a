"""An agent on a made-up machine, with a real driver beside it and an API server in between."""

import asyncio
import itertools
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from tests.cluster.apiserver import ApiServer, Json, until
from tonnage.clock import Clock
from tonnage.nodeagent.config import NodeAgentConfig, NodeAgentSettings
from tonnage.nodeagent.program import NodeAgentProgram
from tonnage.nodeagent.provenance import ProvenanceEntry, decode
from tonnage.service.config_file import ConfigFile

EBS = "ebs.csi.aws.com"
KEY = "attachable-volumes-csi-ebs.csi.aws.com"
NODES = "/api/v1/nodes"
CSINODES = "/apis/storage.k8s.io/v1/csinodes"
CSIDRIVERS = "/apis/storage.k8s.io/v1/csidrivers"
ATTACHMENTS = "/apis/storage.k8s.io/v1/volumeattachments"
EVENTS = "/api/v1/namespaces/default/events"
NODE = "n1"


def node(name: str = NODE, *, kind: str = "m5.large") -> Json:
    resources = {"cpu": "2", "memory": "8Gi"}
    return {
        "metadata": {"name": name, "labels": {"node.kubernetes.io/instance-type": kind}},
        "spec": {},
        "status": {"capacity": dict(resources), "allocatable": dict(resources)},
    }


def attachment(
    volume: str, *, node: str = NODE, attached: bool = True, error: Json | None = None
) -> Json:
    return {
        "metadata": {"name": f"csi-{volume}"},
        "spec": {
            "attacher": EBS,
            "nodeName": node,
            "source": {"persistentVolumeName": volume},
        },
        "status": {"attached": attached, **({"attachError": error} if error else {})},
    }


class Agents:
    """Starts agents on one API server, one after the other, and knows what they publish."""

    def __init__(self, server: ApiServer, kubelet_dir: Path, root: Path, *, clock: Clock) -> None:
        self.server = server
        self.clock = clock
        self._kubelet_dir = kubelet_dir
        self._root = root
        self._ids = itertools.count(1)
        server.put(NODES, node())
        server.put(NODES, node("n2"))
        server.put(CSINODES, {"metadata": {"name": NODE}, "spec": {"drivers": []}})
        server.put(CSIDRIVERS, {"metadata": {"name": EBS}, "spec": {}})

    def program(self, *, once: bool = False, dry_run: bool = False) -> NodeAgentProgram:
        settings = NodeAgentSettings(
            node_name=NODE,
            kubelet_dir=self._kubelet_dir,
            host_root=self._root,
            address="127.0.0.1:0",
            once=once,
            dry_run=dry_run,
        )
        return NodeAgentProgram(
            self.server.client(self.clock),
            config=ConfigFile(None, NodeAgentConfig),
            settings=settings,
            clock=self.clock,
            rng=random.Random(3),
            new_id=lambda: f"{next(self._ids):016x}",
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[NodeAgentProgram]:
        program = self.program()
        task = asyncio.create_task(program.run())
        try:
            yield program
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def until(self, condition: Callable[[], bool]) -> None:
        await until(condition, clock=self.clock, within=3600.0)

    @property
    def node(self) -> Json:
        return self.server.objects[f"{NODES}/{NODE}"]

    @property
    def published(self) -> dict[str, Any]:
        """The keys of limits, which are the same in capacity and allocatable."""
        status = self.node["status"]
        found = [
            {key: value for key, value in status[part].items() if key.startswith("attachable-")}
            for part in ("capacity", "allocatable")
        ]
        assert found[0] == found[1]
        return found[0]

    @property
    def entries(self) -> dict[str, ProvenanceEntry]:
        return decode(self.node["metadata"].get("annotations", {}))

    def events(self, reason: str) -> list[str]:
        return [
            event["message"]
            for path, event in self.server.objects.items()
            if path.startswith(EVENTS) and event["reason"] == reason
        ]
