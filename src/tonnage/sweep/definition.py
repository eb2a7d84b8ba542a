"""A sweep as one value: what is asked of which clusters, with which changes."""

from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec

from tonnage.errors import InputError
from tonnage.files import plain, sources
from tonnage.objects.meta import ObjectMeta, Record
from tonnage.objects.scenarios import API_VERSION
from tonnage.sweep import variants
from tonnage.sweep.variants import ListedVariant, Space

KIND = "Sweep"

Ask: TypeAlias = Literal["plan", "scale-down", "simulate", "explore"]


class ClusterFiles(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A cluster by its files, relative to the file that names them."""

    name: str = ""
    files: tuple[str, ...]


class NamedVariant(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Changes that go together."""

    name: str
    changes: tuple[str, ...] = ()


class SweepSpec(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a Sweep file may say. `grid` are axes, `variants` changes that go together; with both,
    each of the variants is taken over the whole grid. `options` are those of a Scenario."""

    ask: Ask = "plan"
    clusters: tuple[ClusterFiles, ...] = ()
    grid: tuple[str, ...] = ()
    variants: tuple[NamedVariant, ...] = ()
    options: dict[str, Any] = {}


class SweepFile(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A Sweep as people write it."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()
    spec: SweepSpec = SweepSpec()


class Definition(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A sweep but for its clusters, whose names it has. The same definition and the same clusters
    give the same results."""

    name: str
    ask: Ask
    clusters: tuple[str, ...]
    grid: tuple[str, ...] = ()
    listed: tuple[ListedVariant, ...] = ()
    now: float = 0.0
    whole_answers: bool = False

    def space(self) -> Space:
        return Space(len(self.clusters), variants.axes(self.grid), self.listed)


class ReadSweep(NamedTuple):
    """A Sweep file, and the folder that its files are relative to."""

    name: str
    spec: SweepSpec
    folder: Path


def read(path: str) -> ReadSweep:
    """A Sweep from a file of YAML or JSON; `-` is standard input."""
    values = plain.load_plain([path])
    name = "standard input" if path == sources.STDIN else path
    if len(values) != 1:
        raise InputError(f"{name}: expected one document of kind {KIND}, found {len(values)}")
    value = values[0]
    if value.get("kind") != KIND:
        raise InputError(f"{name}: expected a document of kind {KIND}")
    if value.get("apiVersion") != API_VERSION:
        raise InputError(f"{name}: apiVersion: expected {API_VERSION}")
    try:
        made = msgspec.convert(value, SweepFile)
    except msgspec.ValidationError as error:
        raise InputError(f"{name}: {error}") from None
    folder = Path() if path == sources.STDIN else Path(path).parent
    return ReadSweep(made.metadata.name or Path(path).stem, made.spec, folder)
