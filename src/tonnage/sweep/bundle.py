"""A sweep with its clusters as bytes, for processes that do not have its files.

Lines of JSON, packed: the definition, then each cluster (a Scenario, or a Simulation as it was
read), then the objects of each file that pods are added from. The same sweep gives the same bytes.
"""

import gzip
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, TypeAlias

import msgspec

from tonnage import files
from tonnage.errors import InputError
from tonnage.files import Loaded, scenario_writer
from tonnage.objects import codec
from tonnage.objects.kinds import KubeObject
from tonnage.simulation.scenario import Simulation
from tonnage.sweep.definition import Definition

SweptCluster: TypeAlias = Loaded | Simulation | None
"""What is asked about: objects, a scenario to be played, or nothing but a seed."""


class SweepBundle(NamedTuple):
    """Everything that a sweep needs. `added` are the objects of files that add pods, by path."""

    definition: Definition
    clusters: tuple[SweptCluster, ...]
    added: Mapping[str, tuple[KubeObject, ...]]

    def lines(self) -> Iterator[bytes]:
        names = self.definition.clusters
        head = {
            "kind": "SweepBundle",
            "definition": self.definition,
            "added": list(self.added),
        }
        yield msgspec.json.encode(head) + b"\n"
        for name, cluster in zip(names, self.clusters, strict=True):
            if isinstance(cluster, Loaded):
                yield b"".join(scenario_writer.pieces(cluster, name=name or "cluster", taken_at=""))
            else:
                yield msgspec.json.encode(cluster) + b"\n"
        for path, objects in self.added.items():
            loaded = Loaded(objects=list(objects))
            yield b"".join(scenario_writer.pieces(loaded, name=path, taken_at=""))


class _Head(msgspec.Struct, frozen=True):
    kind: str
    definition: Definition
    added: tuple[str, ...] = ()


def digest(lines: Iterable[bytes]) -> str:
    """What tells one sweep from another."""
    found = hashlib.sha256()
    for line in lines:
        found.update(line)
    return found.hexdigest()[:32]


def packed(bundle: SweepBundle) -> bytes:
    return gzip.compress(b"".join(bundle.lines()), compresslevel=6, mtime=0)


def unpacked(data: bytes, *, name: str = "bundle") -> SweepBundle:
    """The sweep in bytes that `packed` made."""
    try:
        head, *rest = gzip.decompress(data).splitlines()
        found = msgspec.json.decode(head, type=_Head)
    except (OSError, EOFError, ValueError, msgspec.MsgspecError) as error:
        raise InputError(f"{name}: not a bundle of a sweep: {error}") from error
    definition, count = found.definition, len(found.definition.clusters)
    if found.kind != "SweepBundle" or len(rest) != count + len(found.added):
        raise InputError(f"{name}: not a bundle of a sweep, or not all of it")
    with codec.collector_paused():
        clusters = tuple(_cluster(line, definition) for line in rest[:count])
        added = {
            path: tuple(files.decode_scenario(line).objects)
            for path, line in zip(found.added, rest[count:], strict=True)
        }
    return SweepBundle(definition, clusters, added)


def _cluster(line: bytes, definition: Definition) -> SweptCluster:
    if definition.ask == "explore":
        return None
    if definition.ask == "simulate":
        return msgspec.json.decode(line, type=Simulation)
    return files.decode_scenario(line)
