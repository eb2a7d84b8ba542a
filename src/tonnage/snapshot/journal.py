"""How changes are taken back: by doing their opposites in reverse order."""

from collections.abc import Callable
from typing import Any


class Journal:
    """Holds, for every fork that is open, what would undo the changes made since."""

    def __init__(self) -> None:
        self._forks: list[list[tuple[Callable[..., Any], tuple[Any, ...]]]] = []

    def undo_by(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Note how to take the change that is being made back."""
        if self._forks:
            self._forks[-1].append((function, arguments))

    def fork(self) -> None:
        self._forks.append([])

    def revert(self) -> None:
        undo = self._forks.pop()
        # Undoing is a change too, but not one to be taken back.
        outer, self._forks = self._forks, []
        for function, arguments in reversed(undo):
            function(*arguments)
        self._forks = outer

    def commit(self) -> None:
        done = self._forks.pop()
        if self._forks:
            self._forks[-1].extend(done)
