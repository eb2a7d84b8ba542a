"""One thing that is wrong, in a form that people and programs can use."""

from typing import Any, Literal, TypeAlias

from tonnage.objects.meta import Record

Severity: TypeAlias = Literal["error", "warning", "info"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")


class Finding(Record, frozen=True, kw_only=True, omit_defaults=False):
    """`object` is `Kind name`, or `Kind namespace/name`; `code` is one of `codes.ALL`."""

    code: str
    severity: Severity
    object: str
    message: str
    facts: dict[str, Any] = {}
