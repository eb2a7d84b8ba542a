"""Room that is kept ready: for chunks that are like pods, or for attach slots of a driver.

A chunk is a pod that is only thought of. It waits for no node and is bound to none; whoever really
waits goes before it. Its key has a character that no name of a pod may have.

    headroom:
    - {driver: ebs.csi.aws.com, slots: 50, perZone: true}
"""

from collections.abc import Iterable

import msgspec

from tonnage.errors import InputError
from tonnage.groups.cron_windows import CronWindow
from tonnage.objects.meta import Record
from tonnage.objects.pods import PodTemplateSpec, Toleration
from tonnage.objects.storage import PersistentVolumeClaim

MOST_CHUNKS = 10_000
"""Of one buffer; more is a slip of the keyboard, and would cost every decision its time."""

BUFFER = "capacitybuffer"
SLOTS = "headroom"
REQUEST = "provisioningrequest"
AHEAD = "lookahead"
"""What chunks are of; those of a request are its pods, by set, and those ahead of a controller the
pods that it makes next."""


class SlotHeadroom(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Attach slots of a driver that are to stay free: in all, or in every zone with nodes for it.

    Only nodes on which the driver is registered count. With windows it is so while one is open.
    """

    driver: str
    slots: int
    per_zone: bool = False
    node_selector: dict[str, str] = {}
    tolerations: tuple[Toleration, ...] = ()
    windows: tuple[CronWindow, ...] = ()

    def __post_init__(self) -> None:
        if not self.driver:
            raise ValueError("driver: expected the name of a CSI driver")
        if not 0 <= self.slots <= MOST_CHUNKS:
            raise ValueError(f"slots: {self.slots}: expected 0 to {MOST_CHUNKS}")
        for position, window in enumerate(self.windows):
            try:
                window.check(f"windows[{position}]")
            except InputError as error:
                raise ValueError(str(error).replace("`", "")) from None


class KeptRoom(Record, frozen=True, kw_only=True):
    """Room for some chunks, each like a pod of the template with claims of its own.

    `claims` are templates, as a StatefulSet has them. `ahead_of` is the kind of the controller that
    makes these pods next; empty for a CapacityBuffer.
    """

    namespace: str
    name: str
    chunks: int
    template: PodTemplateSpec
    claims: tuple[PersistentVolumeClaim, ...] = ()
    ahead_of: str = ""

    @property
    def base(self) -> str:
        """What the names of its chunks begin with."""
        if self.ahead_of:
            return chunk_base(AHEAD, f"{self.ahead_of}.{self.name}")
        return chunk_base(BUFFER, self.name)

    @property
    def title(self) -> str:
        if self.ahead_of:
            return _title_ahead(self.ahead_of, self.namespace, self.name)
        return f"CapacityBuffer {self.namespace}/{self.name}"


class ChunkName(msgspec.Struct, frozen=True):
    """What the key of a chunk says: whose it is."""

    kind: str
    namespace: str
    name: str

    @property
    def title(self) -> str:
        if self.kind == BUFFER:
            return f"CapacityBuffer {self.namespace}/{self.name}"
        if self.kind == AHEAD:
            controller, _, name = self.name.partition(".")
            return _title_ahead(controller, self.namespace, name)
        if self.kind == REQUEST:
            return f"ProvisioningRequest {self.namespace}/{self.name.rpartition('.')[0]}"
        return f"headroom {self.name}"


def _title_ahead(controller: str, namespace: str, name: str) -> str:
    return f"next pods of {controller} {namespace}/{name}"


def is_chunk(pod: str) -> bool:
    """Whether a key of a pod, namespace/name, is one of a chunk."""
    return ":" in pod


def chunk_base(kind: str, name: str) -> str:
    """What the names of the chunks begin with."""
    return f"{kind}:{name}"


def of_chunk(key: str) -> ChunkName:
    """Whose chunk it is."""
    namespace, _, rest = key.partition("/")
    kind, _, numbered = rest.partition(":")
    return ChunkName(kind, namespace, numbered.rpartition("-")[0])


def is_open(windows: Iterable[CronWindow], now: float) -> bool:
    """Whether it is time; always, where there are no windows."""
    known = list(windows)
    return not known or any(window.is_open(now) for window in known)
