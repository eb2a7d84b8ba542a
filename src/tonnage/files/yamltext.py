"""YAML as Kubernetes reads it, built straight from parser events.

A loader would compose nodes, resolve them by YAML 1.1 and construct values; that costs twice
the time, turns timestamps into dates, recurses once per level of nesting, and lets a few
aliases grow into gigabytes. Building from events does none of this, and keeps the line of
every key for messages. Scalars follow the library that Kubernetes uses: `yes` and `on` are
booleans, timestamps stay text, keys become strings.
"""

import math
import re
from collections.abc import Iterator
from decimal import Decimal
from itertools import pairwise
from typing import Any

from tonnage.errors import InputError
from tonnage.objects.validation import Path

NOT_JSON = object()
"""What a scalar means that is a number in YAML and none in JSON."""


class YamlError(InputError):
    """The text is not YAML that can be read; the line is counted from 1."""

    def __init__(self, line: int, message: str) -> None:
        self.line = line
        self.message = message
        super().__init__(f"line {line}: {message}")


class YamlDocument:
    """One document: its value, and on which line each part of it stands."""

    def __init__(
        self,
        value: object,
        *,
        line: int,
        lines: dict[int, dict[str | int, int]],
        repeated: tuple[str, int] | None,
    ) -> None:
        self.value = value
        self.line = line
        self._lines = lines
        self.repeated = repeated
        """The first key that its mapping had already, and the line; the later value counts."""

    def line_of(self, path: Path) -> int:
        """The line of what is at `path`, or of the nearest thing around it."""
        line = self.line
        value: Any = self.value
        for step in path:
            line = self._lines.get(id(value), {}).get(step, line)
            try:
                value = value[step]
            except (KeyError, IndexError, TypeError):
                break
        return line


def split(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The parts between `---` lines, each with the number of its first line.

    Parts are read one by one, so that one broken document does not hide the others. Parts that
    hold nothing but comments and directives are left out.
    """
    starts = [0, *(mark.start() for mark in _MARKER.finditer(data)), len(data)]
    line = 1
    for start, end in pairwise(starts):
        part = data[start:end]
        if _CONTENT.search(part[3:] if part.startswith(b"---") else part):
            yield line, part
        line += data.count(b"\n", start, end)


def read(part: bytes, *, first_line: int = 1) -> Iterator[YamlDocument]:
    """The documents of one part of `split`: one, unless `...` lines separate more."""
    # Not loaded by who reads JSON alone.
    import yaml

    from tonnage.files.yaml_builder import YamlBuilder

    try:
        yield from YamlBuilder(part, first_line=first_line).documents()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        # At the end of the text the parser counts a line that is not there.
        line = first_line + min(mark.line if mark is not None else 0, part.rstrip().count(b"\n"))
        raise YamlError(line, f"not YAML: {error.problem or error.context}") from error
    except yaml.reader.ReaderError as error:
        line = first_line + part.count(b"\n", 0, max(0, error.position))
        raise YamlError(line, f"not YAML: {error.reason}") from error
    except (yaml.YAMLError, UnicodeError) as error:
        raise YamlError(first_line, f"not YAML: {error}") from error


def slowness() -> int:
    """How many times longer than JSON it takes, as measured on pods."""
    import yaml

    return 50 if yaml.__with_libyaml__ else 500


def resolve(text: str) -> object:
    """What an unquoted scalar means."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "+-.0123456789":
        return text
    plain = text.replace("_", "") if text[0] != "." else text
    if _DECIMAL.fullmatch(plain):
        number = int(plain) if len(plain) <= _LONGEST else 2**64
        return number if -(2**63) <= number < 2**64 else _number(plain, text)
    if _BASED.fullmatch(plain):
        number = int(plain, 0)
        return number if -(2**63) <= number < 2**64 else text
    if _OCTAL.fullmatch(plain):
        number = int(plain, 8)
        return number if -(2**63) <= number < 2**64 else _number(plain, text)
    return _number(plain, text) if _FLOAT.fullmatch(plain) else text


_MARKER = re.compile(rb"^---(?=\s|\Z)", re.MULTILINE)
_CONTENT = re.compile(rb"^[ \t]*[^ \t\r\n#%]", re.MULTILINE)
_WORDS: dict[str, object] = {
    form: value
    for word, value in {
        "y": True,
        "yes": True,
        "on": True,
        "true": True,
        "n": False,
        "no": False,
        "off": False,
        "false": False,
        "null": None,
        ".inf": NOT_JSON,
        "+.inf": NOT_JSON,
        "-.inf": NOT_JSON,
    }.items()
    for form in (word, word.upper(), word.capitalize(), word.replace(".i", ".I"))
} | {"": None, "~": None, ".nan": NOT_JSON, ".NaN": NOT_JSON, ".NAN": NOT_JSON}
_DECIMAL = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
_BASED = re.compile(r"[-+]?0(?:[xX][0-9a-fA-F]{1,99}|[bB][01]{1,99}|[oO][0-7]{1,99})")
_OCTAL = re.compile(r"[-+]?0[0-7]{1,99}")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_LONGEST = 40


def _number(plain: str, text: str) -> int | float | str:
    """A float, or the whole number it becomes on its way through JSON (`3.0` and `08` do)."""
    number = float(plain)
    if math.isinf(number):
        return text
    return int(Decimal(repr(number))) if number.is_integer() and abs(number) < 1e21 else number
