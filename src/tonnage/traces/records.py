"""The lines of a trace. Times are seconds since the recording began.

A line is one JSON object. The first is the head; which of the others it is, its fields say:

{"at", "kind", "name", "object"}   an object as it is now, whole
{"at", "kind", "name", "patch"}    an object that changed: JSON Patch from what it was
{"at", "kind", "name", "gone"}     an object that is no longer there
{"at", "action"}                   what the script of a simulation did, as scenarios have it
{"at", "known"}                    all objects there were at the beginning have been written
{"at", "beat"}                     nothing else happened until now
{"at", "end"}                      the recording ended here, as it was meant to
"""

from typing import Any

import msgspec

from tonnage.objects.meta import Record
from tonnage.objects.scenarios import API_VERSION, NodeGroup

KIND = "Trace"
FORMAT = 1
"""Raised when a reader of the format before would misread what is written."""


class TraceHead(Record, frozen=True, kw_only=True, omit_defaults=False):
    """What a reader has to know before the first change.

    `part` counts the files of one recording; each begins with all objects, so that it can be read
    alone. `at` is when in the recording this file begins. `simulation` is what was simulated, if
    the trace is of one: the scenario without its script, which is among the lines.
    """

    api_version: str = API_VERSION
    kind: str = KIND
    format: int = FORMAT
    name: str
    recorded_by: str = ""
    started_at: str
    at: float = 0.0
    part: int = 1
    kubernetes_version: str = ""
    anonymised: bool = False
    unread: tuple[str, ...] = ()
    """Kinds that could not be read."""
    node_groups: tuple[NodeGroup, ...] = ()
    simulation: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class TraceLine(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Anything but the head."""

    at: float
    kind: str = ""
    """As kubectl writes it: `pods`, `statefulsets.apps`."""
    name: str = ""
    """`namespace/name`, or the name."""
    object: dict[str, Any] | None = None
    patch: list[dict[str, Any]] | None = None
    gone: bool = False
    action: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    known: bool = False
    beat: bool = False
    end: str = ""
    """Why it ended: `duration`, `interrupted`."""
