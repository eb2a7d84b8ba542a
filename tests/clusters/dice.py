"""Chance as an argument: the few ways the generator of clusters draws from a seeded source."""

import random
from collections.abc import Mapping, Sequence
from typing import TypeVar

T = TypeVar("T")


class Dice:
    """The same seed gives the same draws."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def chance(self, probability: float) -> bool:
        return self._random.random() < probability

    def between(self, least: int, most: int) -> int:
        return self._random.randint(least, most)

    def pick(self, options: Sequence[T]) -> T:
        return self._random.choice(options)

    def weighted(self, options: Mapping[T, int]) -> T:
        """One of the keys, as often as its number says."""
        return self._random.choices(list(options), weights=list(options.values()))[0]

    def some(
        self, options: Sequence[T], *, least: int = 1, most: int | None = None
    ) -> tuple[T, ...]:
        """Different options, in random order."""
        largest = len(options) if most is None else min(most, len(options))
        return tuple(self._random.sample(list(options), self.between(least, largest)))
