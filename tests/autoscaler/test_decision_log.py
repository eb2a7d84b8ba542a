"""Decisions that are kept, and asked for from outside."""

import asyncio
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from tests.autoscaler.harness import Cloud, autoscaling, put_pod, started, status
from tests.cluster.apiserver import ApiServer, until
from tonnage.autoscaler.decisions import KEPT, DecisionLog, older
from tonnage.autoscaler.report import Done, LoggedDecision
from tonnage.cli.app import program as tonnage
from tonnage.scaleup.plan import Plan
from tonnage.testing.clock import VirtualClock

DONE = (Done(deed="increase", group="g", nodes=1, reason="r"),)


def decision(number: int) -> LoggedDecision:
    return LoggedDecision(time=f"{number:06d}", plan=Plan(), done=DONE)


def times(file: Path) -> list[str]:
    lines = file.read_bytes().splitlines()
    return [msgspec.json.decode(line, type=LoggedDecision).time for line in lines]


def test_every_decision_is_a_line_of_the_file(tmp_path: Path) -> None:
    log, file = DecisionLog(), tmp_path / "d"
    for number in range(3):
        log.keep(decision(number), file=str(file), max_bytes=10_000)
    assert times(file) == ["000000", "000001", "000002"]


def test_a_full_file_makes_way_and_none_grows_beyond_its_size(tmp_path: Path) -> None:
    log, file = DecisionLog(), tmp_path / "d"
    size = len(msgspec.json.encode(decision(0))) + 1
    for number in range(5):
        log.keep(decision(number), file=str(file), max_bytes=2 * size)
    assert (times(older(file)), times(file)) == (["000002", "000003"], ["000004"])
    assert sorted(tmp_path.iterdir()) == [file, older(file)]


def test_half_a_line_of_somebody_who_was_killed_spoils_no_other(tmp_path: Path) -> None:
    file = tmp_path / "d"
    file.write_bytes(b'{"time": "0')
    DecisionLog().keep(decision(1), file=str(file), max_bytes=10_000)
    half, whole = file.read_bytes().splitlines()
    assert half == b'{"time": "0'
    assert msgspec.json.decode(whole, type=LoggedDecision) == decision(1)


def test_the_same_plan_again_is_not_kept_again() -> None:
    log = DecisionLog()
    for time in ("1", "2"):
        log.keep(LoggedDecision(time=time, plan=Plan()), file="", max_bytes=1)
    assert [one.time for one in log.last] == ["1"]


def test_memory_holds_the_newest() -> None:
    log = DecisionLog()
    for number in range(KEPT + 1):
        log.keep(decision(number), file="", max_bytes=1)
    assert (len(log.last), log.last[0].time) == (KEPT, "000001")


@pytest.mark.parametrize("form", ["table", "json", "yaml"])
async def test_why_asks_the_running_autoscaler(clock: VirtualClock, form: str) -> None:
    async with ApiServer() as server:
        started(server)
        cloud = Cloud(server)
        put_pod(server, "db", claims=["data"])
        async with autoscaling(server, cloud, clock) as program:
            await until(lambda: bool(cloud.asked), clock=clock)
            url = f"http://127.0.0.1:{program.debug.port}"
            flags = ["why", "db", "--url", url, "-o", form]
            result = await asyncio.to_thread(CliRunner().invoke, tonnage, flags)
        assert result.exit_code == 0, result.output
        assert "default/db" in result.stdout
        assert "1 more node asked for" in result.stdout


async def test_why_reads_what_the_autoscaler_wrote(clock: VirtualClock, tmp_path: Path) -> None:
    file = str(tmp_path / "decisions.jsonl")
    async with ApiServer() as server:
        started(server)
        cloud = Cloud(server)
        put_pod(server, "web", cpu="400")
        async with autoscaling(server, cloud, clock, decisionFile=file):
            await clock.sleep(20)
    result = CliRunner().invoke(tonnage, ["why", "default/web", "-f", file])
    assert "left out" in result.stdout
    assert "best group g has 4" in result.stdout


async def test_a_file_that_cannot_be_written_is_told_and_stops_nothing(
    clock: VirtualClock, tmp_path: Path
) -> None:
    async with ApiServer() as server:
        started(server)
        cloud = Cloud(server)
        put_pod(server, "web")
        async with autoscaling(server, cloud, clock, decisionFile=str(tmp_path / "no" / "d")):
            await until(lambda: bool(cloud.asked), clock=clock)
            await clock.sleep(15)
            assert cloud.asked == [("increase", "g", 1)]
            problems = str(status(server)["tonnage"]["problems"])
            assert f"decisionFile {tmp_path}/no/d: No such file or directory" in problems
