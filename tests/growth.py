"""How many entries the tables of a running component have: what may not grow for ever."""

import asyncio
from collections import Counter, deque
from collections.abc import Iterator
from typing import Any

import msgspec
from prometheus_client import CollectorRegistry


def sizes(thing: Any) -> Counter[str]:
    """Entries of every dictionary, list, set and queue that is reachable, by the way there.

    Of metrics, it is the samples that somebody who scrapes would get. Only objects of ours are
    looked into, and of the way only the last steps are told: a table that is reached by many ways
    is counted once.
    """
    found: Counter[str] = Counter()
    seen: set[int] = set()
    todo: deque[tuple[tuple[str, ...], Any]] = deque([((type(thing).__name__,), thing)])
    while todo:
        way, one = todo.popleft()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, dict | list | set | deque):
            found[".".join(way[-3:])] += len(one)
            inside = list(one.values()) if isinstance(one, dict) else list(one)
            todo += [((*way[:-1], f"{way[-1]}[]"), entry) for entry in inside]
        elif callable(one) and getattr(one, "__self__", None) is not None:
            todo.append((way, one.__self__))
        elif isinstance(one, asyncio.Queue):
            found[".".join(way[-3:])] += one.qsize()
        elif isinstance(one, CollectorRegistry):
            found[".".join(way[-3:])] += sum(len(metric.samples) for metric in one.collect())
        elif _is_ours(one):
            kind = type(one).__name__
            todo += [((*way[:-1], kind, name), entry) for name, entry in _fields(one)]
    return found


def grown(before: Counter[str], after: Counter[str], *, by: int = 0) -> dict[str, tuple[int, int]]:
    """Tables that have so many more entries than before."""
    return {way: (before[way], count) for way, count in after.items() if count > before[way] + by}


def _is_ours(one: Any) -> bool:
    """Whether it is part of a component; an embedded API server beside it is not."""
    module = type(one).__module__
    return (
        module.startswith("tonnage.")
        and not module.startswith("tonnage.embedded.")
        and not isinstance(one, msgspec.Struct)
    )


def _fields(one: Any) -> Iterator[tuple[str, Any]]:
    yield from getattr(one, "__dict__", {}).items()
    for kind in type(one).__mro__:
        slots = getattr(kind, "__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if hasattr(one, name):
                yield name, getattr(one, name)
