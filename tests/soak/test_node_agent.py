"""Weeks of churn for the node agent: drivers, their sockets, and volumes that find no room."""

import socket
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.apiserver import ApiServer
from tests.nodeagent.conftest import kubelet_dir
from tests.nodeagent.harness import (
    ATTACHMENTS,
    CSIDRIVERS,
    CSINODES,
    NODE,
    Agents,
    attachment,
)
from tests.nodeagent.hosts import ec2
from tests.soak.measure import left_behind
from tonnage.nodeagent.csi import CSI_PLUGIN, Answer, CsiCaller, DriverError, Registration
from tonnage.testing.clock import VirtualClock

__all__ = ["kubelet_dir"]

SETTLED = 600.0
"""Seconds: longer than a number has to hold before it is told."""


async def registration(_: CsiCaller, path: Path) -> Registration:
    """Answers in place of drivers: each is named as its socket, and some are out of order."""
    if path.name.startswith("mute"):
        raise DriverError(f"{path}: no answer")
    return Registration(type=CSI_PLUGIN, name=path.name, endpoint=path)


async def ask(_: CsiCaller, registered: Registration) -> Answer:
    if registered.name.startswith("broken"):
        raise DriverError(f"{registered.name}: says that it is not ready")
    return Answer(name=registered.name, version="v1", node_id="i-1", max_volumes=20)


async def test_node_agent(
    clock: VirtualClock, kubelet_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CsiCaller, "registration", registration)
    monkeypatch.setattr(CsiCaller, "ask", ask)
    registry = kubelet_dir / "plugins_registry"
    async with ApiServer() as server:
        agents = Agents(server, kubelet_dir, ec2(tmp_path, interfaces=2).root, clock=clock)

        async def day(number: int) -> None:
            names = [f"{kind}-{number}.example.com" for kind in ("good", "broken", "mute")]
            volumes = [f"{name}-{node}" for name in names for node in (NODE, "n2")]
            for name in names:
                server.put(CSIDRIVERS, {"metadata": {"name": name}, "spec": {}})
                with socket.socket(socket.AF_UNIX) as bound:
                    bound.bind(str(registry / name))
            listed = [{"name": name, "nodeID": "i-1"} for name in names]
            server.put(CSINODES, {"metadata": {"name": NODE}, "spec": {"drivers": listed}})
            await agents.until(lambda: names[0] in agents.entries)
            for volume in volumes:
                server.put(ATTACHMENTS, refused(volume))
            await clock.sleep(10)
            for volume in volumes:
                server.remove(f"{ATTACHMENTS}/csi-{volume}")
            server.put(CSINODES, {"metadata": {"name": NODE}, "spec": {"drivers": []}})
            for name in names:
                server.remove(f"{CSIDRIVERS}/{name}")
                (registry / name).unlink()
            await agents.until(lambda: names[0] not in agents.entries)

        async with agents.running() as agent:
            await agents.until(lambda: not agent.unready())
            assert await left_behind([agent], day, clock, settled=SETTLED) == {}


def refused(volume: str) -> dict[str, Any]:
    """An attachment of the driver in the volume's name, to the node in it, without room."""
    driver, _, node = volume.rpartition("-")
    error = {"time": "2030-01-01T00:00:00Z", "errorCode": 8, "message": "no room"}
    made = attachment(volume, node=node, attached=False, error=error)
    made["spec"]["attacher"] = driver
    return made
