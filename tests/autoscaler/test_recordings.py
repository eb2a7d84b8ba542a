"""Decisions made again from what was recorded of them."""

import asyncio
import json
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result

from tests.autoscaler.harness import (
    CLAIMS,
    DRIVER,
    Cloud,
    autoscaling,
    group,
    put,
    put_node,
    put_pod,
    started,
)
from tests.cluster.apiserver import ApiServer, until
from tonnage.autoscaler import recordings
from tonnage.autoscaler.decisions import RECORDED, DecisionLog
from tonnage.autoscaler.report import Done, LoggedDecision
from tonnage.cli.app import program as tonnage
from tonnage.errors import InputError
from tonnage.groups.inputs import WrittenInputs
from tonnage.scaleup.plan import Plan
from tonnage.testing import builders
from tonnage.testing.clock import VirtualClock

DONE = (Done(deed="increase", group="g", nodes=1, reason="r"),)


async def decided(clock: VirtualClock, file: Path, **settings: object) -> list[LoggedDecision]:
    """What an autoscaler decides on a cluster with pods that run, are being bound, and wait."""
    async with ApiServer() as server:
        started(server)
        cloud = Cloud(server, group("a", limit=3), group("b", limit=8, cpu="8"))
        for number in range(3):
            put_node(server, clock, f"a-{number}", of="a", drivers={DRIVER: 3}, age=3600)
            put_pod(server, f"on-{number}", claims=[f"c{number}"], on=f"a-{number}", cpu="3")
        for number in range(9):
            put_pod(server, f"db-{number}", claims=[f"data-{number}"], cpu="1500m")
        put_pod(server, "huge", cpu="400")
        put_pod(server, "coming", claims=["made"], unschedulable=False)
        put(server, CLAIMS, builders.pvc("made", storage_class="fast", selected_node="a-0"))
        async with autoscaling(server, cloud, clock, decisionFile=str(file), **settings):
            await until(lambda: bool(cloud.asked), clock=clock)
            await clock.sleep(20)
    return [
        msgspec.json.decode(line, type=LoggedDecision) for line in file.read_bytes().splitlines()
    ]


def why(*arguments: str) -> Result:
    return CliRunner().invoke(tonnage, ["why", *arguments])


async def test_every_recorded_decision_gives_the_same_plan_again(
    clock: VirtualClock, tmp_path: Path
) -> None:
    decisions = await decided(clock, tmp_path / "d")
    assert decisions
    assert decisions[0].plan.scale_ups
    for one in decisions:
        assert recordings.replayed(*recordings.unpack(one.recording, WrittenInputs)) == one.plan


async def test_why_replays_what_was_written(clock: VirtualClock, tmp_path: Path) -> None:
    await decided(clock, tmp_path / "d")
    result = why("db-0", "-f", str(tmp_path / "d"), "--replay")
    assert (result.exit_code, "the same plan" in result.stdout) == (0, True), result.output


async def test_why_replays_what_the_running_autoscaler_has(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        started(server)
        cloud = Cloud(server)
        put_pod(server, "db", claims=["data"])
        async with autoscaling(server, cloud, clock) as program:
            await until(lambda: bool(program.autoscaler.decisions.last), clock=clock)
            url = f"http://127.0.0.1:{program.debug.port}"
            result = await asyncio.to_thread(why, "db", "--url", url, "--replay", "-o", "json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["replay"]["same"] is True


async def test_another_answer_is_told_with_what_differs(
    clock: VirtualClock, tmp_path: Path
) -> None:
    (first, *_) = await decided(clock, tmp_path / "d")
    other = msgspec.structs.replace(first, plan=msgspec.structs.replace(first.plan, scale_ups=()))
    (tmp_path / "d").write_bytes(msgspec.json.encode(other))
    result = why("default/huge", "-f", str(tmp_path / "d"), "--replay")
    assert result.exit_code == 1
    assert "another plan" in result.stdout
    assert "differing: scaleUps" in result.stdout


@pytest.mark.parametrize(
    ("size", "why_not"), [(0, "decisionRecordingSize is 0"), (10, "more than the 10 bytes")]
)
async def test_what_is_not_recorded_says_why(
    clock: VirtualClock, tmp_path: Path, size: int, why_not: str
) -> None:
    await decided(clock, tmp_path / "d", decisionRecordingSize=size)
    result = why("huge", "-f", str(tmp_path / "d"), "--replay")
    assert result.exit_code == 2
    assert why_not in result.output


def test_only_the_newest_decisions_in_memory_keep_their_recording() -> None:
    log = DecisionLog()
    for number in range(RECORDED + 2):
        one = LoggedDecision(time=str(number), plan=Plan(), done=DONE, recording=b"r")
        log.keep(one, file="", max_bytes=1)
    assert [bool(one.recording) for one in log.last] == [False, False] + RECORDED * [True]
    assert log.last[0].not_recorded == f"{RECORDED} decisions have been made since"


def test_what_is_no_recording_is_refused() -> None:
    with pytest.raises(InputError, match="cannot be read"):
        recordings.unpack(b"nonsense", WrittenInputs)
