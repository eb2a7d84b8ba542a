"""From bytes or plain values to typed objects, with errors that say which field is wrong.

The fast path is one typed decode. Only when that fails is the object looked at again,
slowly: nulls are dropped (a server reads them as absent), and if it still does not fit,
the error is led back to the real key. No input or output happens here.
"""

import gc
import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, partial
from itertools import takewhile
from typing import Any

import msgspec

from tonnage.errors import InputError
from tonnage.objects import strictness, validation
from tonnage.objects.kinds import Kind, KubeObject
from tonnage.objects.pods import Pod
from tonnage.objects.scenarios import NodeGroup, Scenario
from tonnage.objects.shared_values import SharedPods
from tonnage.objects.validation import Fault, Path

UNDECODABLE = (msgspec.DecodeError, UnicodeError, RecursionError)
"""What msgspec raises for bytes that are not what was expected, were they nested without end."""


class DecodeError(InputError):
    """An object cannot be used; says which object, which field, what was expected and found."""

    def __init__(self, kind: str, namespace: str, name: str, *, fault: Fault) -> None:
        self.kind = kind
        self.namespace = namespace
        self.name = name
        self.fault = fault
        self.path = fault.path
        self.expected = fault.expected
        self.found = fault.found
        super().__init__(f"{self.object}: {self.detail}")

    def __reduce__(self) -> tuple[Any, ...]:
        # So that it can cross from a worker process.
        again = partial(type(self), self.kind, self.namespace, self.name, fault=self.fault)
        return again, ()

    @property
    def object(self) -> str:
        """`Pod default/web-1`"""
        name = validation.one_line(self.name) or "(no name)"
        return (
            f"{self.kind} {validation.one_line(self.namespace)}/{name}"
            if self.namespace
            else f"{self.kind} {name}"
        )

    @property
    def field(self) -> str:
        """`spec.containers[0].resources.requests.cpu`; empty when it is the object as a whole."""
        return render(self.path)

    @property
    def message(self) -> str:
        return f"expected {self.expected}, found {self.found}"

    @property
    def detail(self) -> str:
        return f"{self.field}: {self.message}" if self.path else self.message


def decode(data: bytes | msgspec.Raw, kind: Kind) -> KubeObject:
    """A typed object from its JSON; `DecodeError` when it is not one."""
    recent = _RECENT.get()
    return _decoded(data, kind) if recent is None else recent.decode(data, kind)


@contextmanager
def remembered() -> Iterator[None]:
    """JSON that was decoded a moment ago gives the same object again inside.

    Where a server and several clients live in one process, everybody decodes the same: once is
    enough, and one copy, because objects never change. Pods share equal parts, too.
    """
    token = _RECENT.set(_Recent())
    try:
        yield
    finally:
        _RECENT.reset(token)


def remembers() -> bool:
    """Whether what is decoded is remembered now."""
    return _RECENT.get() is not None


def _decoded(data: bytes | msgspec.Raw, kind: Kind) -> KubeObject:
    if kind.type is NodeGroup:
        # A type in which other types stand cannot say of itself what is unknown in all of it.
        return convert(_untyped(data, kind), kind)
    try:
        obj = _decoder(kind.type).decode(data)
    except msgspec.ValidationError:
        return convert(_untyped(data, kind), kind)
    except UNDECODABLE as error:
        raise _unreadable(kind, error) from error
    return _finished(obj, kind)


def convert(value: object, kind: Kind) -> KubeObject:
    """A typed object from plain values, such as a YAML document; `DecodeError` if it is not one."""
    try:
        obj = _converted(value, kind)
    except (UnicodeError, RecursionError) as error:
        raise _unreadable(kind, error) from error
    return _finished(obj, kind)


def generated_name(obj: KubeObject, *, nth: int = 0) -> str:
    """The name of an object that has only `generateName`: the same for the same content.

    A server would draw the suffix by lot, and then plans could not be compared. `nth` tells
    apart several objects of equal content.
    """
    import hashlib  # brings OpenSSL, and nearly all objects have names

    bare = _with_metadata(obj, name="")
    content = msgspec.json.encode(bare, order="deterministic")
    digest = hashlib.blake2b(content, digest_size=5).hexdigest()
    return f"{obj.metadata.generate_name}{digest}" + (f"-{nth}" if nth else "")


def renamed(obj: KubeObject, name: str) -> KubeObject:
    """The same object under another name."""
    return _with_metadata(obj, name=name)


def render(path: Path) -> str:
    """A path for people: dots where that is readable, brackets and quotes where it is not."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif re.fullmatch(_PLAIN_KEY, step):
            text += f".{step}" if text else step
        else:
            text += f"[{validation.describe(step)}]"
    return text


@contextmanager
def collector_paused() -> Iterator[None]:
    """No cyclic garbage collection inside; may be nested.

    Decoding makes millions of objects and no cycles. Up to Python 3.11 the collector runs in
    the middle of it, and costs more than the decoding.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextmanager
def collector_lazy() -> Iterator[None]:
    """Cyclic garbage is looked for only now and then inside: for work that keeps much of what it
    makes and leaves few cycles.
    """
    thresholds = gc.get_threshold()
    gc.set_threshold(200_000, 20, 20)
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)


class _Recent:
    """The last few thousand objects by their kind and JSON: the newer half, and the older."""

    def __init__(self) -> None:
        self._newer: dict[tuple[str, bytes], KubeObject] = {}
        self._older: dict[tuple[str, bytes], KubeObject] = {}
        self._pods = SharedPods()

    def decode(self, data: bytes | msgspec.Raw, kind: Kind) -> KubeObject:
        key = (kind.kind, bytes(data))
        found = self._newer.get(key) or self._older.get(key)
        if found is None:
            found = _decoded(data, kind)
            if isinstance(found, Pod):
                found = self._pods.of(found)
            self._newer[key] = found
            if len(self._newer) >= _HALF_OF_RECENT:
                self._older, self._newer = self._newer, {}
        return found


_HALF_OF_RECENT = 2048
_RECENT: ContextVar[_Recent | None] = ContextVar("recently decoded objects", default=None)

_OURS = (NodeGroup, Scenario)
_PLAIN_KEY = r"[A-Za-z_][A-Za-z0-9_-]{0,62}"


@cache
def _decoder(type_: type[KubeObject]) -> msgspec.json.Decoder[KubeObject]:
    return msgspec.json.Decoder(type_)


def _finished(obj: KubeObject, kind: Kind) -> KubeObject:
    """Names filled in as a server would, and everything checked that types cannot say."""
    meta = obj.metadata
    if kind.namespaced:
        if not meta.namespace:
            obj = _with_metadata(obj, namespace="default")
    elif meta.namespace:
        obj = _with_metadata(obj, namespace="")
    if not meta.name:
        if not meta.generate_name:
            fault = Fault(("metadata", "name"), "a name", "none")
            raise DecodeError(kind.kind, obj.metadata.namespace, "", fault=fault)
        obj = _with_metadata(obj, name=generated_name(obj))
    found = validation.first_fault(obj)
    if found is not None:
        raise DecodeError(kind.kind, obj.metadata.namespace, obj.metadata.name, fault=found)
    return obj


def _with_metadata(obj: KubeObject, **changes: str) -> KubeObject:
    return msgspec.structs.replace(obj, metadata=msgspec.structs.replace(obj.metadata, **changes))


def _untyped(data: bytes | msgspec.Raw, kind: Kind) -> object:
    try:
        try:
            return msgspec.json.decode(data)
        except msgspec.ValidationError:
            # A number that no machine type holds, perhaps in a field nobody reads.
            import json

            return json.loads(bytes(data), parse_int=_integer, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise _unreadable(kind, error) from error


def _integer(digits: str) -> int | float:
    return int(digits) if len(digits) < 1000 else float(digits)


def _refuse(constant: str) -> object:
    raise ValueError(f"{constant} is not JSON")


def _unreadable(kind: Kind, error: Exception) -> DecodeError:
    if isinstance(error, RecursionError):
        fault = Fault((), "a manifest", "lists and mappings nested too deeply")
    elif isinstance(error, UnicodeError):
        fault = Fault((), "UTF-8", "other bytes")
    else:
        fault = Fault((), "JSON", f"something else ({error})")
    return DecodeError(kind.kind, "", "", fault=fault)


def _converted(value: object, kind: Kind) -> KubeObject:
    value = _prepared(value, kind)
    if kind.type in _OURS:
        unknown = strictness.first_unknown(value, kind.type)
        if unknown is not None:
            raise DecodeError(kind.kind, *_identity(value, kind), fault=unknown)
    try:
        return msgspec.convert(value, kind.type, strict=True)
    except msgspec.ValidationError:
        # A server reads null as absent; which fields may be null is not worth asking.
        stripped = _without_nulls(value)
    try:
        return msgspec.convert(stripped, kind.type, strict=True)
    except msgspec.ValidationError as error:
        fault = explained(str(error), stripped)
        fault = msgspec.structs.replace(fault, path=_with_nulls(value, fault.path))
        raise DecodeError(kind.kind, *_identity(value, kind), fault=fault) from error


def _prepared(value: object, kind: Kind) -> object:
    """Objects inside a Scenario are kept as JSON, each to be decoded by its own kind."""
    if kind.type is not Scenario or not isinstance(value, dict):
        return value
    spec = value.get("spec")
    if not isinstance(spec, dict) or not isinstance(spec.get("objects"), list):
        return value
    raw = [msgspec.Raw(msgspec.json.encode(item)) for item in spec["objects"]]
    return {**value, "spec": {**spec, "objects": raw}}


def _without_nulls(value: object) -> object:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value if item is not None]
    return value


def _with_nulls(value: object, path: Path) -> Path:
    """The same place counted in the original, where nulls still take up list positions."""
    real: list[str | int] = []
    for step in path:
        if isinstance(step, int) and isinstance(value, list):
            position = [i for i, item in enumerate(value) if item is not None][step]
            real.append(position)
            value = value[position]
        else:
            real.append(step)
            value = value.get(step) if isinstance(value, dict) else None
    return tuple(real)


def _identity(value: object, kind: Kind) -> tuple[str, str]:
    metadata = value.get("metadata") if isinstance(value, dict) else None
    namespace, name = "", ""
    if isinstance(metadata, dict):
        namespace = _text(metadata.get("namespace"))
        name = _text(metadata.get("name")) or _text(metadata.get("generateName"))
    return (namespace or "default") if kind.namespaced else "", name


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


_COMPLAINT = r"(?s)(?P<what>.*?)(?: - at (?:`key` in )?`\$(?P<path>.*)`)?"
_STEP = r"\.([^.\[\]]+)|\[(\d+|\.\.\.)\]"
_MISMATCH = r"Expected `(.+)`, got `(.+)`"
_MISSING = r"Object missing required field `(.+)`"
_WORDS = {
    "str": "a string",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "a mapping",
    "int | float | str": validation.QUANTITY,
}


def explained(complaint: str, value: object) -> Fault:
    """What msgspec says about `value`, with the real key in place of its `[...]`."""
    form = re.fullmatch(_COMPLAINT, complaint)
    what, where = (form["what"], form["path"] or "") if form else (complaint, "")
    mismatch = re.fullmatch(_MISMATCH, what)
    path: list[str | int] = []
    steps = re.findall(_STEP, where)
    for place, (name, index) in enumerate(steps):
        step: str | int = name
        if index == "..." and isinstance(value, dict):
            # Only maps of scalars, or of such maps, are unnamed: the first value of the wrong type
            # is the one.
            wrong = mismatch[2] if mismatch else None
            deep = sum(1 for _ in takewhile(lambda one: one[1] == "...", steps[place + 1 :]))
            step = next((key for key in value if _holds(value[key], wrong, deep)), "...")
        elif index.isdigit():
            step = int(index)
        path.append(step)
        if isinstance(value, dict):
            value = value.get(step)
        elif isinstance(value, list) and isinstance(step, int):
            value = value[step]
    if missing := re.fullmatch(_MISSING, what):
        return Fault((*path, missing[1]), "a value", "none")
    if mismatch:
        expected = mismatch[1].removesuffix(" | null")
        words = _WORDS.get(expected) or " or ".join(
            _WORDS.get(part, part) for part in expected.split(" | ")
        )
        if expected == "str" and isinstance(value, bool | int | float):
            words += " (in quotes)"
        return Fault(tuple(path), words, validation.describe(value))
    return Fault(tuple(path), "something else", f"{validation.describe(value)} ({what})")


def _holds(value: object, wrong: str | None, deep: int) -> bool:
    """Whether there is a value of the wrong type so many maps down."""
    if not deep:
        return _type_name(value) == wrong
    return isinstance(value, dict) and any(_holds(one, wrong, deep - 1) for one in value.values())


def _type_name(value: object) -> str:
    """What msgspec calls the type of a plain value."""
    match value:
        case None:
            return "null"
        case dict():
            return "object"
        case list():
            return "array"
        case _:
            return type(value).__name__
