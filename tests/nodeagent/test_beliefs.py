"""Which answers of drivers are believed, and how long a ceiling is remembered."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.nodeagent.beliefs import Ceiling, Memory, believe, ceiling_after

DAY = 86_400.0
BEFORE = Memory(answered=25, believed=25, held=2)

ANSWERS = [
    ("the first answer is believed", None, 25, 0, 25),
    ("also on a node full of volumes", None, 20, 13, 20),
    ("the same again changes nothing", BEFORE, 25, 13, 25),
    ("a higher one is believed", BEFORE, 26, 13, 26),
    ("a fall by the volumes that pods hold is not", BEFORE, 12, 13, 25),
    ("nor by some of them, attached since", BEFORE, 12, 20, 25),
    ("a fall on an empty node is", BEFORE, 12, 0, 12),
    ("a fall by more than pods hold is", BEFORE, 5, 13, 5),
    ("0 says nothing, least of all that there is no limit", BEFORE, 0, 25, 25),
    ("a negative number says nothing", BEFORE, -1, 26, 25),
]


@pytest.mark.parametrize(
    ("memory", "answered", "attached", "believed"),
    [row[1:] for row in ANSWERS],
    ids=[row[0] for row in ANSWERS],
)
def test_an_answer(memory: Memory | None, answered: int, attached: int, believed: int) -> None:
    found = believe(memory, answered, attached=attached, held=2)
    assert found is not None
    assert found.believed == believed


@pytest.mark.parametrize("answered", [0, -1])
def test_who_never_gave_a_number_is_not_remembered(answered: int) -> None:
    assert believe(None, answered, attached=3, held=1) is None


def test_a_fall_that_new_interfaces_explain_is_believed() -> None:
    found = believe(BEFORE, 24, attached=13, held=3)
    assert found == Memory(answered=24, believed=24, held=3)


def test_of_a_fall_that_interfaces_explain_in_part_the_rest_is_not_believed() -> None:
    found = believe(BEFORE, 11, attached=13, held=3)
    assert found == Memory(answered=11, believed=24, held=3)


def test_an_answer_is_not_judged_again_when_the_pods_that_explained_it_are_gone() -> None:
    shrunk = believe(BEFORE, 12, attached=13, held=2)
    assert believe(shrunk, 12, attached=0, held=2) == shrunk


def test_the_first_answer_is_not_believed_when_exactly_the_attached_volumes_are_missing() -> None:
    found = believe(None, 12, attached=13, held=1, expected=25)
    assert found == Memory(answered=12, believed=25, held=1)


def test_a_first_answer_that_differs_otherwise_is_the_drivers_own_business() -> None:
    found = believe(None, 20, attached=13, held=1, expected=25)
    assert found == Memory(answered=20, believed=20, held=1)


@given(
    st.integers(1, 128), st.lists(st.tuples(st.integers(-2, 130), st.integers(0, 130)), max_size=8)
)
def test_what_is_believed_is_always_a_number(first: int, answers: list[tuple[int, int]]) -> None:
    memory = believe(None, first, attached=0, held=1)
    for answered, attached in answers:
        memory = believe(memory, answered, attached=attached, held=1)
    assert memory is not None
    assert memory.believed >= 1


@given(st.integers(2, 128), st.data())
def test_a_restart_never_shrinks_a_number_by_volumes_of_pods(
    limit: int, data: st.DataObject
) -> None:
    held_by_pods = data.draw(st.integers(1, limit - 1))
    memory = believe(None, limit, attached=0, held=1)
    memory = believe(memory, limit - held_by_pods, attached=held_by_pods, held=1)
    assert memory is not None
    assert memory.believed == limit


def after(
    ceiling: Ceiling | None,
    *,
    refused: bool = False,
    attached: int = 16,
    held: int = 4,
    now: int = 0,
) -> Ceiling | None:
    return ceiling_after(
        ceiling, refused=refused, attached=attached, held=held, now=now, expires_after=DAY
    )


REACHED = Ceiling(count=16, held=4, at=0)


def test_a_refusal_sets_the_ceiling_at_what_is_attached() -> None:
    assert after(None, refused=True) == REACHED


def test_a_refusal_on_an_empty_node_says_nothing_of_its_slots() -> None:
    assert after(None, refused=True, attached=0) is None


def test_the_ceiling_stays_when_volumes_go() -> None:
    assert after(REACHED, attached=3, now=60) == REACHED


def test_the_ceiling_is_dropped_when_more_are_attached() -> None:
    assert after(REACHED, attached=17) is None


def test_the_ceiling_is_dropped_when_an_interface_is_gone() -> None:
    assert after(REACHED, held=3) is None


def test_the_ceiling_expires() -> None:
    assert after(REACHED, now=int(DAY)) is None


def test_a_second_refusal_at_the_same_number_changes_nothing() -> None:
    assert after(REACHED, refused=True, now=60) == REACHED


def test_a_late_refusal_at_the_same_number_renews_the_ceiling() -> None:
    assert after(REACHED, refused=True, now=50_000) == Ceiling(count=16, held=4, at=50_000)


def test_a_refusal_at_another_number_moves_the_ceiling() -> None:
    assert after(REACHED, refused=True, attached=14, now=60) == Ceiling(count=14, held=4, at=60)
