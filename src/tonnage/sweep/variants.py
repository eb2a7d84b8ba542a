"""Axes of changes, and the variants they span.

An axis is a what-if with several values: `limit=ebs.csi.aws.com:16,25,39`, `max-size=db:0..40..5`,
`seed=0..499`; `-` among the values is the cluster as it is. Axes that need the cluster to be built
anew come first, so that variants beside each other share as much as can be shared.
"""

from collections.abc import Iterable, Sequence
from decimal import Decimal, InvalidOperation
from math import prod
from typing import NamedTuple

from tonnage.errors import InputError

AS_IT_IS = "-"
LISTED = "variant"
"""The label of the names of listed variants, beside those of the axes."""

MOST_VALUES = 100_000
MOST_VARIANTS = 10_000_000

WITH_SUBJECT = ("limit", "replicas", "max-size", "min-size", "price", "option")
"""Changes written NAME=SUBJECT:VALUE."""

PLAIN = ("add-pods", "remove-node", "opt-in", "ignore-pdb", "seed", "duration")
"""Changes written NAME=VALUE."""

_CHEAP = ("max-size", "min-size", "price", "seed")
"""Changes that leave the nodes and pods of a cluster as they are."""


class Axis(NamedTuple):
    """Something that is varied: `label` is the change up to its value."""

    label: str
    values: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.label.partition("=")[0]

    @property
    def is_cheap(self) -> bool:
        return self.name in _CHEAP

    def change(self, value: str) -> str:
        """The change to one value; empty where nothing is changed."""
        if value == AS_IT_IS:
            return ""
        return f"{self.label}{':' if '=' in self.label else '='}{value}"


class ListedVariant(NamedTuple):
    """Changes that go together under a name."""

    name: str
    changes: tuple[str, ...]


class Variant(NamedTuple):
    """One cluster with some changes. `values` are those of the axes, by label, and the name of what
    was listed."""

    position: int
    cluster: int
    name: str
    changes: tuple[str, ...]
    values: dict[str, str]


class Space:
    """All variants of a sweep, each by its number; none of them is made before it is asked for."""

    def __init__(
        self, clusters: int, axes: Sequence[Axis], listed: Sequence[ListedVariant] = ()
    ) -> None:
        self.axes = tuple(sorted(axes, key=lambda axis: axis.is_cheap))
        labels = [axis.label for axis in self.axes]
        for label in labels:
            if labels.count(label) > 1:
                raise InputError(f"{label} is varied twice: give all its values at once")
        self._listed = tuple(listed) or (ListedVariant("", ()),)
        self._sizes = (clusters, len(self._listed), *(len(axis.values) for axis in self.axes))
        if len(self) > MOST_VARIANTS:
            raise InputError(
                f"{len(self):,} variants: expected at most {MOST_VARIANTS:,}; vary less at once"
            )

    def __len__(self) -> int:
        return prod(self._sizes)

    def variant(self, position: int) -> Variant:
        places: list[int] = []
        rest = position
        for size in reversed(self._sizes):
            rest, place = divmod(rest, size)
            places.append(place)
        cluster, listed, *chosen = reversed(places)
        of_list = self._listed[listed]
        values = {LISTED: of_list.name} if of_list.name else {}
        values |= {
            axis.label: axis.values[place] for axis, place in zip(self.axes, chosen, strict=True)
        }
        changes = [axis.change(axis.values[at]) for axis, at in zip(self.axes, chosen, strict=True)]
        made = (*of_list.changes, *filter(None, changes))
        words = ([of_list.name] if of_list.name else []) + [one for one in changes if one]
        return Variant(position, cluster, ", ".join(words) or "as it is", made, values)


def axes(texts: Iterable[str]) -> list[Axis]:
    """Axes as they are written."""
    return [axis(text) for text in texts]


def axis(text: str) -> Axis:
    """One axis: NAME=VALUES or NAME=SUBJECT:VALUES; values are a list, ranges among them."""
    name, _, rest = text.partition("=")
    if name in WITH_SUBJECT and rest:
        subject, _, values = rest.rpartition(":")
        label = f"{name}={subject}" if subject else ""
    else:
        label, values = (name, rest) if name in PLAIN else ("", "")
    if not label or not values:
        expected = [f"{one}=...:VALUES" for one in WITH_SUBJECT] + [
            f"{one}=VALUES" for one in PLAIN
        ]
        raise InputError(f"vary {text}: expected one of {', '.join(expected)}")
    found = [one for part in values.split(",") for one in _values(part.strip(), text)]
    if len(set(found)) != len(found):
        raise InputError(f"vary {text}: a value is there twice")
    return Axis(label, tuple(found))


def _values(text: str, whole: str) -> list[str]:
    """`A..B` and `A..B..STEP` are the numbers from A to B; everything else is itself."""
    if not text:
        raise InputError(f"vary {whole}: an empty value")
    parts = text.split("..")
    try:
        numbers = [Decimal(part) for part in parts] if len(parts) in (2, 3) else []
    except InvalidOperation:
        numbers = []
    if not numbers:
        return [text]
    first, last, step = (*numbers, Decimal(1))[:3]
    if step <= 0 or last < first:
        raise InputError(f"vary {whole}: {text}: expected FIRST..LAST..STEP, the smaller first")
    count = int((last - first) / step) + 1
    if count > MOST_VALUES:
        raise InputError(f"vary {whole}: {count:,} values: expected at most {MOST_VALUES:,}")
    return [f"{(first + step * turn).normalize():f}" for turn in range(count)]
