"""How many volumes a machine can attach, by instance type: the source of last resort.

Nodes that do not exist yet, in groups nobody has seen a node of, still need a number of slots.
Here it comes from tables (`data/`, each with source and date) and the drivers' own formulas
(`formulas`). A type or driver that is not listed gets None, never a guess. `denser` are types with
more slots per CPU.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, TypeAlias

import msgspec

from tonnage.errors import InputError
from tonnage.groups.catalogue import formulas, tables
from tonnage.groups.catalogue.formulas import GCE_OVERRIDE_LABEL, ComputedSlots
from tonnage.objects import limit_keys
from tonnage.objects.meta import Record
from tonnage.objects.phrases import near_names

__all__ = [
    "AZURE_DISK",
    "EBS",
    "GCE_OVERRIDE_LABEL",
    "GCE_PD",
    "CatalogueLimit",
    "CataloguePool",
    "PoolMember",
    "drivers",
    "drivers_for",
    "intree_limit",
    "lookup",
    "near",
    "pool",
    "types_of",
    "why_unknown",
]

EBS = "ebs.csi.aws.com"
GCE_PD = "pd.csi.storage.gke.io"
AZURE_DISK = "disk.csi.azure.com"

_ASSUMED = MappingProxyType(
    {EBS: "27 shared slots", GCE_PD: "127 disks", AZURE_DISK: "16 data disks"}
)

MemberKind: TypeAlias = Literal["driver", "interface", "disk", "accelerator"]


class CatalogueLimit(Record, frozen=True, kw_only=True):
    """How many volumes of a driver an instance type attaches, and who says so."""

    instance_type: str
    driver: str
    count: int
    formula: str
    source: str
    date: str


class PoolMember(Record, frozen=True, kw_only=True):
    """Something that takes slots of a pool.

    `name` is a driver's name, or `eni`, `local-nvme`, `root-disk`, `boot-disk`, `accelerator`.
    `held` is how many a fresh machine has already, `most` how many it can ever have.
    """

    name: str
    kind: MemberKind
    weight: int = 1
    held: int = 0
    most: int | None = None


class CataloguePool(Record, frozen=True, kw_only=True):
    """Slots that several things share: the sum of weight times number never exceeds the size."""

    name: str
    size: int
    members: tuple[PoolMember, ...]
    source: str
    date: str


class _Machine(msgspec.Struct, frozen=True):
    """What a formula may want to know of a machine beside its type."""

    enis: int
    reserved: int
    memory_gib: int | None
    labels: Mapping[str, str]


def lookup(
    driver: str,
    instance_type: str,
    *,
    enis: int = 1,
    reserved: int | None = None,
    memory_gib: int | None = None,
    labels: Mapping[str, str] | None = None,
) -> CatalogueLimit | None:
    """The attach limit of a driver on an instance type, or None when the catalogue has none.

    `enis` counts all network interfaces, the first included; they matter on AWS types with
    shared slots. `reserved` are slots to keep free beside the root or boot disk. `memory_gib` is
    needed for drivers whose number follows the memory (Linode). `labels` are the node's: GKE has
    one that overrides the number.

    A count of 0 means that no volume can be attached.
    """
    machine = _machine(enis, reserved, memory_gib, labels)
    if driver == EBS:
        return _ebs(instance_type, machine)
    if driver == GCE_PD:
        return _gce(instance_type, machine)
    if driver == AZURE_DISK:
        return _azure(instance_type, machine)
    return _fixed(driver, instance_type, machine)


def drivers_for(
    instance_type: str,
    *,
    enis: int = 1,
    reserved: int | None = None,
    memory_gib: int | None = None,
    labels: Mapping[str, str] | None = None,
) -> list[CatalogueLimit]:
    """The limits of all drivers of the cloud that has this instance type."""
    machine = _machine(enis, reserved, memory_gib, labels)
    found = [_ebs(instance_type, machine), _gce(instance_type, machine)]
    found.append(_azure(instance_type, machine))
    for driver, entry in tables.fixed().items():
        if entry.runs_on(instance_type):
            found.append(_fixed(driver, instance_type, machine))
    return [limit for limit in found if limit is not None]


def drivers() -> list[str]:
    """Every driver the catalogue has numbers for."""
    return sorted([EBS, GCE_PD, AZURE_DISK, *tables.fixed()])


def types_of(driver: str) -> list[str]:
    """The instance types listed for a driver; none for drivers that go by a rule alone."""
    if driver == EBS:
        return list(tables.aws().types)
    if driver == AZURE_DISK:
        return [_azure_spelling(size) for size in tables.azure().sizes]
    return []


def pool(instance_type: str) -> CataloguePool | None:
    """The slots of an instance type that volumes share with other things.

    None where there is nothing to share: volumes have slots of their own, or the type is unknown.
    """
    aws = tables.aws()
    row = aws.types.get(instance_type)
    if row is not None:
        shared = formulas.aws_shared_slots(instance_type, row)
        if shared is None:
            return None
        return CataloguePool(
            name="aws-nitro",
            size=shared.size,
            members=(
                PoolMember(name=EBS, kind="driver"),
                PoolMember(name="eni", kind="interface", held=1, most=row.enis),
                *_held("root-disk", "disk", 1),
                *_held("local-nvme", "disk", shared.nvme),
                *_held("accelerator", "accelerator", shared.accelerators),
            ),
            source=aws.source,
            date=aws.date,
        )
    gce = tables.gce()
    disks = formulas.gce_disks(instance_type, gce)
    if disks is None:
        return None
    return CataloguePool(
        name="gce-disks",
        size=disks + 1,
        members=(PoolMember(name=GCE_PD, kind="driver"), *_held("boot-disk", "disk", 1)),
        source=gce.source,
        date=gce.date,
    )


def near(instance_type: str) -> list[str]:
    """Known types whose names come closest to one that is not known."""
    _, dash, shape = instance_type.partition("-")
    names = [*types_of(EBS), *types_of(AZURE_DISK), *tables.gce().shared_core.types]
    if dash:
        relatives = (f"{family}-{shape}" for family in tables.gce().families)
        names += [name for name in relatives if drivers_for(name)]
    spelling = {name.lower(): name for name in names}
    found = near_names(instance_type.lower(), sorted(spelling))
    return [spelling[name] for name in found]


def why_unknown(instance_type: str, driver: str | None = None) -> str:
    """One line for people on why `lookup` or `drivers_for` had no answer."""
    if driver is not None and driver not in drivers():
        return f"{driver} is not a driver of the catalogue; those are {', '.join(drivers())}"
    others = [limit.driver for limit in drivers_for(instance_type)]
    if driver is not None and others:
        return f"{instance_type} has no limit of {driver} in the catalogue, only of {others[0]}"
    for name, entry in tables.fixed().items():
        asked = name == driver or (driver is None and entry.runs_on(instance_type))
        if asked and entry.memory is not None:
            return f"{instance_type}: the limit of {name} depends on the memory, which is not given"
    close = near(instance_type)
    hint = f"near matches: {', '.join(close)}" if close else "no name comes near"
    message = f"{instance_type} is not in the catalogue; {hint}"
    if driver is None or driver not in _ASSUMED:
        return message
    return f"{message}; {driver} itself would assume {_ASSUMED[driver]}"


def intree_limit(
    plugin: str,
    instance_type: str,
    *,
    provider: str,
) -> int:
    """`limitkeys.kubelet_limit`, with the catalogue's table of Azure sizes."""
    return limit_keys.kubelet_limit(
        plugin,
        instance_type,
        provider=provider,
        azure_sizes=tables.azure().legacy,
    )


def _machine(
    enis: int, reserved: int | None, memory_gib: int | None, labels: Mapping[str, str] | None
) -> _Machine:
    if enis < 1:
        raise InputError(f"enis is {enis}; a machine has at least one network interface")
    if reserved is not None and reserved < 0:
        raise InputError(f"reserved is {reserved}; expected 0 or more slots")
    return _Machine(enis, reserved or 0, memory_gib, labels or {})


def _ebs(instance_type: str, machine: _Machine) -> CatalogueLimit | None:
    table = tables.aws()
    row = table.types.get(instance_type)
    if row is None:
        return None
    slots = formulas.aws_ebs(instance_type, row, enis=machine.enis, reserved=machine.reserved)
    return _limit(EBS, instance_type, slots, source=table.source, date=table.date)


def _gce(instance_type: str, machine: _Machine) -> CatalogueLimit | None:
    table = tables.gce()
    slots = formulas.gce_pd(instance_type, table, labels=machine.labels, reserved=machine.reserved)
    return _limit(GCE_PD, instance_type, slots, source=table.source, date=table.date)


def _azure(instance_type: str, machine: _Machine) -> CatalogueLimit | None:
    table = tables.azure()
    size = instance_type.upper()
    disks = table.sizes.get(size)
    if disks is None:
        return None
    slots = formulas.azure_disk(disks, reserved=machine.reserved)
    source = table.legacy_source if size in table.legacy else table.source
    return _limit(AZURE_DISK, instance_type, slots, source=source, date=table.date)


def _fixed(driver: str, instance_type: str, machine: _Machine) -> CatalogueLimit | None:
    entry = tables.fixed().get(driver)
    if entry is None:
        return None
    slots = formulas.fixed(entry, memory_gib=machine.memory_gib, reserved=machine.reserved)
    return _limit(driver, instance_type, slots, source=entry.source, date=entry.date)


def _limit(
    driver: str, instance_type: str, slots: ComputedSlots | None, *, source: str, date: str
) -> CatalogueLimit | None:
    if slots is None:
        return None
    return CatalogueLimit(
        instance_type=instance_type,
        driver=driver,
        count=slots.number,
        formula=slots.formula,
        source=source,
        date=date,
    )


def _held(name: str, kind: MemberKind, number: int) -> tuple[PoolMember, ...]:
    if not number:
        return ()
    return (PoolMember(name=name, kind=kind, held=number, most=number),)


def _azure_spelling(size: str) -> str:
    """The name as Azure writes it: STANDARD_NC24ADS_A100_V4 is Standard_NC24ads_A100_v4."""
    tier, first, *rest = size.split("_")
    series = re.match(r"[A-Z]*", first)
    capitals = series.end() if series else 0
    words = [first[:capitals] + first[capitals:].lower()]
    for word in rest:
        words.append(word.lower() if re.fullmatch(r"V[0-9]+", word) else word)
    return "_".join([tier.capitalize(), *words])
