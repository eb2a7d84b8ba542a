"""JSON as people keep it: one document, one per line, or several one after the other.

Documents are found without building their values; who wants a value decodes it by its type.
"""

import re
from collections.abc import Iterator

import msgspec

from tonnage.errors import InputError


class JsonError(InputError):
    """The text is not JSON; the line is counted from 1."""

    def __init__(self, line: int, message: str) -> None:
        self.line = line
        self.message = message
        super().__init__(f"line {line}: {message}")


def explained(error: Exception, data: bytes) -> JsonError:
    """What a decoder's complaint about `data` means to who wrote the file."""
    if isinstance(error, RecursionError):
        return JsonError(1, "not a manifest: lists and mappings nested too deeply")
    if isinstance(error, UnicodeError):
        try:
            data.decode()
        except UnicodeDecodeError as where:
            return JsonError(_line(data, where.start), "not UTF-8")
    at = re.search(_BYTE, str(error))
    if at is None:
        return JsonError(_line(data, len(data)), "not JSON: it ends too early")
    offset = int(at[1])
    column = offset - data.rfind(b"\n", 0, offset)
    what = re.sub(_BYTE, "", str(error)).removeprefix("JSON is malformed: ")
    return JsonError(_line(data, offset), f"not JSON: {what} at column {column}")


def rest_after(error: Exception) -> int | None:
    """Where the next document begins, if a decoder complains only that there is one."""
    complaint = str(error)
    at = re.search(_BYTE, complaint) if "trailing characters" in complaint else None
    # The decoder has read the first of the trailing characters when it complains.
    return int(at[1]) - 1 if at is not None else None


def lines(data: bytes) -> Iterator[tuple[int, bytes]]:
    """One document per line, with the number of the line."""
    for number, line in enumerate(data.split(b"\n"), start=1):
        text = line.strip()
        if text:
            yield number, text


def one_per_line(data: bytes) -> bool:
    """Whether the first document has a line of its own, and so presumably each of them."""
    first = data.lstrip().split(b"\n", 1)[0]
    try:
        _skip(first)
    except _COMPLAINTS:
        return False
    return True


def stream(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Documents one after the other, each on any number of lines, with the number of its first."""
    view = memoryview(data)
    start, line = 0, 1
    while start < len(data):
        end = len(data)
        try:
            _skip(view[start:])
        except _COMPLAINTS as error:
            rest = rest_after(error)
            if rest is None:
                fault = explained(error, data[start:])
                raise JsonError(line + fault.line - 1, fault.message) from error
            end = start + rest
        yield line, data[start:end]
        line += data.count(b"\n", start, end)
        start = end


_COMPLAINTS = (msgspec.DecodeError, UnicodeError, RecursionError)
_BYTE = r" ?\(byte (\d+)\)"


class _Anything(msgspec.Struct):
    """An object none of whose fields matter."""


_OBJECT = msgspec.json.Decoder(_Anything)
_LIST = msgspec.json.Decoder(list[msgspec.Raw])


def _skip(text: bytes | memoryview) -> None:
    """Reads one object or list to its end, and complains as decoders do."""
    try:
        _OBJECT.decode(text)
    except msgspec.ValidationError:
        _LIST.decode(text)


def _line(data: bytes, offset: int) -> int:
    return data.count(b"\n", 0, offset) + 1
