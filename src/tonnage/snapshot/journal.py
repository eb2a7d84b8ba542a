"""How changes are taken back: by doing their opposites in reverse order.

Because the order is reversed, an opposite always meets the state its change left behind. So it
may put back what it kept from before, to the bit, without looking at what happened since.
"""

from collections.abc import Callable
from typing import Any


class Journal:
    """Holds, for every fork that is open, what would undo the changes made since."""

    def __init__(self) -> None:
        self._forks: list[_Fork] = []

    @property
    def recording(self) -> bool:
        """Whether a change may have to be taken back; what costs to keep need not be kept else."""
        return bool(self._forks)

    def undo_by(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Note how to take the change that is being made back."""
        if self._forks:
            self._forks[-1].undo.append((function, arguments))

    def put(self, held: dict[Any, Any], key: Any, value: Any) -> None:
        """Set an entry of a dictionary."""
        if self._forks:
            if key in held:
                self.undo_by(held.__setitem__, key, held[key])
            else:
                self.undo_by(held.__delitem__, key)
        held[key] = value

    def remove(self, held: dict[Any, Any], key: Any) -> None:
        """Remove an entry of a dictionary of values that do not change."""
        self.keep(held)
        del held[key]

    def keep(self, held: dict[Any, Any]) -> None:
        """Have a revert give back what the dictionary holds now, in the order it has it.

        For dictionaries of values that do not change, before an entry is removed: its opposite
        would put the entry at the end. A fork copies a dictionary at most once.
        """
        if self._forks and id(held) not in self._forks[-1].kept:
            self._forks[-1].kept.add(id(held))
            self._forks[-1].undo.append((_refill, (held, held.copy())))

    def fork(self) -> None:
        self._forks.append(_Fork())

    def revert(self) -> None:
        undo = self._forks.pop().undo
        # Undoing is a change too, but not one to be taken back.
        outer, self._forks = self._forks, []
        for function, arguments in reversed(undo):
            function(*arguments)
        self._forks = outer

    def commit(self) -> None:
        done = self._forks.pop()
        if self._forks:
            self._forks[-1].undo.extend(done.undo)
            self._forks[-1].kept |= done.kept


class _Fork:
    """Opposites of changes, oldest first, and the ids of dictionaries that are among them."""

    __slots__ = ("kept", "undo")

    def __init__(self) -> None:
        self.undo: list[tuple[Callable[..., Any], tuple[Any, ...]]] = []
        self.kept: set[int] = set()


def _refill(held: dict[Any, Any], before: dict[Any, Any]) -> None:
    held.clear()
    held.update(before)
