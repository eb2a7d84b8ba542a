"""The protocol of a filter and what it answers with.

A filter answers for all nodes at once: a code per row, and on request the reasons
for one row. Stages and codes are kube-scheduler's.
"""

from collections.abc import Callable, Iterable
from enum import IntEnum
from functools import cached_property
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from tonnage.filters.causes import Cause, Fact, Reason
from tonnage.filters.features import Features
from tonnage.objects import volumes
from tonnage.objects.volumes import Slots
from tonnage.snapshot.classes import PodClass
from tonnage.snapshot.rows import Bools, Ints
from tonnage.snapshot.snapshot import PodRecord, Snapshot

Codes: TypeAlias = npt.NDArray[np.int8]


_FLAGS_AT_ONCE = 30
"""Flags that a number gets before it is made small again; of rows there are fewer than 2 ** 33."""


class Code(IntEnum):
    SUCCESS = 0
    ERROR = 1
    UNSCHEDULABLE = 2
    UNRESOLVABLE = 3

    def __str__(self) -> str:
        return _CODE_NAMES[self]


_CODE_NAMES = {
    Code.SUCCESS: "Success",
    Code.ERROR: "Error",
    Code.UNSCHEDULABLE: "Unschedulable",
    Code.UNRESOLVABLE: "UnschedulableAndUnresolvable",
}


class Ask:
    """One question: would this pod fit, on the cluster as it is?"""

    def __init__(self, snapshot: Snapshot, pod: PodRecord, features: Features) -> None:
        self.snapshot = snapshot
        self.pod = pod
        self.features = features

    @property
    def pods(self) -> PodClass:
        return self.pod.pods

    @property
    def size(self) -> int:
        return self.snapshot.table.size

    @cached_property
    def slots(self) -> Slots:
        """The attach slots the pod would take."""
        return volumes.slots(self.pod.meta, self.pod.volumes, self.snapshot.storage, placed=False)

    @cached_property
    def spread_rows(self) -> Bools:
        """Living rows that have the label of every spread constraint of the pod."""
        mask = self.snapshot.table.alive.data[: self.size].copy()
        for constraint in self.pods.spread:
            if not mask.any():
                break
            mask &= ~self.snapshot.columns.labels.find(constraint.topology_key).absent(
                slice(0, self.size)
            )
        return mask


class Rejection:
    """A pod refused before any node was looked at."""

    __slots__ = ("code", "reason")

    def __init__(self, code: Code, cause: Cause, **facts: Fact) -> None:
        self.code = code
        self.reason = Reason(cause, facts)


Reasons: TypeAlias = Callable[[int], tuple[Reason, ...]]
"""The reasons for a row that is refused."""


class Screen:
    """A code for every row, and the reasons for the rows that are refused.

    Rows refused with the same code and the same kind are refused in the same words, though
    perhaps with other facts. Without `kinds` the code says it all. Errors are left aside.
    """

    __slots__ = ("_kinds", "codes", "reasons")

    def __init__(
        self, codes: Codes, reasons: Reasons, *, kinds: Callable[[], Ints] | None = None
    ) -> None:
        self.codes = codes
        self.reasons = reasons
        self._kinds = kinds

    @classmethod
    def passing(
        cls,
        passes: Bools,
        code: Code,
        reasons: Reasons,
        *,
        kinds: Callable[[], Ints] | None = None,
    ) -> "Screen":
        """One code for all rows that do not pass."""
        return cls(np.where(passes, np.int8(Code.SUCCESS), np.int8(code)), reasons, kinds=kinds)

    def kinds(self) -> Ints:
        if self._kinds is None:
            return np.zeros(len(self.codes), dtype=np.int64)
        return self._kinds()


class Begun:
    """A filter that has looked at the pod: it may name the only nodes worth filtering."""

    __slots__ = ("only", "screen")

    def __init__(self, screen: Callable[[], Screen], *, only: set[str] | None = None) -> None:
        self.screen = screen
        self.only = only


SKIP = None
Outcome: TypeAlias = Begun | Rejection | None
"""What a filter begins with: something to run, a refusal, or nothing to do for this pod."""


class Filter(Protocol):
    """One rule of the scheduler.

    `cures` are the changes that can turn its refusal into a pass, as "Kind" or
    "Kind.what"; queues wake pods by them.
    """

    @property
    def name(self) -> str: ...

    @property
    def cures(self) -> tuple[str, ...]: ...

    def begin(self, ask: Ask) -> Outcome: ...


def one(cause: Cause, **facts: Fact) -> tuple[Reason, ...]:
    """A single reason."""
    return (Reason(cause, facts),)


def always(cause: Cause, **facts: Fact) -> Reasons:
    """The same single reason for every row."""
    reasons = one(cause, **facts)
    return lambda _: reasons


def kinds_of(flags: Iterable[Bools]) -> Ints:
    """A number per row that is the same where the same flags are up."""
    kinds: Ints = np.zeros(1, dtype=np.int64)
    for place, flag in enumerate(flags, start=1):
        kinds = (kinds << 1) | flag
        if place % _FLAGS_AT_ONCE == 0:
            # Numbers that are small again leave room for more flags.
            kinds = np.unique(kinds, return_inverse=True)[1].astype(np.int64)
    return kinds
