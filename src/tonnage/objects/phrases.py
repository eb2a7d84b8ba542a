"""Names and numbers as they stand in sentences."""

from collections.abc import Iterable, Sequence


def counted(count: int, what: str = "pod") -> str:
    """`1 pod`, `1,000 pods`"""
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def listed(names: Sequence[str], *, most: int = 3) -> str:
    """`a, b, c and 1,000 more`: there may be thousands."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def alternatives(asked: str, known: Iterable[str]) -> str:
    """What may have been meant: `near matches: a, b`, else `there are 5: a, b, c and 2 more`.

    Names of pods come as `namespace/name`.
    """
    names = sorted(known)
    near = (
        near_keys(asked, names) if all("/" in name for name in names) else near_names(asked, names)
    )
    if near:
        return f"near matches: {', '.join(near)}"
    if not names:
        return "there are none"
    return f"there {'is' if len(names) == 1 else 'are'} {len(names):,}: {listed(names)}"


def near_keys(asked: str, keys: Iterable[str]) -> list[str]:
    """Keys of objects that may have been meant; a name alone is held against names.

    So a long namespace does not hide the likeness.
    """
    by_part: dict[str, list[str]] = {}
    by_name: dict[str, list[str]] = {}
    for key in keys:
        name = key.partition("/")[2]
        by_part.setdefault(key if "/" in asked else name, []).append(key)
        by_name.setdefault(name, []).append(key)
    near = [key for part in near_names(asked, list(by_part)) for key in by_part[part]]
    return (near or by_name.get(asked.partition("/")[2], []))[:5]


def near_names(
    asked: str, names: Iterable[str], *, most: int = 3, cutoff: float = 0.6
) -> list[str]:
    """Those of the names that come near to what was asked for, the nearest first."""
    import difflib  # only who misspells has to wait for it

    return difflib.get_close_matches(asked, list(names), n=most, cutoff=cutoff)
