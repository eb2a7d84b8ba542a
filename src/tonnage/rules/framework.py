"""What a rule is: all that anybody asks about one dimension of a node.

A rule answers for all nodes at once: a code per row, and on request the reasons for one row.
Stages and codes are kube-scheduler's. Who plans, scores, explains or wakes loops over rules.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum, IntEnum, StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from tonnage.objects import volumes
from tonnage.objects.volumes import Slots
from tonnage.rules.causes import Cause, Fact, Reason, Shortage
from tonnage.rules.features import Features
from tonnage.snapshot.bulk_pods import Footprint
from tonnage.snapshot.classes import PodClass
from tonnage.snapshot.imagined import TemplateRow
from tonnage.snapshot.rows import Bools, Ints, RowIndex, Rows
from tonnage.snapshot.snapshot import PodRecord, Snapshot

if TYPE_CHECKING:
    from tonnage.rules.caps import CapStep

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

    def __init__(
        self,
        snapshot: Snapshot,
        pod: PodRecord,
        features: Features,
        *,
        promised: Callable[[str], Ints] | None = None,
    ) -> None:
        self.snapshot = snapshot
        self.pod = pod
        self.features = features
        self._promised = promised

    def promised(self, resource: str) -> "Ints | int":
        """What others were promised of a resource on each row, and have not taken yet."""
        return 0 if self._promised is None else self._promised(resource)

    @property
    def pod_class(self) -> PodClass:
        return self.pod.pod_class

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
        for constraint in self.pod_class.spread:
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


class NodeResults:
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
    ) -> "NodeResults":
        """One code for all rows that do not pass."""
        codes = np.zeros(len(passes), dtype=np.int8)
        if not passes.all():
            codes[~passes] = code
        return cls(codes, reasons, kinds=kinds)

    def kinds(self) -> Ints:
        if self._kinds is None:
            return np.zeros(len(self.codes), dtype=np.int64)
        return self._kinds()


class PreFilter:
    """A filter that has looked at the pod: it may name the only nodes worth filtering."""

    __slots__ = ("only", "results")

    def __init__(self, results: Callable[[], NodeResults], *, only: set[str] | None = None) -> None:
        self.results = results
        self.only = only


SKIP = None
Outcome: TypeAlias = PreFilter | Rejection | None
"""What a filter begins with: something to run, a refusal, or nothing to do for this pod."""


class EventKind(StrEnum):
    """What happens in a cluster, as "Kind.what": rules name their cures by it."""

    NODE_ADDED = "Node.add"
    NODE_DELETED = "Node.delete"
    NODE_LABELLED = "Node.label"
    NODE_TAINTED = "Node.taint"
    NODE_ALLOCATABLE = "Node.allocatable"
    NODE_FEATURES = "Node.declaredFeatures"
    POD_ADDED = "Pod.add"
    POD_DELETED = "Pod.delete"
    POD_LABELLED = "Pod.label"
    POD_RESIZED = "Pod.resize"
    POD_TOLERATIONS = "Pod.tolerations"
    NAMESPACE_LABELLED = "Namespace.label"
    CLAIM_ADDED = "PersistentVolumeClaim.add"
    CLAIM_UPDATED = "PersistentVolumeClaim.update"
    VOLUME_ADDED = "PersistentVolume.add"
    VOLUME_UPDATED = "PersistentVolume.update"
    CLASS_ADDED = "StorageClass.add"
    CLASS_UPDATED = "StorageClass.update"
    CSI_NODE_ADDED = "CSINode.add"
    CSI_NODE_UPDATED = "CSINode.update"
    CSI_DRIVER_UPDATED = "CSIDriver.update"
    CAPACITY_ADDED = "CSIStorageCapacity.add"
    CAPACITY_UPDATED = "CSIStorageCapacity.update"
    ATTACHMENT_DELETED = "VolumeAttachment.delete"


class Aspect(Enum):
    """What the refusals of a rule are about, for those who tell them apart."""

    VOLUMES = "volumes"
    OTHER_PODS = "other pods"
    """What refuses an empty node today may take it tomorrow."""


class Measure(msgspec.Struct, frozen=True):
    """How full rows are of one resource; capacity is `UNLIMITED` where a row has no limit."""

    resource: str
    used: Ints
    capacity: Ints


class Count(NamedTuple):
    """What each of some rows has left of one resource; a pod must find `asked` there, and `takes`.

    Only as much as `takes` is gone when it is there: what a pod asks for need not be what it uses.
    """

    resource: str
    left: Ints
    asked: int
    takes: int


class Need:
    """What one pod would newly take of a resource on every row, and what there is of it."""

    def __init__(self, resource: str, wanted: Ints, taken: Ints, limit: Ints) -> None:
        self.resource = resource
        self.wanted = wanted
        self.taken = taken
        self.limit = limit

    @cached_property
    def exceeded(self) -> Bools:
        """Rows that have too little."""
        # Written as a difference: a limit may be the largest number there is.
        return (self.wanted > 0) & (self.wanted > self.limit - self.taken)


class Rule:
    """One rule of scheduling, and all that is known of its dimension.

    `cures` are the events that can turn its refusal into a pass. A rule that has nothing to say
    to a question leaves it out.
    """

    name: str
    cures: tuple[EventKind, ...] = (EventKind.NODE_ADDED,)
    about: frozenset[Aspect] = frozenset()

    def pre_filter(self, ask: Ask) -> Outcome:
        """Look at the pod, before any node: something to run, a refusal, or nothing to do."""
        raise NotImplementedError

    def footprint(self, snapshot: Snapshot, footprint: Footprint) -> Mapping[str, int]:
        """What one such pod takes, by resource, where none of its volumes is yet."""
        return {}

    def room(self, snapshot: Snapshot, footprint: Footprint, rows: Rows) -> Ints | None:
        """How many more such pods each row has room for; `None`: not a matter of counting."""
        return None

    def counts(
        self, snapshot: Snapshot, footprint: Footprint, rows: Rows
    ) -> Iterable[Count] | None:
        """What `room` is counted from; `None` if such numbers do not say all of it."""
        return None

    def within_shared(
        self,
        snapshot: Snapshot,
        footprint: Footprint,
        room: Ints,
        rows: RowIndex,
    ) -> Ints:
        """The room of the rows, cut where rows before have used up what they share."""
        return room

    def caps(self, ask: Ask, template: TemplateRow) -> "Iterable[CapStep]":
        """What lowers the number of such pods on new nodes of a template, step by step."""
        return ()

    def alone_on_node(self, pod_class: PodClass, templates: Sequence[TemplateRow]) -> Bools | None:
        """Templates on a node of which no two such pods go, whatever room it has; `None`: none."""
        return None

    def take(self, ask: Ask, row: int) -> None:
        """Take what the very pod takes on a row beside what the snapshot counts by itself.

        Asked just before the pod is placed there, and taken back with the trial.
        """

    def depends_on_others(self, ask: Ask, footprint: Footprint) -> bool:
        """Whether where such pods fit may change with where others go that take no room there."""
        return False

    def measures(self, snapshot: Snapshot, rows: Rows) -> Iterable[Measure]:
        """How full the rows are."""
        return ()

    def needs(self, ask: Ask) -> Iterable[Need]:
        """What the very pod would newly take on each row, of what is set aside for pods by name."""
        return ()

    def helps(self, event: EventKind, subject: object, pod: PodRecord, snapshot: Snapshot) -> bool:
        """Whether what happened to the subject may help this pod, which the rule refused."""
        return True


def single(cause: Cause, **facts: Fact) -> tuple[Reason, ...]:
    """A single reason."""
    return (Reason(cause, facts),)


def short_of(
    resource: str, cause: Cause, /, *, wanted: int, used: int, limit: int, **facts: Fact
) -> Reason:
    """The reason of a row that has too little left of a resource."""
    numbers = {"used": used, "wanted": wanted, "limit": limit}
    return Reason(cause, {**facts, **numbers}, Shortage(resource, wanted, limit - used))


def always(cause: Cause, **facts: Fact) -> Reasons:
    """The same single reason for every row."""
    reasons = single(cause, **facts)
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
