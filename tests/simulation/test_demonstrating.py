"""The story of the demo, in virtual time: the same every time, and worth telling."""

import io
import itertools

import pytest

from tonnage.cli import demo_views
from tonnage.clock import virtual
from tonnage.clock.virtual import VirtualClock
from tonnage.report.timeline import Timeline
from tonnage.simulation import demonstrating
from tonnage.simulation.demonstrating import Scene


def played(number: int) -> tuple[Timeline, list[Scene]]:
    scenes: list[Scene] = []
    clock = VirtualClock()
    act = demonstrating.acts()[number]

    async def main() -> Timeline:
        return await demonstrating.perform(act, clock=clock, show=scenes.append)

    return virtual.run(main, clock=clock), scenes


@pytest.fixture(scope="module")
def with_tonnage() -> tuple[Timeline, list[Scene]]:
    return played(0)


@pytest.fixture(scope="module")
def without() -> tuple[Timeline, list[Scene]]:
    return played(1)


def test_with_tonnage_every_pod_runs(with_tonnage: tuple[Timeline, list[Scene]]) -> None:
    pods = with_tonnage[0].samples[-1].pods
    assert (pods.running, pods.stuck, pods.pending) == (27, 0, 0)


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


def test_without_it_too_few_nodes_are_bought(without: tuple[Timeline, list[Scene]]) -> None:
    assert without[0].summary.nodes_bought == 2


def test_without_it_pods_are_stuck_for_good(without: tuple[Timeline, list[Scene]]) -> None:
    assert without[0].samples[-1].pods.stuck == 21


@pytest.mark.parametrize(
    ("used", "limit", "drawn"),
    [
        (0, 3, "□□□"),
        (2, 3, "■■□"),
        (4, 3, "■■■✗"),
        (2, None, "■■ (no limit known)"),
    ],
)
def test_slots_are_drawn_as_blocks(used: int, limit: int | None, drawn: str) -> None:
    assert demo_views.bar(used, limit) == drawn


def test_a_plain_view_says_a_thing_once(
    with_tonnage: tuple[Timeline, list[Scene]], capsys: pytest.CaptureFixture[str]
) -> None:
    with demo_views.PlainView("Act") as view:
        for scene in with_tonnage[1]:
            view.show(scene)
            view.show(scene)
    lines = [line[9:] for line in capsys.readouterr().out.splitlines()]
    assert len([line for line in lines if line.startswith("decided: db +5")]) == 1
    counted = [line for line in lines if line.startswith("pods:")]
    assert all(one != other for one, other in itertools.pairwise(counted))


def test_a_picture_shows_nodes_and_decisions(with_tonnage: tuple[Timeline, list[Scene]]) -> None:
    from rich.console import Console

    console = Console(record=True, width=100, file=io.StringIO())
    console.print(demo_views.picture("Act", with_tonnage[1][-1]))
    text = console.export_text()
    assert "■■■■■" in text
    assert "db +5" in text
