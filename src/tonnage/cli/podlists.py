"""Many pods in few words: the replicas of a set are one phrase, not a thousand names."""

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from tonnage.objects.phrases import counted

_ORDINAL = re.compile(r"(.*-)(0|[1-9][0-9]*)")
# The letters and digits Kubernetes makes names from, so that no word comes of it.
_GENERATED = re.compile(r"(.*-)[bcdfghjklmnpqrstvwxz2456789]{5}")
_RUNS_SHOWN = 3


class Series(NamedTuple):
    """Pods that look like replicas of one thing, and how to say so in one phrase."""

    phrase: str
    pods: int


def in_series(pods: Iterable[str], *, what: str = "pod") -> list[Series]:
    """Pods, named `namespace/name`, by the set they seem to belong to, in order of the first.

    Ordinals at the end of names become ranges (`shop/db-0 … db-9 (10 pods)`), generated
    endings a star (`shop/web-5d4f8c-* (3 pods)`); a pod alone keeps its name. `what` is the
    word for others that are numbered alike, such as nodes.
    """
    found: dict[tuple[str, str], list[str]] = {}
    for pod in dict.fromkeys(pods):
        found.setdefault(_family(pod), []).append(pod)
    return [Series(_phrase(key, members, what), len(members)) for key, members in found.items()]


def _family(pod: str) -> tuple[str, str]:
    for kind, form in (("ordinal", _ORDINAL), ("generated", _GENERATED)):
        match = form.fullmatch(pod)
        if match is not None:
            return kind, match[1]
    return "named", pod


def _phrase(family: tuple[str, str], members: Sequence[str], what: str) -> str:
    kind, stem = family
    if len(members) == 1:
        return members[0]
    if kind == "generated":
        return f"{stem}* ({counted(len(members), what)})"
    ordinals = sorted(int(pod.removeprefix(stem)) for pod in members)
    name = stem.partition("/")[2] or stem
    runs = _runs(ordinals)
    if len(runs) <= _RUNS_SHOWN:
        parts = [part for first, last in runs for part in _run(name, first, last)]
        return f"{stem.removesuffix(name)}{', '.join(parts)} ({counted(len(members), what)})"
    first, last = ordinals[0], ordinals[-1]
    return f"{stem}{first} … {name}{last} ({len(members):,} of {last - first + 1:,})"


def _run(name: str, first: int, last: int) -> list[str]:
    if last - first < 2:
        return [f"{name}{ordinal}" for ordinal in range(first, last + 1)]
    return [f"{name}{first} … {name}{last}"]


def _runs(ordinals: Sequence[int]) -> list[tuple[int, int]]:
    """First and last of each stretch without gaps."""
    ends = [this for this, following in pairwise(ordinals) if following != this + 1]
    starts = [following for this, following in pairwise(ordinals) if following != this + 1]
    return list(zip([ordinals[0], *starts], [*ends, ordinals[-1]], strict=True))
