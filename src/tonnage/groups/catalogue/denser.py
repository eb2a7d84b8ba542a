"""Instance types with more attach slots per CPU than another: what would strand less of a node.

The catalogue has no CPUs; they are read from the names of types, where names can be trusted with
them. Only types that could stand in are offered: of the same cloud, series, processor architecture
and extras, as many CPUs or the next smaller sizes.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from tonnage.groups import catalogue
from tonnage.objects.meta import Record


class DenserType(Record, frozen=True, kw_only=True):
    """An instance type with its slots and CPUs."""

    instance_type: str
    count: int
    cpus: int


class _Shape(NamedTuple):
    """What the name of a type says: `kin` is what a substitute has to share."""

    kin: tuple[str, ...]
    family: str
    generation: int
    cpus: int


_AWS = re.compile(r"(?P<series>[a-z]+)(?P<gen>[0-9]+)(?P<attributes>[a-z0-9-]*)\.(?P<size>\w+)")
_AWS_SIZES = {"medium": 1, "large": 2, "xlarge": 4}
_AWS_UNTRUSTED = frozenset({"mac", "hpc", "t"})
"""Series whose sizes are not counted in the usual CPUs."""
_AWS_OLD = 3
"""The generation from which on sizes are what their names say."""

_AZURE = re.compile(
    r"Standard_(?P<series>[A-Z]+)(?P<cpus>[0-9]+)(?P<attributes>[a-z]*)_v(?P<gen>[0-9]+)"
)
_AZURE_OLD = 3

_GCE = re.compile(r"(?P<family>[a-z][0-9][a-z]?)-(?P<kind>standard|highmem|highcpu)-(?P<cpus>\d+)")
_GCE_FAMILIES = frozenset({"n1", "n2", "n2d", "n4", "n4a", "n4d", "e2", "t2d", "c4", "c4a", "c4d"})
"""Families that come in 2, 4, 8, 16 and 32 CPUs."""


def than(instance_type: str, driver: str, *, most: int = 3) -> list[DenserType]:
    """Types with more slots of the driver per CPU, those with as many CPUs first.

    None for a type that the catalogue does not know, or whose name does not tell its CPUs.
    """
    own = catalogue.lookup(driver, instance_type)
    shape = _shape(driver, instance_type)
    if own is None or shape is None:
        return []
    as_large: list[tuple[_Shape, DenserType]] = []
    smaller: list[DenserType] = []
    for name in _candidates(driver, instance_type):
        other = _shape(driver, name)
        if other is None or other.kin != shape.kin or other.generation < shape.generation:
            continue
        found = catalogue.lookup(driver, name)
        if found is None or found.count * shape.cpus <= own.count * other.cpus:
            continue
        one = DenserType(instance_type=name, count=found.count, cpus=other.cpus)
        if other.cpus == shape.cpus:
            as_large.append((other, one))
        elif other.family == shape.family and other.cpus * 4 >= shape.cpus > other.cpus:
            smaller.append(one)
    as_large.sort(key=lambda pair: (-pair[1].count, pair[0].generation, pair[1].instance_type))
    smaller.sort(key=lambda one: (-one.cpus, one.instance_type))
    # Room is kept for a smaller size: it is the same machine, and the surer gain.
    kept = [one for _, one in as_large][: most - 1 if smaller else most]
    return [*kept, *smaller][:most]


def _candidates(driver: str, instance_type: str) -> Iterator[str]:
    yield from catalogue.types_of(driver)
    found = _GCE.fullmatch(instance_type)
    if driver == catalogue.GCE_PD and found is not None:
        for cpus in (16, 8, 4, 2):
            yield f"{found['family']}-{found['kind']}-{cpus}"


def _shape(driver: str, instance_type: str) -> _Shape | None:
    if driver == catalogue.EBS:
        return _aws(instance_type)
    if driver == catalogue.AZURE_DISK:
        return _azure(instance_type)
    return _gce(instance_type) if driver == catalogue.GCE_PD else None


def _aws(instance_type: str) -> _Shape | None:
    found = _AWS.fullmatch(instance_type)
    if found is None or found["series"] in _AWS_UNTRUSTED or int(found["gen"]) < _AWS_OLD:
        return None
    times = re.fullmatch(r"([0-9]+)xlarge", found["size"])
    cpus = 4 * int(times[1]) if times else _AWS_SIZES.get(found["size"])
    if cpus is None:
        return None
    attributes = found["attributes"]
    maker = attributes[0] if attributes[:1] in ("a", "g", "i") else ""
    architecture = "arm64" if maker == "g" else "amd64"
    kin = found["series"], architecture, attributes.removeprefix(maker)
    return _Shape(kin, instance_type.partition(".")[0], int(found["gen"]), cpus)


def _azure(instance_type: str) -> _Shape | None:
    """By the name as Azure spells it; older sizes are numbered, not counted in CPUs."""
    found = _AZURE.fullmatch(instance_type)
    if found is None or int(found["gen"]) < _AZURE_OLD:
        return None
    kin = found["series"], found["attributes"].replace("a", "")
    family = f"{found['series']}{found['attributes']}{found['gen']}"
    return _Shape(kin, family, int(found["gen"]), int(found["cpus"]))


def _gce(instance_type: str) -> _Shape | None:
    found = _GCE.fullmatch(instance_type)
    if found is None or found["family"] not in _GCE_FAMILIES:
        return None
    kin = found["family"], found["kind"]
    return _Shape(kin, found["family"], 0, int(found["cpus"]))


def size_of(instance_type: str) -> tuple[int, int] | None:
    """CPUs and GiB of memory, where the name of a type tells both."""
    for read, memory in ((_aws, _AWS_MEMORY), (_azure, _AZURE_MEMORY), (_gce, _GCE_MEMORY)):
        shape = read(instance_type)
        if shape is not None:
            kind = shape.kin[1] if read is _gce else shape.kin[0]
            of_cpu = memory.get(kind)
            return None if of_cpu is None else (shape.cpus, shape.cpus * of_cpu)
    return None


def kind_of(instance_type: str) -> tuple[str, str] | None:
    """The cloud and the processor architecture that the name of a type tells."""
    aws = _aws(instance_type)
    if aws is not None:
        return "aws", aws.kin[1]
    if _azure(instance_type) is not None:
        return "azure", "amd64"
    return ("gce", "amd64") if _gce(instance_type) is not None else None


_AWS_MEMORY = {"c": 2, "m": 4, "r": 8}
_AZURE_MEMORY = {"F": 2, "D": 4, "E": 8}
_GCE_MEMORY = {"standard": 4, "highmem": 8}
"""GiB of memory beside each CPU, by series or kind."""
