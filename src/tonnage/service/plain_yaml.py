"""Plain values as YAML for people, written in a hurry.

A status document is written every few seconds; the writers there are take longer for it than all
the rest of a quiet round. This one knows mappings, lists and scalars, and nothing else.
"""

import re
from collections.abc import Mapping

import msgspec

_PLAIN = re.compile(r"[A-Za-z/][A-Za-z0-9_./-]*(?: [A-Za-z0-9_(][A-Za-z0-9_.,;()/-]*)*")
"""Texts that mean themselves without quotes."""

_OTHER = frozenset(("true", "false", "yes", "no", "on", "off", "null", "y", "n"))
"""Texts that would mean something else without them."""


def dump(document: Mapping[str, object]) -> str:
    """The document in block style, keys in order of name."""
    lines: list[str] = []
    _mapping(document, "", lines)
    return "\n".join(lines) + "\n"


def _mapping(values: Mapping[str, object], indent: str, lines: list[str]) -> None:
    for key in sorted(values):
        _entry(f"{indent}{_scalar(key)}:", values[key], f"{indent}  ", lines)


def _entry(head: str, value: object, indent: str, lines: list[str]) -> None:
    """A value behind its key or dash: on the same line if it is short enough to be."""
    if isinstance(value, dict) and value:
        lines.append(head)
        _mapping(value, indent, lines)
    elif isinstance(value, list | tuple) and value:
        lines.append(head)
        for one in value:
            dash = len(lines)
            if isinstance(one, dict) and one:
                _mapping(one, f"{indent}  ", lines)
                lines[dash] = f"{indent}- {lines[dash].lstrip()}"
            else:
                _entry(f"{indent}-", one, f"{indent}  ", lines)
    else:
        lines.append(f"{head} {_scalar(value)}")


def _scalar(value: object) -> str:
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _OTHER:
        return value
    # JSON is YAML, but for some characters that its texts may hold as they are.
    text = msgspec.json.encode(value).decode().replace("\x7f", "\\x7f")
    return text if text.isascii() else text.encode("ascii", "backslashreplace").decode()
