"""JSON taken apart by its brackets alone, without building what stands between them.

For documents that a decoder cannot follow: nested deeper than its stack, or with one place in them
that is not JSON. Only strings, brackets and commas are looked at, a block of bytes at a time, so
that memory does not grow with the document. What is wrong otherwise shows when a part is decoded.
"""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

LEVELS = 64
"""How deep an object is looked into. The fields that are read lie 16 levels deep at most."""

_BLOCK = 2**20
_MEMBER = re.compile(rb'\s*"((?:[^"\\]|\\.)*+)"\s*:\s*', re.DOTALL)


def trimmed(data: bytes | msgspec.Raw, *, levels: int = LEVELS) -> bytes:
    """The same document with null for every list and mapping that lies deeper than `levels`.

    `ValueError` if its brackets do not match.
    """
    data = bytes(data)
    pieces: list[bytes] = []
    kept_from = 0
    for first, last in _spans(data, levels + 1):
        pieces += (data[kept_from:first], b"null")
        kept_from = last + 1
    pieces.append(data[kept_from:])
    return b"".join(pieces)


def elements(data: bytes | msgspec.Raw) -> list[bytes]:
    """The parts of a list or of a mapping, as they are written; `ValueError` if it is neither."""
    data = bytes(data).strip()
    marks = list(_marks(data, 1))
    # One container, from the first byte to the last.
    if len(marks) < 2 or marks[0][0] != 0 or marks[-1][0] != len(data) - 1:
        raise ValueError("neither a list nor a mapping")
    if any(char != _COMMA for _, char in marks[1:-1]):
        raise ValueError("more than one list or mapping")
    cuts = [at for at, _ in marks]
    parts = [data[start + 1 : end].strip() for start, end in pairwise(cuts)]
    return parts if parts != [b""] else []


def members(data: bytes | msgspec.Raw) -> dict[str, bytes]:
    """The values of a mapping as they are written, by key; `ValueError` if it is none."""
    found: dict[str, bytes] = {}
    for part in elements(data):
        key = _MEMBER.match(part)
        if key is None:
            raise ValueError("not a mapping")
        found[key[1].decode(errors="replace")] = part[key.end() :]
    return found


_QUOTE, _COMMA = ord('"'), ord(",")
_OPENING, _CLOSING = b"{[", b"}]"


def _spans(data: bytes, level: int) -> Iterator[tuple[int, int]]:
    """Where each list and mapping of a level begins and ends."""
    first: int | None = None
    for at, char in _marks(data, level, commas=False):
        if char in _OPENING:
            first = at
        elif first is not None:
            yield first, at
            first = None


def _marks(data: bytes, level: int, *, commas: bool = True) -> Iterator[tuple[int, int]]:
    """Brackets that open or close the lists and mappings of a level, and the commas in these."""
    # Hardly anybody ever needs this, and some processes are small only without it.
    import numpy as np

    steps = _table({**dict.fromkeys(_OPENING, 1), **dict.fromkeys(_CLOSING, -1)})
    wanted = _table(dict.fromkeys(_OPENING + _CLOSING + b'",', 1)).astype(bool)
    # Outside of strings there are no backslashes.
    text = np.frombuffer(data.replace(b"\\\\", b"__").replace(b'\\"', b"__"), np.uint8)
    depth, quotes, pairs = 0, 0, _Pairs()
    for start in range(0, len(text), _BLOCK):
        block = text[start : start + _BLOCK]
        at = np.flatnonzero(wanted[block])
        chars = block[at]
        quoted = quotes + np.cumsum(chars == _QUOTE)
        quotes = int(quoted[-1]) if len(quoted) else quotes
        outside = (quoted % 2 == 0) & (chars != _QUOTE)
        at, chars = at[outside], chars[outside]
        step = steps[chars]
        depths = depth + np.cumsum(step, dtype=np.int64)
        if len(depths):
            depth = int(depths[-1])
            if int(depths.min()) < 0:
                raise ValueError("brackets that do not match")
        levels = depths + (step < 0)
        brackets = step != 0
        pairs.check(levels[brackets], chars[brackets], step[brackets] < 0)
        chosen = levels == level
        if not commas:
            chosen &= brackets
        yield from zip((at[chosen] + start).tolist(), chars[chosen].tolist(), strict=True)
    if depth or quotes % 2:
        raise ValueError("brackets or quotes that are not closed")


class _Pairs:
    """Every bracket closes one of its kind: on each level, the last that was opened."""

    def __init__(self) -> None:
        import numpy as np

        self._open: NDArray[np.uint8] = np.zeros(1024, np.uint8)
        """By level, across blocks."""

    def check(
        self, levels: "NDArray[np.int64]", chars: "NDArray[np.uint8]", closes: "NDArray[np.bool_]"
    ) -> None:
        import numpy as np

        if not len(levels):
            return
        highest = int(levels.max())
        if highest >= len(self._open):
            self._open = np.concatenate((self._open, np.zeros(2 * highest, np.uint8)))
        order = np.argsort(levels, kind="stable")
        levels, chars, closes = levels[order], chars[order], closes[order]
        first = np.append(True, levels[1:] != levels[:-1])
        before = np.where(first, self._open[levels], np.roll(chars, 1))
        # In ASCII a bracket and the one that closes it are two apart.
        if not np.array_equal(chars[closes], before[closes] + 2):
            raise ValueError("brackets that do not match")
        last = np.append(first[1:], True)
        self._open[levels[last]] = chars[last]


def _table(values: dict[int, int]) -> "NDArray[np.int8]":
    import numpy as np

    table = np.zeros(256, np.int8)
    for char, value in values.items():
        table[char] = value
    return table
