"""JSON that was decoded a moment ago, where several parties read the same."""

import msgspec
import pytest

from tonnage.objects import codec, kinds
from tonnage.objects.nodes import Node
from tonnage.testing import builders

NODE = next(row for row in kinds.ALL if row.type is Node)


def wire(name: str) -> bytes:
    return msgspec.json.encode(builders.node(name))


def test_the_same_json_gives_the_same_object_where_it_is_remembered() -> None:
    data = wire("n")
    with codec.remembered():
        first = codec.decode(data, NODE)
        assert codec.decode(msgspec.Raw(data), NODE) is first


def test_what_is_remembered_is_what_would_be_decoded() -> None:
    data = wire("n")
    with codec.remembered():
        codec.decode(data, NODE)
        found = codec.decode(data, NODE)
    assert found == codec.decode(data, NODE)


def test_nothing_is_remembered_outside() -> None:
    data = wire("n")
    with codec.remembered():
        inside = codec.decode(data, NODE)
    assert codec.decode(data, NODE) is not inside


def test_what_was_decoded_long_ago_is_forgotten() -> None:
    data = wire("n")
    with codec.remembered():
        first = codec.decode(data, NODE)
        for number in range(5000):
            codec.decode(wire(f"other-{number}"), NODE)
        assert codec.decode(data, NODE) is not first


def test_what_cannot_be_decoded_is_refused_every_time() -> None:
    bad = b'{"metadata": {"name": 1}}'
    with codec.remembered():
        for _ in range(2):
            with pytest.raises(codec.DecodeError):
                codec.decode(bad, NODE)
