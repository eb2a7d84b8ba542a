"""Label selectors and node selectors: do they match, are they valid, are two of them the same.

The two differ in more than their operators: an invalid label selector is an error for its
owner, an invalid term of a node selector only never matches.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import TypeAlias

from tonnage.objects.meta import LabelRequirement, LabelSelector
from tonnage.objects.pods import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from tonnage.objects.resources import valid_qualified_name

CanonicalRequirement: TypeAlias = tuple[str, str, tuple[str, ...]]
CanonicalSelector: TypeAlias = tuple[CanonicalRequirement, ...]

_LABEL_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")
_NODE_OPERATORS = (*_LABEL_OPERATORS, "Gt", "Lt")
_FIELD_OPERATORS = ("In", "NotIn")
_NODE_NAME_FIELD = "metadata.name"

_LABEL_VALUE = re.compile(r"(?:(?:[A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
_INTEGER = re.compile(r"[+-]?[0-9]{1,100}")

_LARGE = 1024
"""Characters of values. Few requirements as large are remembered, or pods could fill our memory."""


class SelectorError(ValueError):
    """A label selector that an API server would refuse."""


def matches(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """Whether all of a selector holds; no selector matches nothing, an empty one everything.

    Raises `SelectorError` when the selector is invalid, whatever the labels are.
    """
    if selector is None:
        return False
    check(selector)
    return all(labels.get(key) == value for key, value in selector.match_labels.items()) and all(
        requirement_matches(r.key, r.operator, r.values, labels) for r in selector.match_expressions
    )


def check(selector: LabelSelector | None) -> None:
    """Raise `SelectorError` for the first requirement that is invalid."""
    if selector is None:
        return
    for key, value in selector.match_labels.items():
        _raise_if_any(_problems(key, "=", (value,)))
    for requirement in selector.match_expressions:
        if requirement.operator not in _LABEL_OPERATORS:
            quoted = _quoted(requirement.operator)
            raise SelectorError(f"{quoted} is not a valid label selector operator")
        _raise_if_any(_problems(requirement.key, requirement.operator, requirement.values))


def is_valid(selector: LabelSelector) -> bool:
    """Whether an API server would take the selector."""
    try:
        check(selector)
    except SelectorError:
        return False
    return True


def canonical(selector: LabelSelector | None) -> CanonicalSelector | None:
    """A key that selectors share when they differ only in order, repetition or notation."""
    if selector is None:
        return None
    labels = {(key, "In", (value,)) for key, value in selector.match_labels.items()}
    return tuple(sorted(labels | {_canonical(r) for r in selector.match_expressions}))


def accepted_values(selector: LabelSelector) -> dict[str, frozenset[str]]:
    """The labels that a selector wants to have one of certain values, each with these values."""
    found = {key: frozenset((value,)) for key, value in selector.match_labels.items()}
    for requirement in selector.match_expressions:
        if requirement.operator == "In":
            values = frozenset(requirement.values)
            found[requirement.key] = found.get(requirement.key, values) & values
    return found


def single_label(selector: LabelSelector) -> tuple[str, str] | None:
    """The label and value if a selector asks for just that, in either notation."""
    match canonical(selector):
        case ((key, "In", (value,)),):
            return key, value
    return None


def requires(selector: LabelSelector | None, key: str) -> bool:
    """Whether a selector matches only what carries the label, whatever its value."""
    return selector is not None and (
        key in selector.match_labels
        or any(
            requirement.key == key and requirement.operator in ("In", "Exists")
            for requirement in selector.match_expressions
        )
    )


def requirement_matches(
    key: str, operator: str, values: tuple[str, ...], labels: Mapping[str, str]
) -> bool:
    """Whether one requirement holds. An absent key satisfies `NotIn`; an unknown operator fails."""
    label = labels.get(key)
    match operator:
        case "In" | "=" | "==":
            return label is not None and label in values
        case "NotIn" | "!=":
            return label is None or label not in values
        case "Exists":
            return label is not None
        case "DoesNotExist":
            return label is None
        case "Gt" | "Lt" if label is not None and len(values) == 1:
            number, operand = integer(label), integer(values[0])
            if number is None or operand is None:
                return False
            return number > operand if operator == "Gt" else number < operand
    return False


def integer(text: str) -> int | None:
    """The number that `Gt` and `Lt` compare, or `None` if the text is none of 64 bits."""
    if not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


def node_matches(selector: NodeSelector, labels: Mapping[str, str], name: str | None) -> bool:
    """Whether one of a selector's terms holds for a node.

    Empty and invalid terms never do. For a node without a name `matchFields` are not
    looked at, which is how the affinity of volumes is evaluated.
    """
    return any(
        valid_term(term)
        and all(
            requirement_matches(r.key, r.operator, r.values, labels) for r in term.match_expressions
        )
        and (not name or all(_field_matches(r, name) for r in term.match_fields))
        for term in selector.node_selector_terms
    )


def _field_matches(requirement: NodeSelectorRequirement, name: str) -> bool:
    # A field that does not exist reads as empty, so `NotIn` holds for it.
    actual = name if requirement.key == _NODE_NAME_FIELD else ""
    return (actual in requirement.values) == (requirement.operator == "In")


def valid_term(term: NodeSelectorTerm) -> bool:
    """Whether a term can match anything: it is not empty and all of it parses."""
    return (
        bool(term.match_expressions or term.match_fields)
        and all(
            r.operator in _NODE_OPERATORS and not _problems(r.key, r.operator, r.values)
            for r in term.match_expressions
        )
        and all(r.operator in _FIELD_OPERATORS and len(r.values) == 1 for r in term.match_fields)
    )


def _canonical(
    requirement: LabelRequirement | NodeSelectorRequirement,
) -> CanonicalRequirement:
    values = requirement.values
    if requirement.operator in ("In", "NotIn"):
        # Elsewhere a repeated value is what makes a requirement invalid.
        values = tuple(sorted(set(values)))
    return requirement.key, requirement.operator, values


def _problems(key: str, operator: str, values: tuple[str, ...]) -> tuple[str, ...]:
    """What an API server would object to in a requirement with a known operator."""
    large = len(values) + sum(map(len, values)) > _LARGE
    return (_problems_of_large if large else _problems_of_small)(key, operator, values)


def _find_problems(key: str, operator: str, values: tuple[str, ...]) -> tuple[str, ...]:
    problems: list[str] = []
    if not valid_qualified_name(key):
        problems.append(
            f"key: Invalid value: {_quoted(key)}: a label key is a name of up to 63 letters, "
            "digits, '-', '_' or '.', framed by letters or digits, after an optional DNS prefix "
            "and '/'"
        )
    wrong = ""
    match operator:
        case "In" | "NotIn" if not values:
            wrong = "needs at least one value"
        case "Exists" | "DoesNotExist" if values:
            wrong = "takes no values"
        case "Gt" | "Lt" if len(values) != 1 or integer(values[0]) is None:
            wrong = "takes exactly one integer"
    if wrong:
        problems.append(f"values: Invalid value: {_quoted(values)}: {operator} {wrong}")
    problems.extend(
        f"values[{index}][{key}]: Invalid value: {_quoted(value)}: a label value is empty or "
        "up to 63 letters, digits, '-', '_' or '.', framed by letters or digits"
        for index, value in enumerate(values)
        if len(value) > 63 or not _LABEL_VALUE.fullmatch(value)
    )
    return tuple(problems)


_problems_of_small = lru_cache(maxsize=1 << 14)(_find_problems)
_problems_of_large = lru_cache(maxsize=16)(_find_problems)


def _raise_if_any(problems: tuple[str, ...]) -> None:
    if problems:
        raise SelectorError("; ".join(problems))


def _quoted(value: object) -> str:
    import json  # only who is told off has to wait for it

    return json.dumps(value)
