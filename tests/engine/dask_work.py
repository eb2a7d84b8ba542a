"""Work for processes of a Dask cluster, apart from tests: workers import nothing else with it."""

import os
import signal


def die_at_five(number: int) -> tuple[int, int]:
    """Twice the number, and the process; at five it is killed, each time."""
    if number == 5:
        os.kill(os.getpid(), signal.SIGKILL)
    return 2 * number, os.getpid()


class Counted:
    """A task that says how often it was prepared in its process."""

    key = "test-dask"
    times = 0

    def prepare(self) -> int:
        Counted.times += 1
        return Counted.times

    def answer(self, prepared: int, question: int) -> tuple[int, int]:
        return prepared, question
