"""The order of moves: a place counts as free only if it was so when the wave began."""

from tests.scaledown.clusters import web
from tonnage.consolidation import move_waves
from tonnage.consolidation.assignment import Assignment
from tonnage.consolidation.move_waves import WavePlan
from tonnage.consolidation.problem import Item, ItemKind, NodeBin, Problem, TemplateBin
from tonnage.consolidation.steps import StepDraft
from tonnage.scaledown.facts import MovingPod
from tonnage.snapshot.snapshot import Snapshot


def scheduled(free: list[int], homes: list[int], targets: list[int], *, spare: int) -> WavePlan:
    """Pods of one slot each that go from bin to bin; `spare` nodes of one slot may be bought."""
    kind = ItemKind(((0, 1),), 1.0, (True,) * len(free), (True,))
    problem = Problem(
        kinds=(kind,),
        items=tuple(Item(f"default/p{n}", 0, home, 1.0) for n, home in enumerate(homes)),
        bins=tuple(NodeBin(f"n{n}", "g", 1.0, (left,), False) for n, left in enumerate(free)),
        templates=(TemplateBin("g", 1.0, (1,), spare),),
        spare={"g": 0},
        hours=1.0,
        cluster_room=spare,
    )
    state = Assignment(problem)
    for item, target in enumerate(targets):
        state.move(item, target)
    snapshot = Snapshot()
    pods = [MovingPod(snapshot.record_of(web(f"p{n}", "n0")), ()) for n in range(len(homes))]
    step = StepDraft((), (), tuple(range(len(homes))), 1.0, 1.0, 1.0)
    return move_waves.schedule(state, [step], pods, at_once=lambda *_: 10)


def moves(plan: WavePlan) -> list[tuple[int, int, int, int]]:
    return [(move.wave, move.item, move.source, move.target) for move in plan.moves]


def test_who_needs_a_place_waits_until_it_was_left() -> None:
    plan = scheduled([0, 0, 1], homes=[0, 1], targets=[1, 2], spare=0)
    assert moves(plan) == [(1, 1, 1, 2), (2, 0, 0, 1)]


def test_pods_that_change_places_get_a_node_to_stop_at() -> None:
    plan = scheduled([0, 0], homes=[0, 1], targets=[1, 0], spare=1)
    assert plan.spares == [2]
    assert moves(plan) == [(1, 0, 0, 2), (2, 1, 1, 0), (3, 0, 2, 1)]
    assert plan.deleted == {2: 3}


def test_a_node_that_is_there_will_do_for_a_stop() -> None:
    plan = scheduled([0, 0, 1], homes=[0, 1], targets=[1, 0], spare=1)
    assert plan.spares == []
    assert moves(plan) == [(1, 0, 0, 2), (2, 1, 1, 0), (3, 0, 2, 1)]


def test_a_circle_without_a_way_round_is_given_up() -> None:
    assert scheduled([0, 0], homes=[0, 1], targets=[1, 0], spare=0).stuck == {0, 1}
