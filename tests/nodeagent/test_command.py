"""`tonnage node-agent` as a process: what it needs, and what it prints."""

import asyncio
import json
import os
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.cluster.apiserver import ApiServer
from tests.nodeagent.csidriver import CsiDriver
from tests.nodeagent.harness import EBS, KEY, NODE, Agents
from tests.nodeagent.hosts import ec2
from tonnage.clock import SystemClock

MEGABYTE = 1000**2
MOST_MEMORY = 90 * MEGABYTE
WITHIN = 60.0
PROGRAM = Path(sys.executable).with_name("tonnage")


@asynccontextmanager
async def cluster(kubelet_dir: Path, tmp_path: Path) -> AsyncIterator[tuple[Agents, list[str]]]:
    """A cluster, and the options with which a process finds it and its machine."""
    machine = ec2(tmp_path / "host", interfaces=2)
    async with ApiServer() as server:
        made = Agents(server, kubelet_dir, machine.root, clock=SystemClock())
        config = {
            "clusters": [{"name": "c", "cluster": {"server": server.url}}],
            "contexts": [{"name": "c", "context": {"cluster": "c"}}],
            "current-context": "c",
        }
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(json.dumps(config))
        options = [f"--kubeconfig={kubeconfig}", f"--node-name={NODE}"]
        yield made, [*options, f"--kubelet-dir={kubelet_dir}", f"--host-root={machine.root}"]


async def start(*arguments: str) -> asyncio.subprocess.Process:
    environ = {name: value for name, value in os.environ.items() if name != "NODE_NAME"}
    return await asyncio.create_subprocess_exec(
        *(str(PROGRAM), "node-agent", *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environ,
    )


async def ended(*arguments: str) -> tuple[int, str, str]:
    process = await start(*arguments)
    out, err = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


async def test_a_running_agent_is_small_and_knows_no_numpy(
    kubelet_dir: Path, tmp_path: Path
) -> None:
    async with cluster(kubelet_dir, tmp_path) as (made, options):
        with CsiDriver(kubelet_dir, EBS, limit=25):
            process = await start(*options, "--address=127.0.0.1:0", "--log-level=error")
            try:
                async with asyncio.timeout(WITHIN):
                    while made.published != {KEY: "25"}:
                        await asyncio.sleep(0.05)
                status = Path(f"/proc/{process.pid}/status").read_text()
                mapped = Path(f"/proc/{process.pid}/maps").read_text()
            finally:
                process.terminate()
                await process.communicate()
        resident = re.search(r"^VmRSS:\s+(\d+) kB$", status, re.MULTILINE)
        assert resident is not None
        assert int(resident[1]) * 1024 < MOST_MEMORY
        assert "grpc" in mapped
        assert "numpy" not in mapped
        assert process.returncode == 0


async def test_once_prints_what_was_published(kubelet_dir: Path, tmp_path: Path) -> None:
    async with cluster(kubelet_dir, tmp_path) as (made, options):
        with CsiDriver(kubelet_dir, EBS, limit=25):
            code, out, _ = await ended(*options, "--once")
        assert (code, made.published) == (0, {KEY: "25"})
        document = json.loads(out)
        assert document["kind"] == "NodeAttachLimits"
        assert document["limits"] == [
            {
                "driver": EBS,
                "key": KEY,
                "count": 25,
                "source": "driver",
                "reason": "the driver says 25",
            }
        ]
        assert document["drivers"] == [
            {
                "name": EBS,
                "version": "v1.2.3",
                "capabilities": ["GET_VOLUME_STATS", "STAGE_UNSTAGE_VOLUME"],
                "maxVolumesPerNode": 25,
                "problem": "",
            }
        ]


async def test_a_dry_run_prints_the_same_and_publishes_nothing(
    kubelet_dir: Path, tmp_path: Path
) -> None:
    async with cluster(kubelet_dir, tmp_path) as (made, options):
        with CsiDriver(kubelet_dir, EBS, limit=25):
            code, out, _ = await ended(*options, "--once", "--dry-run", f"--override={EBS}=20")
        assert (code, made.published) == (0, {})
        assert [one["count"] for one in json.loads(out)["limits"]] == [20]


async def test_a_driver_that_fails_is_told_about(kubelet_dir: Path, tmp_path: Path) -> None:
    async with cluster(kubelet_dir, tmp_path) as (_, options):
        with CsiDriver(kubelet_dir, EBS, limit=25, behave="unready"):
            code, out, _ = await ended(*options, "--once")
        assert code == 0
        (told,) = json.loads(out)["drivers"]
        assert told["problem"] == "ebs.csi.aws.com: says that it is not ready"


async def test_uninstall_says_what_it_removed(kubelet_dir: Path, tmp_path: Path) -> None:
    async with cluster(kubelet_dir, tmp_path) as (made, options):
        with CsiDriver(kubelet_dir, EBS, limit=25):
            await ended(*options, "--once")
        code, out, _ = await ended("uninstall", options[0])
        assert (code, out) == (0, f"{NODE}: removed {KEY}\n")
        assert made.published == {}
        assert (await ended("uninstall", options[0]))[1] == "nothing is published\n"


async def test_a_node_that_does_not_exist_is_an_error(kubelet_dir: Path, tmp_path: Path) -> None:
    async with cluster(kubelet_dir, tmp_path) as (_, options):
        code, _, err = await ended(*options, "--node-name=nowhere", "--once")
    assert code == 1
    assert err.splitlines()[-1] == "tonnage: error: there is no node 'nowhere'"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "--node-name is missing"),
        (["--node-name=n", "--override=ebs"], "expected DRIVER=COUNT"),
        (["--node-name=n", "--reserved=d=-1"], "expected DRIVER=COUNT"),
        (["--node-name=n", "--config=nowhere.yaml"], "nowhere.yaml"),
    ],
)
async def test_what_cannot_be_used_is_refused(arguments: list[str], words: str) -> None:
    code, _, err = await ended(*arguments)
    assert code == 2
    assert words in err
