"""The same cluster read over the same HTTP as dictionaries, with the standard library alone.

A process of its own, because of the memory. It reads one page in `STEP` and is scaled up.
"""

import json
import sys
import time
import urllib.request
from typing import Any

import msgspec

from benchmarks.measurement import memory

STEP = 10


class Plain(msgspec.Struct, frozen=True, kw_only=True):
    """Of a part: `scale` says how many such parts make the whole."""

    cpu: float
    resident: int
    objects: int
    scale: float


def read(url: str) -> Plain:
    before, started = memory().held, time.process_time()
    kept, total, objects = [], 0, 0
    there: dict[str, int] = _get(f"{url}/pages")
    for path, pages in there.items():
        total += pages
        for number in range(0, pages, STEP):
            page = _get(f"{url}{path}?limit=500&continue={number}")
            kept.append(page)
            objects += len(page["items"])
    return Plain(
        cpu=time.process_time() - started,
        resident=memory().held - before,
        objects=objects,
        scale=total / len(kept),
    )


def _get(url: str) -> Any:
    with urllib.request.urlopen(url) as response:
        return json.load(response)


if __name__ == "__main__":
    sys.stdout.buffer.write(msgspec.json.encode(read(sys.argv[1])))
