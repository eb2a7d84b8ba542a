"""The story of the demo, in virtual time: the same every time, and worth telling."""

import io
import itertools
import re

import msgspec
import pytest

from tonnage.cli import demo
from tonnage.clock import virtual
from tonnage.clock.virtual import VirtualClock
from tonnage.report.timeline import Timeline
from tonnage.simulation import demo_story, runner
from tonnage.simulation.demo_story import Scene

GIB = 2**30


def played(number: int) -> tuple[Timeline, list[Scene]]:
    scenes: list[Scene] = []
    clock = VirtualClock()
    act = demo_story.acts()[number]

    async def main() -> Timeline:
        return await demo_story.perform(act, clock=clock, show=scenes.append)

    return virtual.run(main, clock=clock), scenes


@pytest.fixture(scope="module")
def with_tonnage() -> tuple[Timeline, list[Scene]]:
    return played(0)


@pytest.fixture(scope="module")
def without() -> tuple[Timeline, list[Scene]]:
    return played(1)


def test_with_tonnage_every_pod_runs(with_tonnage: tuple[Timeline, list[Scene]]) -> None:
    pods = with_tonnage[0].samples[-1].pods
    assert (pods.running, pods.stuck, pods.pending) == (30, 0, 0)


def test_with_tonnage_each_group_grows_once_by_what_is_needed(
    with_tonnage: tuple[Timeline, list[Scene]],
) -> None:
    decided = [(one.group, one.nodes) for one in with_tonnage[0].decisions]
    assert decided == [("db", 5), ("local", 3)]


def test_with_tonnage_no_node_is_ever_over_its_limit(
    with_tonnage: tuple[Timeline, list[Scene]],
) -> None:
    over = [
        one
        for scene in with_tonnage[1]
        for one in scene.nodes
        if one.limit is not None and one.used > one.limit
    ]
    assert over == []


def test_with_tonnage_no_disk_ever_has_more_on_it_than_it_holds(
    with_tonnage: tuple[Timeline, list[Scene]],
) -> None:
    used = [one.used for scene in with_tonnage[1] for one in scene.disks]
    assert max(used) == 80 * GIB


def test_with_tonnage_two_caches_share_a_disk(with_tonnage: tuple[Timeline, list[Scene]]) -> None:
    disks = with_tonnage[1][-1].disks
    assert [(one.used, one.capacity) for one in disks] == [(80 * GIB, 100 * GIB)] * 3


def test_without_it_too_few_nodes_are_bought(without: tuple[Timeline, list[Scene]]) -> None:
    assert [(one.group, one.nodes) for one in without[0].decisions] == [("db", 1)]


def test_without_it_databases_are_stuck_for_good(without: tuple[Timeline, list[Scene]]) -> None:
    assert without[0].samples[-1].pods.stuck == 19


def test_without_it_caches_never_get_a_machine(without: tuple[Timeline, list[Scene]]) -> None:
    assert (without[0].samples[-1].pods.pending, without[1][-1].disks) == (6, ())


def test_caches_are_helped_by_what_capacity_templates_publish() -> None:
    act = demo_story.acts()[0]
    spec = msgspec.structs.replace(act.simulation.spec, capacity_templates=False)
    simulation = msgspec.structs.replace(act.simulation, spec=spec)
    assert runner.simulate(simulation).samples[-1].pods.pending == 6


@pytest.mark.parametrize(
    ("used", "limit", "drawn"),
    [
        (0, 3, "□□□  0 of 3 slots"),
        (2, 3, "■■□  2 of 3 slots"),
        (4, 3, "■■■✗  4 of 3 slots"),
        (2, None, "■■  2 slots, no limit known"),
    ],
)
def test_slots_are_drawn_as_blocks(used: int, limit: int | None, drawn: str) -> None:
    assert demo.slot_bar(used, limit) == drawn


@pytest.mark.parametrize(
    ("used", "drawn"),
    [
        (0, "□□□□□□□□□□  0 of 100 GiB"),
        (80, "■■■■■■■■□□  80 of 100 GiB"),
        (120, "■■■■■■■■■■  120 of 100 GiB"),
    ],
)
def test_disks_are_drawn_as_ten_blocks(used: int, drawn: str) -> None:
    assert demo.disk_bar(used * GIB, 100 * GIB) == drawn


def test_a_plain_view_says_a_thing_once(
    with_tonnage: tuple[Timeline, list[Scene]], capsys: pytest.CaptureFixture[str]
) -> None:
    with demo.PlainView("Act", "What it is about.") as view:
        for scene in with_tonnage[1]:
            view.show(scene)
            view.show(scene)
    told = capsys.readouterr().out
    lines = [line[9:] for line in told.splitlines()]
    assert len([line for line in lines if line.startswith("decided: db +5")]) == 1
    counted = [line for line in lines if line.startswith("pods:")]
    assert all(one != other for one, other in itertools.pairwise(counted))
    assert told.startswith("\nAct\nWhat it is about.\n")
    assert told.count("local.example.com  ■■■■■■■■□□  80 of 100 GiB") == 3


def test_a_picture_shows_nodes_and_decisions(with_tonnage: tuple[Timeline, list[Scene]]) -> None:
    from rich.console import Console

    console = Console(record=True, width=100, file=io.StringIO())
    console.print(demo.picture("Act", "What it is about.", with_tonnage[1][-1]))
    text = console.export_text()
    assert re.search(r"db-\w+ +disks.example.com +■■■■■  5 of 5 slots", text)
    assert re.search(r"local-\w+ +local.example.com +■■■■■■■■□□  80 of 100 GiB", text)
    assert "db +5" in text
