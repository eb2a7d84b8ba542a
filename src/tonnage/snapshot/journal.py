"""How changes are taken back: by doing their opposites in reverse order.

Because the order is reversed, an opposite always meets the state its change left behind. So it
may put back what it kept from before, to the bit, without looking at what happened since.
"""

from collections.abc import Callable
from typing import Any


class Journal:
    """Holds, for every trial that is open, what would undo the changes made since."""

    def __init__(self) -> None:
        self._open: list[_Notes] = []

    @property
    def recording(self) -> bool:
        """Whether a change may have to be taken back; what costs to keep need not be kept else."""
        return bool(self._open)

    def undo_by(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Note how to take the change that is being made back."""
        if self._open:
            self._open[-1].undo.append((function, arguments))

    def put(self, held: dict[Any, Any], key: Any, value: Any) -> None:
        """Set an entry of a dictionary."""
        if self._open:
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
        would put the entry at the end. A trial copies a dictionary at most once.
        """
        if self._open and id(held) not in self._open[-1].kept:
            self._open[-1].kept.add(id(held))
            self._open[-1].undo.append((_refill, (held, held.copy())))

    def trial(self) -> "Trial":
        """A scope whose changes are taken back when it is left, unless it is to be kept."""
        return Trial(self)

    def open(self) -> int:
        """Begin to note how changes are taken back; gives how many scopes were open before."""
        self._open.append(_Notes())
        return len(self._open) - 1

    def revert_to(self, depth: int) -> None:
        """Take back everything since so many scopes were open."""
        while len(self._open) > depth:
            self._revert()

    def keep_to(self, depth: int) -> None:
        """Leave everything since as it is; a scope that is still open can take it back."""
        while len(self._open) > depth:
            done = self._open.pop()
            if self._open:
                self._open[-1].undo.extend(done.undo)
                self._open[-1].kept |= done.kept

    def _revert(self) -> None:
        undo = self._open.pop().undo
        # Undoing is a change too, but not one to be taken back.
        outer, self._open = self._open, []
        try:
            for function, arguments in reversed(undo):
                function(*arguments)
        finally:
            self._open = outer


class Trial:
    """What is changed inside `with` is taken back on every way out, unless it was to be kept.

    Trials nest. What an inner one keeps the outer one still takes back.
    """

    __slots__ = ("_depth", "_journal", "_kept")

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._depth = -1
        self._kept = False

    def __enter__(self) -> "Trial":
        self._depth = self._journal.open()
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        if self._kept and error is None:
            self._journal.keep_to(self._depth)
        else:
            self._journal.revert_to(self._depth)

    def keep(self) -> None:
        """Let the changes stay when the scope is left; not if an error leaves it."""
        self._kept = True

    def start_over(self) -> None:
        """Take back what was changed so far, and go on trying."""
        self._journal.revert_to(self._depth)
        self._journal.open()


class _Notes:
    """Opposites of changes, oldest first, and the ids of dictionaries that are among them."""

    __slots__ = ("kept", "undo")

    def __init__(self) -> None:
        self.undo: list[tuple[Callable[..., Any], tuple[Any, ...]]] = []
        self.kept: set[int] = set()


def _refill(held: dict[Any, Any], before: dict[Any, Any]) -> None:
    held.clear()
    held.update(before)
