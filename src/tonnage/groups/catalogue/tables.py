"""The catalogue's data files as typed tables, each read when it is first asked for."""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias, TypeVar

import msgspec

T = TypeVar("T")

Step: TypeAlias = tuple[int, int]
"""Up to so many (vCPUs, GPUs), so many disks; the last step holds beyond it too."""

Kind: TypeAlias = Literal["s", "d", "x"]
"""Of EC2's slots: shared with interfaces, dedicated to EBS, or Xen (before Nitro)."""


class AwsType(NamedTuple):
    """What EC2 says of an instance type."""

    kind: Kind
    attachments: int
    nvme: int
    enis: int


class AwsTable(msgspec.Struct, frozen=True):
    source: str
    date: str
    types: Mapping[str, AwsType]


class AzureTable(msgspec.Struct, frozen=True):
    """Data disks by VM size, in upper case; `legacy` are those the in-tree plugin knew."""

    source: str
    legacy_source: str
    date: str
    legacy: Mapping[str, int]
    sizes: Mapping[str, int]


class _File(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Base of what stands in a data file; a misspelt field must not pass for an absent one."""


class SharedCore(_File, frozen=True):
    types: frozenset[str]
    count: int


class GceTable(_File, frozen=True):
    """Disks beside the boot disk, by machine type."""

    source: str
    date: str
    shared_core: SharedCore
    by_cpu: dict[str, tuple[Step, ...]]
    by_gpu: dict[str, tuple[Step, ...]]
    gpu_metal: dict[str, int]
    by_family: dict[str, int]
    metal: dict[str, int]
    other_families: frozenset[str]
    other: int

    @property
    def families(self) -> list[str]:
        return sorted({*self.by_cpu, *self.by_gpu, *self.by_family, *self.other_families})


class FixedDriver(_File, frozen=True, kw_only=True):
    """A driver whose number does not depend on the instance type, or on its memory alone."""

    driver: str
    source: str
    date: str
    basis: str
    count: int | None = None
    memory: tuple[int, int] | None = None
    held: int = 0
    held_by: str = ""
    types: str | None = None

    def runs_on(self, instance_type: str) -> bool:
        """Whether the name of a type is of the kind that the driver's cloud uses."""
        return self.types is not None and re.fullmatch(self.types, instance_type) is not None


@cache
def aws() -> AwsTable:
    file = _read("aws.json", _AwsFile)
    columns = zip(file.kinds, file.attachments, file.nvme, file.enis, strict=True)
    rows = map(AwsType._make, columns)
    return AwsTable(file.source, file.date, dict(zip(file.types.split(), rows, strict=True)))


@cache
def azure() -> AzureTable:
    file = _read("azure.json", _AzureFile)
    legacy = {
        name if name.startswith("BASIC_") else f"STANDARD_{name}": count
        for count, names in file.legacy.items()
        for name in names.split()
    }
    sizes = legacy | dict(_family_sizes(file.families))
    return AzureTable(file.source, file.legacy_source, file.date, legacy, sizes)


@cache
def gce() -> GceTable:
    return _read("gce.json", GceTable)


@cache
def fixed() -> Mapping[str, FixedDriver]:
    return {entry.driver: entry for entry in _read("fixed.json", _FixedFile).drivers}


class _AwsFile(_File, frozen=True):
    source: str
    date: str
    types: str
    kinds: str
    attachments: tuple[int, ...]
    nvme: tuple[int, ...]
    enis: tuple[int, ...]


class _AzureFile(_File, frozen=True):
    source: str
    legacy_source: str
    date: str
    legacy: dict[int, str]
    families: tuple[tuple[str, dict[int, str]], ...]


class _FixedFile(_File, frozen=True):
    drivers: tuple[FixedDriver, ...]


def _family_sizes(
    families: tuple[tuple[str, dict[int, str]], ...],
) -> Iterator[tuple[str, int]]:
    """Sizes written out: `#` in the name of a family stands for the number of vCPUs."""
    for names, counts in families:
        for name in names.split():
            for count, cpus in counts.items():
                for shape in cpus.split():
                    yield "STANDARD_" + name.replace("#", shape), count


def _read(name: str, into: type[T]) -> T:
    data = Path(__file__).parent.joinpath("data", name).read_bytes()
    return msgspec.json.decode(data, type=into)
