"""Batches of Scenarios, one per line."""

import gzip
import io
import json
from pathlib import Path

import pytest

from tonnage.errors import InputError
from tonnage.files import decode_scenario, read_lines


def line(name: str, *objects: object) -> bytes:
    return json.dumps(
        {
            "apiVersion": "tonnage.dev/v1alpha1",
            "kind": "Scenario",
            "metadata": {"name": name},
            "spec": {"objects": list(objects)},
        }
    ).encode()


NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
BAD = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n2"}, "spec": 5}


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_lines_come_with_their_numbers_and_without_blank_ones(tmp_path: Path, packed: bool) -> None:
    data = b"\xef\xbb\xbfone\n\n  \nfour\r\nfive"
    path = tmp_path / "batch"
    path.write_bytes(gzip.compress(data) if packed else data)
    assert list(read_lines(path)) == [(1, b"one"), (4, b"four"), (5, b"five")]


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_a_batch_can_come_from_standard_input(packed: bool) -> None:
    data = gzip.compress(b"one\ntwo") if packed else b"one\ntwo"
    assert list(read_lines("-", stdin=io.BytesIO(data))) == [(1, b"one"), (2, b"two")]


def test_no_more_is_read_than_lines_are_taken() -> None:
    stream = io.BufferedReader(io.BytesIO(b"x" * 100 + b"\n" + b"y\n" * 10_000_000))
    next(read_lines("-", stdin=stream))
    assert stream.tell() < 1_000_000


def test_a_damaged_batch_gives_its_lines_up_to_the_damage(tmp_path: Path) -> None:
    path = tmp_path / "batch.jsonl.gz"
    path.write_bytes(gzip.compress(b"".join(b"%d\n" % n for n in range(100_000)))[:-1000])
    taken: list[int] = []
    with pytest.raises(InputError, match=r"batch\.jsonl\.gz: damaged gzip"):
        taken.extend(number for number, _ in read_lines(path))
    assert taken[:3] == [1, 2, 3]


def test_a_batch_that_does_not_exist_is_an_input_error() -> None:
    with pytest.raises(InputError, match="no such file"):
        list(read_lines("nowhere.jsonl"))


def test_a_line_gives_a_named_scenario() -> None:
    loaded = decode_scenario(line("s", NODE))
    assert (loaded.name, [obj.metadata.name for obj in loaded.objects]) == ("s", ["n1"])


def test_a_bad_object_of_a_line_is_named_after_where_it_stands() -> None:
    with pytest.raises(InputError, match=r"^b\.jsonl: line 7: spec\.objects\[1\]: Node n2: spec: "):
        decode_scenario(line("s", NODE, BAD), where="b.jsonl: line 7")


def test_leniently_a_bad_object_of_a_line_is_a_problem() -> None:
    loaded = decode_scenario(line("s", NODE, BAD), lenient=True)
    assert (len(loaded.objects), len(loaded.problems), loaded.name) == (1, 1, "s")


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(NODE).encode(),
        b"null",
        b"",
        b"5",
        b"5 {}",
        b"{",
        b"\xff",
        b"[" * 10_000,
        line(""),
    ],
    ids=lambda value: repr(value[:20]),
)
def test_a_line_that_is_no_scenario_is_an_input_error(text: bytes) -> None:
    with pytest.raises(InputError):
        decode_scenario(text)
