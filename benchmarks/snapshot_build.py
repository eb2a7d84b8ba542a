"""A snapshot of the whole cluster: how long it takes, and how much memory stays taken.

A fresh process receives the cluster page by page through a pipe, as from an API server, keeps
every decoded object as a live cache does, and builds the snapshot from them.
"""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from typing import IO

import msgspec

from benchmarks.clusters import Page, decode
from benchmarks.context import Context
from benchmarks.measurement import Memory, Row, memory, once
from tonnage.objects import kinds
from tonnage.objects.kinds import KubeObject
from tonnage.objects.pods import Pod
from tonnage.objects.shared_values import SharedValues
from tonnage.snapshot.snapshot import Snapshot
from tonnage.testing import reference

NAME = "build"
_PLAIN_STEP = 10
_HEADER = 16
_BUILDS = 3


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What the fresh process measured."""

    pods: int
    objects: int
    classes: int
    bytes_read: int
    decode: float
    share: float
    build: float
    with_objects: Memory
    with_snapshot: Memory


def run(context: Context) -> Iterator[Row]:
    report = _in_fresh_process(context)
    others = report.objects - report.pods
    everything = f"{report.pods:,} pods, {others:,} other objects"
    plain, scale = _plain_decoding(context)
    yield Row(
        benchmark=NAME,
        case="decode JSON",
        work=f"{everything}, {report.bytes_read / 1e6:,.0f} MB",
        value=report.decode,
        plain=plain,
        plain_scale=scale,
    )
    yield Row(
        benchmark=NAME,
        case="share equal parts",
        work=f"{report.pods:,} pods",
        value=report.share,
    )
    yield Row(
        benchmark=NAME,
        case=f"snapshot from objects, best of {_BUILDS}",
        work=f"{len(context.cluster.nodes):,} nodes, {everything}, {report.classes:,} classes",
        value=report.build,
        aim=4.0,
        plain=_plain_counting(context),
        plain_scale=context.sample_scale,
    )
    yield Row(
        benchmark=NAME,
        case="resident: objects and snapshot",
        work=everything,
        value=report.with_snapshot.held,
        unit="B",
        aim=1.2e9,
    )
    yield Row(
        benchmark=NAME,
        case="resident: at its peak",
        work=everything,
        value=report.with_snapshot.peak,
        unit="B",
    )
    yield Row(
        benchmark=NAME,
        case="resident: snapshot alone",
        work=everything,
        value=report.with_snapshot.held - report.with_objects.held,
        unit="B",
    )


def _in_fresh_process(context: Context) -> Report:
    command = [sys.executable, "-m", "benchmarks.snapshot_build"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        for page in context.cluster.pages():
            _send(page, child.stdin)
        child.stdin.close()
        answer = child.stdout.read()
    if child.returncode:
        raise RuntimeError(f"{' '.join(command)} failed with code {child.returncode}")
    return msgspec.json.decode(answer, type=Report)


def _plain_decoding(context: Context) -> tuple[float, float]:
    """Seconds to make dictionaries of the same bytes with the standard library, and the scale."""
    total = part = 0
    taken = 0.0
    for number, page in enumerate(context.cluster.pages()):
        total += len(page.body)
        if number % _PLAIN_STEP == 0:
            part += len(page.body)
            taken += once(partial(json.loads, page.body))
    return taken * total / part, total / part


def _plain_counting(context: Context) -> float:
    """Lists of objects, and everything counted once: what the first question costs."""
    objects = context.sample
    asked = next(one for one in context.questions if one.name == "two bound claims")
    started = time.process_time()
    reference.verdicts(reference.ReferenceCluster(objects), asked.pod)
    return (time.process_time() - started) * context.sample_scale


def _send(page: Page, pipe: IO[bytes]) -> None:
    head = f"{page.kind.api_version} {page.kind.kind}".encode()
    for part in (head, page.body):
        pipe.write(len(part).to_bytes(_HEADER, "big"))
        pipe.write(part)


def _received(pipe: IO[bytes]) -> Iterator[Page]:
    while length := pipe.read(_HEADER):
        api_version, _, kind = pipe.read(int.from_bytes(length, "big")).decode().partition(" ")
        body = pipe.read(int.from_bytes(pipe.read(_HEADER), "big"))
        found = kinds.by_kind(api_version, kind)
        assert found is not None
        yield Page(found, body)


def _measure(pages: Iterator[Page]) -> Report:
    sharing = SharedValues()
    objects: list[KubeObject] = []
    decoding = shared = 0.0
    size = 0
    for page in pages:
        size += len(page.body)
        started = time.process_time()
        decoded = decode(page)
        at = time.process_time()
        objects += [sharing.pod(one) if isinstance(one, Pod) else one for one in decoded]
        decoding += at - started
        shared += time.process_time() - at
    with_objects = memory()
    started = time.process_time()
    snapshot = Snapshot.of(objects)
    build = time.process_time() - started
    with_snapshot = memory()
    classes = len(snapshot.classes)
    del snapshot
    again = [once(partial(Snapshot.of, objects)) for _ in range(_BUILDS - 1)]
    return Report(
        pods=sum(isinstance(one, Pod) for one in objects),
        objects=len(objects),
        classes=classes,
        bytes_read=size,
        decode=decoding,
        share=shared,
        build=min(build, *again),
        with_objects=with_objects,
        with_snapshot=with_snapshot,
    )


if __name__ == "__main__":
    sys.stdout.buffer.write(msgspec.json.encode(_measure(_received(sys.stdin.buffer))))
