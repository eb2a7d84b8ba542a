"""The annotation on the node: what was published, where it came from, and what to remember.

It is for people, and for the agent itself: after a restart it knows what drivers said before,
which keys are its own, and what the CSINode said before it wrote there.
"""

from collections.abc import Mapping

import msgspec

from tonnage.nodeagent.beliefs import Ceiling, Memory
from tonnage.nodeagent.effective_limit import LimitSource
from tonnage.objects.codec import UNDECODABLE
from tonnage.objects.meta import Record

ANNOTATION = "tonnage.dev/attach-limits"


class Written(Record, frozen=True, kw_only=True, omit_defaults=False):
    """The count in the CSINode: ours, and the one it replaced; `None` is no limit."""

    count: int
    before: int | None


class ProvenanceEntry(Record, frozen=True, kw_only=True):
    """One driver, or in-tree plugin. Without a count nothing is published under its key."""

    key: str
    count: int | None = None
    source: LimitSource = LimitSource.NOBODY
    reason: str = ""
    memory: Memory | None = None
    ceiling: Ceiling | None = None
    csinode: Written | None = None


def encode(entries: Mapping[str, ProvenanceEntry]) -> str:
    return msgspec.json.encode(entries, order="sorted").decode()


def decode(annotations: Mapping[str, str]) -> dict[str, ProvenanceEntry]:
    """What an agent wrote; nothing if somebody else has spoilt it: it is written anew then."""
    try:
        return msgspec.json.decode(
            annotations.get(ANNOTATION, "{}"), type=dict[str, ProvenanceEntry]
        )
    except UNDECODABLE:
        return {}
