"""The extender protocol of kube-scheduler, version 1 of its types, with node names only.

kube-scheduler writes the names of fields capitalised and reads them in any case; up to 1.16 it
wrote them in small letters. So both are read, and capitalised names are written.
"""

from typing import NamedTuple

import msgspec

from tonnage.errors import InputError
from tonnage.objects import codec, kinds
from tonnage.objects.pods import Pod
from tonnage.service.http_questions import TooMuchError


class FilterRequest(NamedTuple):
    """What filter and prioritize are asked: this pod, on one of these nodes?"""

    pod: Pod
    names: list[str]


class FilterResult(msgspec.Struct, frozen=True, kw_only=True, rename="pascal"):
    """Nodes that may take the pod, and reasons for the others.

    No other pod's leaving would help on the unresolvable ones, so preemption passes them over.
    """

    nodes: None = None
    node_names: list[str] | None = None
    failed_nodes: dict[str, str] = {}
    failed_and_unresolvable_nodes: dict[str, str] = {}
    error: str = ""


class HostPriority(msgspec.Struct, frozen=True, rename="pascal"):
    host: str
    score: int


MOST = 10
"""The highest score an extender may give."""

MOST_NODES = 50_000
MOST_VALUES = 500_000
"""In a question, elements of lists and fields together; a pod with 100,000 fields leaves room."""

encode = msgspec.json.Encoder().encode


def read(body: bytes) -> FilterRequest:
    """The question in a body; `InputError` says what is wrong with it.

    More than is answered is told from the number of commas: building it would cost much more.
    """
    # Each takes two bytes at least, so that most questions need no counting.
    if len(body) > 2 * MOST_VALUES and body.count(b",") > MOST_VALUES:
        raise TooMuchError(f"expected no more than {MOST_VALUES} values")
    try:
        args = _ARGS.decode(body)
        if _absent(args.pod):
            args = _in_any_case(body)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        said = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise InputError(f"expected ExtenderArgs with Pod and NodeNames: {said}") from None
    if _absent(args.pod):
        raise InputError("Pod: expected an object, found none")
    if args.node_names is None:
        asked = "neither Nodes nor NodeNames" if _absent(args.nodes) else "Nodes"
        raise InputError(
            f"NodeNames: expected names of nodes, found {asked};"
            " the extender's entry in the scheduler's configuration needs nodeCacheCapable: true"
        )
    if len(args.node_names) > MOST_NODES:
        raise TooMuchError(f"NodeNames: {len(args.node_names)}: expected {MOST_NODES} at most")
    return FilterRequest(pod_of(args.pod), args.node_names)


def pod_of(raw: msgspec.Raw) -> Pod:
    """A pod from its JSON."""
    pod = codec.decode(raw, _POD)
    assert isinstance(pod, Pod)
    return pod


class _Args(msgspec.Struct, frozen=True, rename="pascal"):
    pod: msgspec.Raw = msgspec.Raw()
    nodes: msgspec.Raw = msgspec.Raw()
    node_names: list[str] | None = None


_ARGS = msgspec.json.Decoder(_Args)
_ANY_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_FIELDS = {name.lower(): name for name in _Args.__struct_encode_fields__}


def _absent(raw: msgspec.Raw) -> bool:
    return bytes(raw) in (b"", b"null")


def _in_any_case(body: bytes) -> _Args:
    fields = _ANY_FIELDS.decode(body)
    renamed = {_FIELDS.get(name.lower(), name): raw for name, raw in fields.items()}
    return _ARGS.decode(msgspec.json.encode(renamed))


_POD = next(row for row in kinds.ALL if row.type is Pod)
