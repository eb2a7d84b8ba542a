"""What the hurried YAML writer writes is read back as what it was."""

import string

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tonnage.service import plain_yaml

_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.text(
    string.ascii_letters + string.digits + " :-#'\"{}[],.&*!|>%@`~=/", max_size=8
)
_SCALARS = st.none() | st.booleans() | st.integers(-(2**60), 2**60) | _TEXTS
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXTS, inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(_TEXTS, _VALUES, min_size=1, max_size=4))
def test_what_is_written_is_read_back(document: dict[str, object]) -> None:
    assert yaml.safe_load(plain_yaml.dump(document)) == document


@pytest.mark.parametrize("word", ["yes", "No", "null", "1.5", "1e3", "2026-01-01", "~", "", "0x1f"])
def test_a_text_that_looks_like_something_else_stays_a_text(word: str) -> None:
    assert yaml.safe_load(plain_yaml.dump({"value": word})) == {"value": word}


def test_it_reads_as_people_write_it() -> None:
    document = {"health": {"status": "Healthy", "ready": 3}, "problems": [], "groups": [{"a": 1}]}
    assert plain_yaml.dump(document) == (
        "groups:\n  - a: 1\nhealth:\n  ready: 3\n  status: Healthy\nproblems: []\n"
    )
