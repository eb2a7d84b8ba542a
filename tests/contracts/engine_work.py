"""Work for engines, apart from tests: workers elsewhere import nothing else with it."""

import os
import signal


def double(number: int) -> int:
    return 2 * number


def fail_at_seven(number: int) -> int:
    if number == 7:
        raise ValueError("seven")
    return number


def die_at_seven(number: int) -> tuple[int, int]:
    """Twice the number, and the process; at seven it is killed, each time."""
    if number == 7:
        os.kill(os.getpid(), signal.SIGKILL)
    return 2 * number, os.getpid()


class Counted:
    """A task that says how often it was prepared in its process, and which process that is."""

    key = "test-engines"
    times = 0

    def prepare(self) -> int:
        Counted.times += 1
        return Counted.times

    def answer(self, prepared: int, question: int) -> tuple[int, int, int]:
        return prepared, question, os.getpid()
