"""Names and numbers as they stand in sentences."""

from collections.abc import Sequence


def counted(count: int, what: str = "pod") -> str:
    """`1 pod`, `1,000 pods`"""
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def listed(names: Sequence[str], *, most: int = 3) -> str:
    """`a, b, c and 1,000 more`: there may be thousands."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
