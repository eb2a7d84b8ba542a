"""Changes that last are told, others are not."""

from tonnage.nodeagent.config import NodeAgentConfig
from tonnage.nodeagent.stabilization import Stabilizer


def settling(told: int | None = 25) -> Stabilizer:
    return Stabilizer({"d": told}, NodeAgentConfig(settle_lower=60.0, settle_higher=300.0))


def told(
    held: Stabilizer, *looks: tuple[float, int | None], at_once: bool = False
) -> list[int | None]:
    return [held.step("d", wanted, now=now, at_once=at_once) for now, wanted in looks]


def test_a_driver_that_is_new_is_told_at_once() -> None:
    assert settling().step("new", 10, now=0.0, at_once=False) == 10


def test_a_lower_number_is_told_after_a_minute() -> None:
    assert told(settling(), (0, 24), (30, 24), (60, 24)) == [25, 25, 24]


def test_a_higher_number_is_told_after_five() -> None:
    assert told(settling(), (0, 26), (60, 26), (300, 26)) == [25, 25, 26]


def test_a_number_that_comes_back_was_never_told() -> None:
    assert told(settling(), (0, 24), (59, 25), (61, 24), (100, 24)) == [25] * 4


def test_ever_lower_numbers_are_one_change_and_the_last_is_told() -> None:
    assert told(settling(), (0, 24), (30, 23), (60, 22)) == [25, 25, 22]


def test_from_lower_to_higher_the_waiting_begins_anew() -> None:
    assert told(settling(), (0, 24), (50, 26), (100, 24), (159, 24), (160, 24)) == [25] * 4 + [24]


def test_what_is_certain_is_told_at_once() -> None:
    assert told(settling(), (0, 16), at_once=True) == [16]


def test_a_limit_where_there_was_none_is_less_room() -> None:
    assert told(settling(None), (0, 25), (60, 25)) == [None, 25]


def test_no_limit_where_there_was_one_is_more_room() -> None:
    assert told(settling(), (0, None), (60, None), (300, None)) == [25, 25, None]


def test_a_forgotten_driver_is_new_again() -> None:
    held = settling()
    held.forget("d")
    assert told(held, (0, 3)) == [3]
