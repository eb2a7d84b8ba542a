"""The agent with a real driver and an API server, in virtual time."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.cluster.apiserver import ApiServer, answer, status
from tests.nodeagent.csidriver import CsiDriver
from tests.nodeagent.harness import (
    ATTACHMENTS,
    CSIDRIVERS,
    EBS,
    KEY,
    NODE,
    NODES,
    Agents,
    attachment,
)
from tests.nodeagent.hosts import FakeHost, ec2
from tonnage.nodeagent import removal
from tonnage.nodeagent.effective_limit import LimitSource
from tonnage.testing.clock import VirtualClock


@pytest.fixture
def machine(tmp_path: Path) -> FakeHost:
    return ec2(tmp_path, interfaces=2)


@asynccontextmanager
async def agents(
    kubelet_dir: Path, machine: FakeHost, clock: VirtualClock
) -> AsyncIterator[Agents]:
    async with ApiServer() as server:
        yield Agents(server, kubelet_dir, machine.root, clock=clock)


async def test_the_limit_is_published_with_its_provenance(
    kubelet_dir: Path, machine: FakeHost, clock: VirtualClock
) -> None:
    async with agents(kubelet_dir, machine, clock) as made:
        with CsiDriver(kubelet_dir, EBS, limit=26):
            async with made.running():
                await made.until(lambda: made.published == {KEY: "25"})
        entry = made.entries[EBS]
        assert (entry.count, entry.source) == (25, LimitSource.CATALOGUE)
        assert entry.reason == (
            "m5.large: 28 shared slots - 1 root disk - 2 ENIs - 0 local NVMe - 0 reserved = 25"
        )


async def test_at_rest_nothing_is_asked_of_the_api_server(
    kubelet_dir: Path, machine: FakeHost, clock: VirtualClock
) -> None:
    async with agents(kubelet_dir, machine, clock) as made:
        with CsiDriver(kubelet_dir, EBS, limit=25):
            async with made.running() as program:
                await made.until(lambda: made.published == {KEY: "25"})
                await made.server.watching(4)
                before, since = len(made.server.requests), clock.monotonic()
                # Of other nodes there is always something to hear.
                made.server.put(ATTACHMENTS, attachment("v1", node="n2"))
                await clock.sleep(60.0)
                assert len(made.server.requests) == before
                assert program.agent.looked_at > since


async def test_only_its_own_node_is_followed(
    kubelet_dir: Path, machine: FakeHost, clock: VirtualClock
) -> None:
    async with agents(kubelet_dir, machine, clock) as made:
        async with made.running():
            await made.server.watching(4)
        followed = {
            (request.path, request.query.get("fieldSelector", ""))
            for request in made.server.requests
        }
        assert followed == {
            (NODES, f"metadata.name={NODE}"),
            ("/apis/storage.k8s.io/v1/csinodes", f"metadata.name={NODE}"),
            (CSIDRIVERS, ""),
            (ATTACHMENTS, ""),
        }


async def test_of_attachments_elsewhere_only_the_name_is_kept(
    kubelet_dir: Path, machine: FakeHost, clock: VirtualClock
) -> None:
    async with agents(kubelet_dir, machine, clock) as made:
        made.server.put(ATTACHMENTS, attachment("v1", node="n2"))
        made.server.put(ATTACHMENTS, attachment("v2"))
        async with made.running() as program:
            await made.until(lambda: program.surroundings.complete)
            kept = {one.metadata.name: one.spec for one in program.surroundings.attachments}
        assert kept["csi-v1"].node_name == ""
        assert kept["csi-v2"].node_name == NODE


async def test_a_new_interface_is_published_once_it_has_settled(
    kubelet_dir: Path, machine: FakeHost, clock: VirtualClock
) -> None:
    async with agents(kubelet_dir, machine, clock) as made:
        with CsiDriver(kubelet_dir, EBS, limit=25):
            async with made.running():
                await made.until(lambda: made.published == {KEY: "25"})
                machine.interface("eth2")
                since = clock.monotonic()
                await made.until(lambda: made.published == {KEY: "24"})
                assert clock.monotonic() - since >= 60.0
                await made.until(lambda: bool(made.events("AttachLimitChanged")))
        (message,) = made.events("AttachLimitChanged")
        assert message.startswith("ebs.csi.aws.com: 25 -> 24: m5.large")


async def test_a_refused_attach_is_published_at_once(
    kubelet_dir: Path, machine: FakeHost, clock: VirtualClock
) -> None:
    async with agents(kubelet_dir, machine, clock) as made:
        for number in range(16):
            made.server.put(ATTACHMENTS, attachment(f"v{number}"))
        with CsiDriver(kubelet_dir, EBS, limit=25):
            async with made.running():
                await made.until(lambda: made.published == {KEY: "25"})
                since = clock.monotonic()
                error = {"time": "2030-01-01T00:00:00Z", "message": "full", "errorCode": 8}
                made.server.put(ATTACHMENTS, attachment("v16", attached=False, error=error))
                await made.until(lambda: made.published == {KEY: "16"})
                assert clock.monotonic() - since < 60.0
        assert made.entries[EBS].source is LimitSource.MEASURED


async def test_an_error_without_a_code_is_known_by_its_words(
    kubelet_dir: Path, machine: FakeHost, clock: VirtualClock
) -> None:
    async with agents(kubelet_dir, machine, clock) as made:
        made.server.put(ATTACHMENTS, attachment("v1"))
        message = "rpc error: code = ResourceExhausted desc = attachment limit exceeded"
        error = {"time": "2030-01-01T00:00:00Z", "message": message}
        made.server.put(ATTACHMENTS, attachment("v2", attached=False, error=error))
        with CsiDriver(kubelet_dir, EBS, limit=25):
            async with made.running():
                await made.until(lambda: made.published == {KEY: "1"})


async def test_a_driver_that_restarts_among_volumes_shrinks_nothing_and_is_told_about(
    kubelet_dir: Path, machine: FakeHost, clock: VirtualClock
) -> None:
    async with agents(kubelet_dir, machine, clock) as made:
        with CsiDriver(kubelet_dir, EBS, limit=25) as driver:
            async with made.running():
                await made.until(lambda: made.published == {KEY: "25"})
            for number in range(13):
                made.server.put(ATTACHMENTS, attachment(f"v{number}"))
            driver.tell(limit=12)
            driver.restart()
            async with made.running():
                await made.until(lambda: bool(made.events("AttachLimitDrift")))
                await clock.sleep(120.0)
                assert made.published == {KEY: "25"}
        assert "takes volumes of pods for disks of the system" in made.events("AttachLimitDrift")[0]


async def test_while_the_driver_is_away_its_key_stays_and_when_uninstalled_it_goes(
    kubelet_dir: Path, machine: FakeHost, clock: VirtualClock
) -> None:
    async with agents(kubelet_dir, machine, clock) as made:
        with CsiDriver(kubelet_dir, EBS, limit=25) as driver:
            async with made.running():
                await made.until(lambda: made.published == {KEY: "25"})
                driver.stop()
                await clock.sleep(120.0)
                assert made.published == {KEY: "25"}
                made.server.remove(f"{CSIDRIVERS}/{EBS}")
                await made.until(lambda: made.published == {})
        assert made.entries == {}


async def test_what_somebody_changes_is_put_right(
    kubelet_dir: Path, machine: FakeHost, clock: VirtualClock
) -> None:
    async with agents(kubelet_dir, machine, clock) as made:
        with CsiDriver(kubelet_dir, EBS, limit=25):
            async with made.running():
                await made.until(lambda: made.published == {KEY: "25"})
                spoilt = made.node["status"] | {"capacity": {"cpu": "2", KEY: "39"}}
                made.server.put(NODES, made.node | {"status": spoilt})
                await made.until(lambda: made.node["status"]["capacity"][KEY] == "25")


async def test_a_server_that_fails_is_written_to_later(
    kubelet_dir: Path, machine: FakeHost, clock: VirtualClock
) -> None:
    async with agents(kubelet_dir, machine, clock) as made:
        refusal = answer(lambda: status(403, "Forbidden"))
        made.server.script("PATCH", f"{NODES}/{NODE}/status", refusal, refusal)
        with CsiDriver(kubelet_dir, EBS, limit=25):
            async with made.running():
                await made.until(lambda: made.published == {KEY: "25"})


async def test_once_publishes_and_ends(
    kubelet_dir: Path, machine: FakeHost, clock: VirtualClock
) -> None:
    async with agents(kubelet_dir, machine, clock) as made:
        with CsiDriver(kubelet_dir, EBS, limit=25):
            await made.program(once=True).run()
        assert made.published == {KEY: "25"}


async def test_a_dry_run_says_what_it_would_do_and_writes_nothing(
    kubelet_dir: Path, machine: FakeHost, clock: VirtualClock
) -> None:
    async with agents(kubelet_dir, machine, clock) as made:
        with CsiDriver(kubelet_dir, EBS, limit=25):
            program = made.program(once=True, dry_run=True)
            await program.run()
        assert program.agent.document()["limits"][0]["count"] == 25
        assert program.agent.change is not None
        assert {request.method for request in made.server.requests} == {"GET"}


async def test_what_is_published_is_told_as_metrics(
    kubelet_dir: Path, machine: FakeHost, clock: VirtualClock
) -> None:
    async with agents(kubelet_dir, machine, clock) as made:
        with CsiDriver(kubelet_dir, EBS, limit=26):
            program = made.program(once=True)
            await program.run()
        sample = program.metrics.registry.get_sample_value
        assert sample("tonnage_node_attach_limit", {"driver": EBS, "source": "catalogue"}) == 25
        assert sample("tonnage_node_attach_limit_view", {"driver": EBS, "view": "driver"}) == 26
        drift = {"driver": EBS, "kind": "driver-above-machine"}
        assert sample("tonnage_node_attach_limit_drift", drift) == 1
        assert sample("tonnage_node_driver_answering", {"driver": EBS}) == 1
        written = {"kind": "Node", "result": "written"}
        assert sample("tonnage_node_publications_total", written) == 1


async def test_uninstall_removes_what_was_published_and_nothing_else(
    kubelet_dir: Path, machine: FakeHost, clock: VirtualClock
) -> None:
    async with agents(kubelet_dir, machine, clock) as made:
        foreign = made.node["status"]["capacity"] | {"attachable-volumes-gce-pd": "16"}
        both = {"capacity": foreign, "allocatable": foreign}
        made.server.put(NODES, made.node | {"status": both})
        with CsiDriver(kubelet_dir, EBS, limit=25):
            await made.program(once=True).run()
        client = made.server.client(clock)
        removed = [one async for one in removal.remove(client)]
        assert [(one.node, one.keys) for one in removed] == [(NODE, (KEY,))]
        assert made.published == {"attachable-volumes-gce-pd": "16"}
        assert made.entries == {}


async def test_a_dry_uninstall_removes_nothing(
    kubelet_dir: Path, machine: FakeHost, clock: VirtualClock
) -> None:
    async with agents(kubelet_dir, machine, clock) as made:
        with CsiDriver(kubelet_dir, EBS, limit=25):
            await made.program(once=True).run()
        client = made.server.client(clock)
        assert [one.node async for one in removal.remove(client, dry_run=True)] == [NODE]
        assert made.published == {KEY: "25"}
