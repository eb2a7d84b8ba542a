"""What holds for every engine that work is spread over, as tests that each of them inherits."""

import os
from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.contracts.engine_work import Counted, die_at_seven, double, fail_at_seven
from tonnage import engine
from tonnage.engine import Engine, FunctionTask, WorkerLostError, tasks


class EngineContract:
    """An engine's tests derive from this, and have a fixture `workers`: the engine, with two."""

    def test_pieces_are_taken_only_as_fast_as_answers_are_taken(self, workers: Engine) -> None:
        taken = 0

        def counting() -> Iterator[int]:
            nonlocal taken
            for number in range(1000):
                taken += 1
                yield number

        answers = engine.ordered(workers, FunctionTask(double), counting())
        with closing(answers):
            assert [next(answers) for _ in range(3)] == [0, 2, 4]
        assert taken < 20

    def test_what_work_raises_is_raised_in_its_turn(self, workers: Engine) -> None:
        given: list[int] = []
        with pytest.raises(ValueError, match="seven"):
            given.extend(engine.ordered(workers, FunctionTask(fail_at_seven), iter(range(20))))
        assert given == list(range(7))

    def test_what_the_pieces_raise_is_raised_after_what_came_before(self, workers: Engine) -> None:
        def cut_off() -> Iterator[int]:
            yield from range(5)
            raise OSError("cut off")

        given: list[int] = []
        with pytest.raises(OSError, match="cut off"):
            given.extend(engine.ordered(workers, FunctionTask(double), cut_off()))
        assert given == [0, 2, 4, 6, 8]

    def test_a_piece_that_kills_every_worker_fails_alone(self, workers: Engine) -> None:
        found = list(engine.outcomes(workers, FunctionTask(die_at_seven), iter(range(12))))
        assert sorted(one.position for one in found) == list(range(12))
        assert {one.position: one.answer[0] for one in found if one.answer} == {
            number: 2 * number for number in range(12) if number != 7
        }
        (failed,) = (one for one in found if one.error is not None)
        assert (failed.position, type(failed.error)) == (7, WorkerLostError)
        assert os.getpid() not in {one.answer[1] for one in found if one.answer}

    def test_a_process_prepares_once(self, workers: Engine) -> None:
        tasks.forget(Counted.key)
        Counted.times = 0
        answers = list(engine.ordered(workers, Counted(), iter(range(10))))
        assert [answer[:2] for answer in answers] == [(1, number) for number in range(10)]
        assert os.getpid() not in {process for _, _, process in answers}
