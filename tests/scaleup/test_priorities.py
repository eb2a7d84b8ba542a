"""How an operator's priorities are read, and what is said of those that cannot be."""

import pytest

from tonnage.errors import InputError
from tonnage.scaleup.priorities import read_priorities
from tonnage.scaleup.priority_texts import parse_priorities

READ = [
    ("numbers may be quoted", "'7': [a]", [(7, ["a"])]),
    ("numbers may be negative", "-7: [a]", [(-7, ["a"])]),
    ("the highest comes first", "{1: [a], 30: [b], 4: [c]}", [(30, ["b"]), (4, ["c"]), (1, ["a"])]),
    ("a list may be missing", "7:", [(7, [])]),
    ("a number may be an expression", "7: [12]", [(7, ["12"])]),
    (
        "words and dates are expressions as they stand",
        "7: [on, 2026-01-01]",
        [(7, ["on", "2026-01-01"])],
    ),
]


@pytest.mark.parametrize(("text", "rules"), [row[1:] for row in READ], ids=[row[0] for row in READ])
def test_priorities_are_read(text: str, rules: list[tuple[int, list[str]]]) -> None:
    found = parse_priorities(text).rules
    assert [(priority, [e.pattern for e in list_]) for priority, list_ in found] == rules


BROKEN = [
    ("no text", "", "expected a map from priorities to lists"),
    ("a list", "[a]", "expected a map from priorities to lists"),
    ("no YAML", "{", "not YAML"),
    ("endless nesting", "[" * 5000, "not YAML"),
    ("a key that is no number", "high: [a]", "'high': expected a whole number"),
    ("a fraction", "1.5: [a]", "'1.5': expected a whole number"),
    ("one expression outside a list", "7: a", "priorities[7]: expected a list"),
    ("an entry that is empty", "7: [a, ]\n8:\n  -\n", "priorities[8]: an empty entry"),
    ("an entry that is a list", "7: [[a]]", "priorities[7]: ['a']: expected a regular expression"),
    ("an expression that is none", "7: ['(']", "priorities[7]: '(': missing )"),
    ("a class by name", "7: ['[[:alpha:]]']", "write the class out"),
]


@pytest.mark.parametrize(
    ("text", "message"), [row[1:] for row in BROKEN], ids=[row[0] for row in BROKEN]
)
def test_broken_priorities_say_where(text: str, message: str) -> None:
    with pytest.raises(InputError, match=r"^priorities") as raised:
        parse_priorities(text)
    assert message in str(raised.value)


def test_numbers_that_mean_the_same_are_one_priority() -> None:
    assert len(read_priorities({"7": ["a"], "+7": ["b"]}).rules) == 1
