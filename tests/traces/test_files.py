"""Traces in files: written, read back, cut off, damaged, and made by somebody else."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from tonnage.errors import InputError
from tonnage.objects import kinds
from tonnage.objects.pods import Pod
from tonnage.traces.log import TraceLog
from tonnage.traces.reader import TraceEvent, TraceFiles
from tonnage.traces.records import TraceHead
from tonnage.traces.writer import TraceWriter

PODS = kinds.by_type(Pod)
RENAMING = '{"op": "replace", "path": "/metadata/name", "value": "b"}'
GOOD = '{"at":0,"kind":"pods","name":"default/a","object":{"metadata":%s}}'
HEAD = TraceHead(name="test", started_at="2026-01-01T00:00:00Z")


def pod(name: str, **status: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "default"}, "status": status}


def written(path: Path, *, rotate_after: int | None = None, changes: int = 20) -> list[Path]:
    """A trace of one pod that changes every second, and another that comes and goes."""
    log = TraceLog(TraceWriter(path, HEAD, rotate_after=rotate_after))
    log.put(PODS, pod("a"), at=0.0)
    log.known(at=0.0)
    for at in range(1, changes + 1):
        log.put(PODS, pod("a", turn=at), at=float(at))
        log.beat(at=float(at))
    log.put(PODS, pod("b"), at=changes + 1.0)
    log.remove(PODS, "default/b", at=changes + 2.0)
    log.end("duration", at=changes + 3.0)
    return log.writer.paths


def objects(events: list[TraceEvent]) -> list[tuple[float, str, Any]]:
    return [
        (event.at, event.name, event.after and event.after.get("status", {}).get("turn"))
        for event in events
        if event.kind is not None
    ]


def readable(path: Path) -> list[tuple[float, str, Any]]:
    """What can be read of a trace that was cut off; nothing if its beginning is not there."""
    try:
        trace = TraceFiles([path])
        found = objects(list(trace.events()))
    except InputError:
        return []
    assert trace.cut
    return found


def test_what_is_written_is_read(tmp_path: Path) -> None:
    trace = TraceFiles(written(tmp_path / "t.jsonl.gz", changes=2))
    assert objects(list(trace.events())) == [
        (0.0, "default/a", None),
        (1.0, "default/a", 1),
        (2.0, "default/a", 2),
        (3.0, "default/b", None),
        (4.0, "default/b", None),
    ]
    assert (trace.duration, trace.cut, trace.head.name) == (5.0, False, "test")


def test_an_equal_object_writes_nothing(tmp_path: Path) -> None:
    log = TraceLog(TraceWriter(tmp_path / "t.gz", HEAD))
    log.put(PODS, pod("a"), at=0.0)
    log.put(PODS, pod("a"), at=1.0)
    assert log.writer.lines == 1


def test_a_trace_cut_off_anywhere_is_read_up_to_there(tmp_path: Path) -> None:
    (path,) = written(tmp_path / "t.jsonl.gz")
    whole = path.read_bytes()
    everything = objects(list(TraceFiles([path]).events()))
    cut, seen = tmp_path / "cut.gz", set()
    for length in range(0, len(whole), 7):
        cut.write_bytes(whole[:length])
        found = readable(cut)
        assert found == everything[: len(found)]
        seen.add(len(found))
    assert len(seen) > 15  # it is flushed with every beat


def test_what_was_flushed_is_readable_while_it_is_written(tmp_path: Path) -> None:
    log = TraceLog(TraceWriter(tmp_path / "t.gz", HEAD))
    log.put(PODS, pod("a"), at=0.0)
    log.known(at=0.0)
    log.beat(at=10.0)
    trace = TraceFiles([tmp_path / "t.gz"])
    assert len(list(trace.events())) == 3
    assert (trace.duration, trace.cut) == (10.0, True)


def test_each_file_of_a_rotated_trace_can_be_read_alone(tmp_path: Path) -> None:
    paths = written(tmp_path / "t.jsonl.gz", rotate_after=300)
    assert [path.name for path in paths[:3]] == ["t.jsonl.gz", "t.2.jsonl.gz", "t.3.jsonl.gz"]
    last = TraceFiles(paths[-1:])
    names = {event.name for event in last.events() if event.kind is not None}
    assert "default/a" in names
    assert last.head.part == len(paths)


def test_the_files_of_a_rotated_trace_are_one_trace(tmp_path: Path) -> None:
    whole = objects(list(TraceFiles(written(tmp_path / "whole.gz")).events()))
    parts = objects(list(TraceFiles(written(tmp_path / "t.gz", rotate_after=300)).events()))
    assert parts == whole


def test_files_that_do_not_belong_together_are_refused(tmp_path: Path) -> None:
    paths = written(tmp_path / "t.gz", rotate_after=300)
    with pytest.raises(InputError, match="expected part 2"):
        TraceFiles([paths[0], paths[2]])


def test_a_damaged_file_is_an_error(tmp_path: Path) -> None:
    (path,) = written(tmp_path / "t.gz")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(bytes(data))
    with pytest.raises(InputError):
        list(TraceFiles([path]).events())


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("no json", "malformed"),
        ('{"at": "x"}', "Expected `float`"),
        ('{"at": 1e999}', "later time|out of range"),
        ('{"at": -5}', "later time"),
        ('{"at": 1, "kind": "pods", "name": "default/x", "gone": true}', "was never there"),
        ('{"at": 1, "kind": "pods", "name": "default/x", "patch": []}', "was never there"),
        ('{"at": 1, "kind": "pods", "name": "default/a"}', "expected object, patch or gone"),
        ('{"at": 1, "kind": "pods", "name": "default/a", "object": {}}', "expected a name"),
        (
            '{"at": 1, "kind": "pods", "name": "default/a", "patch": [{"op": "x", "path": ""}]}',
            "expected add, remove or replace",
        ),
        (
            f'{{"at": 1, "kind": "pods", "name": "default/a", "patch": [{RENAMING}]}}',
            "expected the object of that name",
        ),
        ("[" * 100_000, "malformed|recursion|Expected"),
    ],
)
def test_a_bad_line_is_named_with_its_number(tmp_path: Path, line: str, problem: str) -> None:
    path = tmp_path / "t.gz"
    good = GOOD % '{"name":"a","namespace":"default"}'
    text = f'{head()}\n{good}\n{{"at":0,"known":true}}\n{line}\n'
    path.write_bytes(gzip.compress(text.encode()))
    with pytest.raises(InputError, match=f"(?i)t.gz:4: .*({problem})"):
        list(TraceFiles([path]).events())


def test_kinds_of_later_releases_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "plain.jsonl"
    path.write_text(
        f'{head()}\n{{"at":0,"kind":"wishes.example.com","name":"x","object":{{}}}}\n'
        '{"at":0,"known":true}\n'
    )
    trace = TraceFiles([path])
    assert len(list(trace.events())) == 1
    assert trace.skipped == 1


@pytest.mark.parametrize("text", ["", "x", "{}", '{"kind": "List"}', "\x1f\x8b"])
def test_something_else_is_no_trace(tmp_path: Path, text: str) -> None:
    path = tmp_path / "t"
    path.write_text(text)
    with pytest.raises(InputError, match=r"not a trace|damaged"):
        TraceFiles([path])


def test_another_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.write_text(head(format=2) + "\n")
    with pytest.raises(InputError, match="format 2, of another release"):
        TraceFiles([path])


def test_a_trace_without_all_objects_of_the_beginning_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.write_text(head() + "\n")
    with pytest.raises(InputError, match="ends before all objects"):
        list(TraceFiles([path]).events())


def head(**changes: Any) -> str:
    told = {
        "apiVersion": "tonnage.dev/v1alpha1",
        "kind": "Trace",
        "format": 1,
        "name": "x",
        "startedAt": "2026-01-01T00:00:00Z",
    }
    return json.dumps(told | changes)
