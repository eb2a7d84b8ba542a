"""Calls to a real driver over its socket, well and not so well behaved."""

import random
from pathlib import Path

import pytest

from tests.nodeagent.csidriver import CsiDriver
from tests.soak.measure import descriptors
from tonnage.clock import SystemClock
from tonnage.nodeagent.csi import MOST_VOLUMES, Answer, CsiCaller, CsiPatience, DriverError
from tonnage.nodeagent.protos import csi_pb2, pluginregistration_pb2

EBS = "ebs.csi.aws.com"
QUICK = CsiPatience(timeout=5.0, attempts=2, first_wait=0.01)
HASTY = CsiPatience(timeout=0.1, attempts=2, first_wait=0.01)


def caller(patience: CsiPatience = QUICK) -> CsiCaller:
    return CsiCaller(clock=SystemClock(), rng=random.Random(1), patience=patience)


async def asked(driver: CsiDriver, patience: CsiPatience = QUICK) -> Answer:
    registered = await caller().registration(driver.registration)
    return await caller(patience).ask(registered)


async def test_a_driver_says_who_it_is_and_its_number(kubelet_dir: Path) -> None:
    with CsiDriver(kubelet_dir, EBS, limit=25) as driver:
        answer = await asked(driver)
    assert (answer.name, answer.version, answer.max_volumes) == (EBS, "v1.2.3", 25)


async def test_capabilities_of_a_newer_specification_are_left_out(kubelet_dir: Path) -> None:
    with CsiDriver(kubelet_dir, EBS, limit=25) as driver:
        answer = await asked(driver)
    assert answer.capabilities == ("GET_VOLUME_STATS", "STAGE_UNSTAGE_VOLUME")


async def test_the_registration_names_kind_and_endpoint(kubelet_dir: Path) -> None:
    with CsiDriver(kubelet_dir, EBS, limit=25) as driver:
        found = await caller().registration(driver.registration)
    assert (found.type, found.name, found.endpoint) == ("CSIPlugin", EBS, driver.endpoint)


async def test_without_an_endpoint_the_plugin_answers_where_it_registered(
    kubelet_dir: Path,
) -> None:
    with CsiDriver(kubelet_dir, EBS, limit=25) as driver:
        driver.tell(endpoint="")
        found = await caller().registration(driver.registration)
        assert found.endpoint == driver.registration
        assert (await caller().ask(found)).max_volumes == 25


@pytest.mark.parametrize("limit", [0, -1])
async def test_what_is_no_number_is_handed_on_as_it_is(kubelet_dir: Path, limit: int) -> None:
    with CsiDriver(kubelet_dir, EBS, limit=limit) as driver:
        assert (await asked(driver)).max_volumes == limit


async def test_a_number_too_big_for_a_csinode_is_cut(kubelet_dir: Path) -> None:
    with CsiDriver(kubelet_dir, EBS, limit=2**40) as driver:
        assert (await asked(driver)).max_volumes == MOST_VOLUMES


@pytest.mark.parametrize(
    ("behave", "words"),
    [
        ("hang", "GetPluginInfo: no answer within 0.1 s"),
        ("error", "NodeGetInfo: INTERNAL: metadata of the instance not available"),
        ("unready", "not ready"),
        ("stranger", "registered as 'ebs.csi.aws.com', but calls itself 'stranger.example.com'"),
    ],
)
async def test_a_driver_that_fails_is_told_about(
    kubelet_dir: Path, behave: str, words: str
) -> None:
    with (
        CsiDriver(kubelet_dir, EBS, limit=25, behave=behave) as driver,
        pytest.raises(DriverError, match=words),
    ):
        await asked(driver, HASTY if behave == "hang" else QUICK)


async def test_a_socket_nobody_listens_on_is_an_error_that_names_it(kubelet_dir: Path) -> None:
    nobody = kubelet_dir / "plugins_registry" / "gone.sock"
    with pytest.raises(DriverError, match=r"gone\.sock: GetInfo: UNAVAILABLE"):
        await caller().registration(nobody)


async def test_calls_leave_no_descriptor_open(kubelet_dir: Path) -> None:
    with CsiDriver(kubelet_dir, EBS, limit=25) as driver:
        await asked(driver)
        before = descriptors()
        for _ in range(10):
            await asked(driver)
            with pytest.raises(DriverError):
                await caller().registration(kubelet_dir / "gone.sock")
        assert descriptors() < before + 10


def test_the_answer_has_the_field_numbers_of_the_specification() -> None:
    wire = b"\x0a\x03i-1" + b"\x10\x19" + b"\x1a\x0a" + b"\x0a\x08\x0a\x01z\x12\x03a-1"
    info = csi_pb2.NodeGetInfoResponse.FromString(wire)
    assert (info.node_id, info.max_volumes_per_node) == ("i-1", 25)
    assert dict(info.accessible_topology.segments) == {"z": "a-1"}


def test_identity_and_capabilities_have_the_field_numbers_of_the_specification() -> None:
    plugin = csi_pb2.GetPluginInfoResponse.FromString(b"\x0a\x01d\x12\x02v1")
    assert (plugin.name, plugin.vendor_version) == ("d", "v1")
    assert not csi_pb2.ProbeResponse.FromString(b"\x0a\x00").ready.value
    able = csi_pb2.NodeGetCapabilitiesResponse.FromString(b"\x0a\x04\x0a\x02\x08\x01")
    assert able.capabilities[0].rpc.type == csi_pb2.NodeServiceCapability.RPC.STAGE_UNSTAGE_VOLUME


def test_the_registration_has_the_field_numbers_of_the_kubelet() -> None:
    wire = b"\x0a\x09CSIPlugin\x12\x01d\x1a\x02/s\x22\x051.0.0"
    told = pluginregistration_pb2.PluginInfo.FromString(wire)
    assert (told.type, told.name, told.endpoint) == ("CSIPlugin", "d", "/s")
    assert list(told.supported_versions) == ["1.0.0"]
