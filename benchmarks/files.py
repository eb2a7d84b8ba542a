"""Commands on files: a large cluster read and made a snapshot of, and a whole plan of a small one.

Each in a process of its own, with all that a stranger's first command pays: imports too.
"""

import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from benchmarks.clusters import LargeCluster, Size
from benchmarks.context import Context
from benchmarks.measurement import Row, memory

NAME = "files"
LARGE = Size(3_000, 18_000)
SMALL = Size(50, 500)
SMALL_FILE = Path(__file__).parent.parent / "examples" / "two-databases"
_PLAIN = {
    "json.load": "import json; json.load(open({path!r}, 'rb'))",
    "msgspec, untyped": "import msgspec; msgspec.json.decode(open({path!r}, 'rb').read())",
}


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What the fresh process measured, in seconds of processor and bytes."""

    read: float
    snapshot: float
    peak: int
    objects: int


def run(context: Context) -> Iterator[Row]:
    size = SMALL if context.quick else LARGE
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "cluster.json")
        _write(LargeCluster(size), file)
        work = f"{size.nodes:,} nodes, {file.stat().st_size / 1e6:,.0f} MB"
        report = _measured(file)
        plain = {name: _processor(code.format(path=str(file))) for name, code in _PLAIN.items()}
        work += f", {report.objects:,} objects"
        both = report.read + report.snapshot
        for name, seconds in plain.items():
            case = f"read and snapshot, beside {name}"
            yield Row(benchmark=NAME, case=case, work=work, value=both, aim=2.0, plain=seconds)
        yield Row(benchmark=NAME, case="read", work=work, value=report.read)
        yield Row(benchmark=NAME, case="snapshot", work=work, value=report.snapshot)
        yield Row(
            benchmark=NAME, case="at its peak", work=work, value=report.peak, unit="B", aim=3e8
        )
    times = context.times(20)
    for case, arguments, aim in (
        ("tonnage plan", ("plan", "-f", str(SMALL_FILE), "-o", "json"), 0.2),
        ("tonnage --help", ("--help",), 0.06),
    ):
        best = min(
            _processor("from tonnage.cli import main; main()", *arguments) for _ in range(times)
        )
        yield Row(
            benchmark=NAME,
            case=case,
            work=f"whole command, best of {times}",
            value=best,
            aim=aim,
            plain=min(_processor("import numpy, yaml, click") for _ in range(times)),
        )


def _write(cluster: LargeCluster, file: Path) -> None:
    """As `kubectl get -o json` gives it: one list, every object with its kind."""
    with file.open("wb") as out:
        separator = b'{"apiVersion":"v1","kind":"List","items":['
        for page in cluster.pages():
            items = msgspec.json.decode(page.body)["items"]
            for item in items:
                item["metadata"].pop("managedFields", None)  # as kubectl leaves them out
                out.write(separator)
                kind = {"apiVersion": page.kind.api_version, "kind": page.kind.kind}
                out.write(msgspec.json.encode({**kind, **item}))
                separator = b","
        out.write(b"]}")


def _measured(file: Path) -> Report:
    command = [sys.executable, "-m", "benchmarks.files", str(file)]
    ran = subprocess.run(command, capture_output=True, check=True)
    return msgspec.json.decode(ran.stdout, type=Report)


def _processor(code: str, *arguments: str) -> float:
    """Seconds of processor of a whole interpreter that runs the code."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _report(path: str) -> Report:
    from tonnage.files import load
    from tonnage.snapshot.snapshot import Snapshot

    started = time.process_time()
    objects = load([path]).objects
    read = time.process_time()
    Snapshot.of(objects)
    done = time.process_time()
    return Report(
        read=read - started, snapshot=done - read, peak=memory().peak, objects=len(objects)
    )


if __name__ == "__main__":
    sys.stdout.buffer.write(msgspec.json.encode(_report(sys.argv[1])))
