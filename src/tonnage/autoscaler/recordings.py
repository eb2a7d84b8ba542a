"""What a decision came from, kept small enough to be kept: so that it can be made again elsewhere.

The cluster is a Scenario as `tonnage export` writes it; before it stands what only the autoscaler
knew. Deciding is pure, so the same inputs give the same plan, and where they do not, that
is a fault worth a report.
"""

import zlib
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import msgspec

from tonnage.errors import InputError
from tonnage.files import scenario_writer
from tonnage.files.loaded import Loaded, ScenarioOptions
from tonnage.groups.cluster_state import ClusterState
from tonnage.groups.inputs import WrittenInputs
from tonnage.objects import codec, kinds
from tonnage.objects.kinds import KubeObject
from tonnage.objects.scenarios import Scenario
from tonnage.rules.features import Features
from tonnage.scaleup import decision
from tonnage.scaleup.plan import Plan

T = TypeVar("T", bound=msgspec.Struct)

_A_BREATH = 200
"""Objects written before others may go on; a few milliseconds."""

_FAST = 1
"""The level of compression: twice the size of the best, in a tenth of the time."""


async def pack(
    head: msgspec.Struct,
    objects: Sequence[KubeObject],
    *,
    features: Features,
    max_bytes: int,
    breathe: Callable[[], Awaitable[None]],
) -> bytes:
    """A head and the objects in at most so many bytes, or nothing if it takes more."""
    packer = zlib.compressobj(_FAST)
    found = bytearray()
    for number, piece in enumerate(_pieces(head, objects, features)):
        found += packer.compress(piece)
        if len(found) > max_bytes:
            return b""
        if number % _A_BREATH == 0:
            await breathe()
    found += packer.flush()
    return bytes(found) if len(found) <= max_bytes else b""


def _pieces(
    head: msgspec.Struct, objects: Sequence[KubeObject], features: Features
) -> Iterator[bytes]:
    yield msgspec.json.encode(head) + b"\n"
    major, minor = features.version
    scenario = ScenarioOptions(kubernetes_version=f"{major}.{minor}")
    loaded = Loaded(objects=list(objects), scenario=scenario)
    yield from scenario_writer.pieces(loaded, name="decision", taken_at="")


def unpack(data: bytes, head: type[T]) -> tuple[T, list[KubeObject]]:
    """What was packed; `InputError` if it was not by us."""
    try:
        first, _, second = zlib.decompress(data).partition(b"\n")
        found = msgspec.json.decode(first, type=head)
        scenario = msgspec.json.decode(second, type=Scenario)
    except (zlib.error, msgspec.DecodeError) as error:
        raise InputError(f"the recording of the decision cannot be read: {error}") from None
    with codec.collector_paused():
        return found, list(decoded(scenario.spec.objects))


def replayed(inputs: WrittenInputs, objects: Sequence[KubeObject]) -> Plan:
    """The plan that the same inputs give now."""
    cluster = ClusterState.of(objects, inputs.features, inputs.options)
    return decision.decide(inputs.on(cluster)).plan


class _Head(msgspec.Struct, rename="camel"):
    api_version: str
    kind: str


def decoded(objects: Iterable[msgspec.Raw]) -> Iterator[KubeObject]:
    """Objects of their manifests."""
    for raw in objects:
        head = msgspec.json.decode(raw, type=_Head)
        row = kinds.by_kind(head.api_version, head.kind)
        if row is None:
            raise InputError(f"the recording has a {head.kind} of {head.api_version}: not known")
        yield codec.decode(raw, row)
