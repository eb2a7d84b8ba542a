"""Label and field selectors, from the text of a request to a question about an object."""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import TypeAlias

from tonnage.embedded.apiserver.kinds import ServedKind
from tonnage.embedded.apiserver.refusals import Tree, bad_request
from tonnage.embedded.apiserver.store import Selects, Stored
from tonnage.objects import selectors
from tonnage.objects.meta import LabelRequirement, LabelSelector

Requirement: TypeAlias = tuple[str, str, tuple[str, ...]]
Field: TypeAlias = tuple[str, bool, str]
"""A path, whether its value has to be this one or any other, and the value."""

_SET = re.compile(r"\s*(\S+?)\s+(in|notin)\s*\(([^()]*)\)\s*")
_EQUAL = re.compile(r"\s*([^\s=!]+)\s*(==|=|!=)\s*([^\s=!]*)\s*")
_PRESENT = re.compile(r"\s*(!?)\s*([^\s=!()]+)\s*")
_COMMAS = re.compile(r",(?![^()]*\))")


def selection(kind: ServedKind, *, labels: str, fields: str) -> Selects | None:
    """Whether an object is meant; `None` if all are."""
    wanted_labels = _labels(labels) if labels.strip() else ()
    wanted_fields = _fields(fields) if fields.strip() else ()
    for path, _, _ in wanted_fields:
        if path not in kind.fields:
            raise bad_request(f'"{path}" is not a known field selector: field label not supported')
    return _question(wanted_labels, wanted_fields) if wanted_labels or wanted_fields else None


def indexed_value(kind: ServedKind, fields: str) -> str | None:
    """The value by which the kind's index finds all that the fields select, if they name one."""
    wanted = _fields(fields) if kind.index and fields.strip() else ()
    return next((value for path, equal, value in wanted if equal and path == kind.index), None)


@lru_cache(maxsize=1024)
def _question(wanted_labels: tuple[Requirement, ...], wanted_fields: tuple[Field, ...]) -> Selects:
    """The same selectors give the same question, so that objects can remember their answer."""

    def selects(obj: Stored) -> bool:
        tree = obj.glance()
        carried: Mapping[str, str] = tree["metadata"].get("labels") or {}
        for key, operator, values in wanted_labels:
            if not selectors.requirement_matches(key, operator, values, carried):
                return False
        return all((read(tree, path) == value) == equal for path, equal, value in wanted_fields)

    return selects


def read(tree: Tree, path: str) -> str:
    """A field as selectors compare it: absent is empty, or false."""
    value: object = tree
    for step in _steps(path):
        value = value.get(step) if isinstance(value, dict) else None
    if isinstance(value, str):
        return value
    match value:
        case None:
            return _ABSENT.get(path, "")
        case bool():
            return "true" if value else "false"
        case dict():
            return str(value.get("component", ""))  # the source of an event
        case _:
            return str(value)


@lru_cache(maxsize=1024)
def _steps(path: str) -> tuple[str, ...]:
    return tuple(path.split("."))


_ABSENT = {
    "spec.unschedulable": "false",
    "spec.hostNetwork": "false",
    "status.replicas": "0",
    "status.successful": "0",
}


@lru_cache(maxsize=1024)
def _labels(text: str) -> tuple[Requirement, ...]:
    found = tuple(_label(part) for part in _COMMAS.split(text))
    for key, operator, values in found:
        selector = LabelSelector(
            match_expressions=(LabelRequirement(key=key, operator=operator, values=values),)
        )
        try:
            selectors.check(selector)
        except selectors.SelectorError as error:
            raise bad_request(f"unable to parse label selector {text!r}: {error}") from None
    return found


def _label(part: str) -> Requirement:
    if form := _SET.fullmatch(part):
        values = tuple(sorted({value.strip() for value in form[3].split(",")}))
        return form[1], "In" if form[2] == "in" else "NotIn", values
    if form := _EQUAL.fullmatch(part):
        return form[1], "NotIn" if form[2] == "!=" else "In", (form[3],)
    if form := _PRESENT.fullmatch(part):
        return form[2], "DoesNotExist" if form[1] else "Exists", ()
    raise bad_request(
        f"unable to parse label selector {part!r}: expected key=value, key!=value,"
        " key in (a,b), key notin (a,b), key or !key"
    )


@lru_cache(maxsize=1024)
def _fields(text: str) -> tuple[Field, ...]:
    found = []
    for part in text.split(","):
        if not part.strip():
            continue
        form = re.fullmatch(r"\s*([^\s=!]+)\s*(==|=|!=)(.*)", part)
        if form is None:
            raise bad_request(
                f"invalid field selector {part!r}: expected field=value or field!=value"
            )
        found.append((form[1], form[2] != "!=", form[3].strip()))
    return tuple(found)
