"""How a limit is worked out, one small function per driver, with the sum written out in words.

Each follows what the driver itself computes when it starts on such a machine, so that a node that
does not exist yet gets the number it will publish.
"""

import re
from collections.abc import Mapping

import msgspec

from tonnage.groups.catalogue.tables import AwsType, FixedDriver, GceTable, Step

GCE_OVERRIDE_LABEL = "node-restriction.kubernetes.io/gke-volume-attach-limit-override"

_NITRO_SLOTS = 28
_XEN_SLOTS = 39  # EC2 says 40 for most of them; the driver never counts on more than 39
_SIZED_METAL = r"\.metal-[0-9]+xl$"
_GCE_OVERRIDES = range(1, 128)
_CUSTOM = r"custom-[0-9]+-[0-9]+(-ext)?"
_SHAPE = r"[a-z0-9]+-[a-z]+-[0-9]+g?(-[a-z0-9]+)*"


class ComputedSlots(msgspec.Struct, frozen=True):
    """A limit, and the sum that gave it."""

    number: int
    formula: str


class Spent(msgspec.Struct, frozen=True):
    """Slots that are gone before the first volume."""

    number: int
    name: str

    def __str__(self) -> str:
        plural = "s" if self.number > 1 and self.name in {"ENI", "accelerator"} else ""
        return f"{self.number} {self.name}{plural}"


class ComputedSharedSlots(msgspec.Struct, frozen=True):
    """The slots of a Nitro type that volumes share with everything else on the bus."""

    size: int
    nvme: int
    accelerators: int


def aws_ebs(name: str, row: AwsType, *, enis: int, reserved: int) -> ComputedSlots:
    """EBS volumes on an EC2 instance type with `enis` network interfaces."""
    root, kept = Spent(1, "root disk"), Spent(reserved, "reserved")
    shared = aws_shared_slots(name, row)
    if shared is not None:
        spent = [root, Spent(enis, "ENI"), Spent(shared.nvme, "local NVMe")]
        if shared.accelerators:
            spent.append(Spent(shared.accelerators, "accelerator"))
        return _subtract(shared.size, "shared slots", *spent, kept, at_least=1)
    if row.kind == "x":
        return _subtract(_XEN_SLOTS, "slots (before Nitro)", root, kept, at_least=1)
    what = "dedicated slots" if row.kind == "d" else "dedicated slots (EC2 says shared)"
    return _subtract(row.attachments, what, root, kept, at_least=1)


def aws_shared_slots(name: str, row: AwsType) -> ComputedSharedSlots | None:
    """The shared slots of an EC2 instance type, or None where volumes have slots of their own.

    EC2 has already taken the first interface off its number, and on virtual machines the local
    disks and accelerators too; here they are put back, to show where the slots went. On bare
    metal, and on the few machines whose number leaves no room for them, they take no slot.
    """
    if row.kind != "s" or re.search(_SIZED_METAL, name):
        return None
    volumes_and_first_eni = row.attachments + 1
    accelerators = _NITRO_SLOTS - volumes_and_first_eni - row.nvme
    if accelerators < 0 or name.endswith(".metal"):
        return ComputedSharedSlots(volumes_and_first_eni, nvme=0, accelerators=0)
    return ComputedSharedSlots(_NITRO_SLOTS, row.nvme, accelerators)


def azure_disk(disks: int, *, reserved: int) -> ComputedSlots:
    """Data disks of an Azure VM size; the boot disk is not one of them."""
    what = "data disk" if disks == 1 else "data disks"
    return _subtract(disks, what, Spent(reserved, "reserved"))


def gce_pd(
    machine_type: str, table: GceTable, *, labels: Mapping[str, str], reserved: int
) -> ComputedSlots | None:
    """Persistent disks and Hyperdisks of a GCE machine type.

    None where the driver's rule finds nothing in the name to go by: it then publishes its
    biggest number, which on the newest families is several times too high.
    """
    disks = gce_disks(machine_type, table)
    if disks is None:
        return None
    kept = Spent(reserved, "reserved")
    override = labels.get(GCE_OVERRIDE_LABEL, "")
    overridable = machine_type not in table.shared_core.types
    if overridable and override.isdecimal() and int(override) in _GCE_OVERRIDES:
        return _subtract(int(override), f"by node label {GCE_OVERRIDE_LABEL}", kept)
    return _subtract(disks + 1, "disks", Spent(1, "boot disk"), kept)


def gce_disks(machine_type: str, table: GceTable) -> int | None:
    """The disks a machine type takes beside its boot disk."""
    if machine_type in table.shared_core.types:
        return table.shared_core.count
    family = machine_type.partition("-")[0]
    if family in table.by_gpu:
        return _gce_by_gpu(machine_type, family, table)
    if not (re.fullmatch(_SHAPE, machine_type) or re.fullmatch(_CUSTOM, machine_type)):
        return None
    if family in table.by_cpu:
        cpus = machine_type.split("-")[2]
        return _step(table.by_cpu[family], int(cpus)) if cpus.isdecimal() else None
    if family in table.by_family:
        return table.by_family[family]
    if family in table.metal and machine_type.endswith("-metal"):
        return table.metal[family]
    return table.other if family in table.other_families else None


def fixed(entry: FixedDriver, *, memory_gib: int | None, reserved: int) -> ComputedSlots | None:
    """The number of a driver that asks for the memory of the machine at most."""
    spent = [Spent(entry.held, entry.held_by)] if entry.held else []
    spent.append(Spent(reserved, "reserved"))
    if entry.memory is None:
        return None if entry.count is None else _subtract(entry.count, f"({entry.basis})", *spent)
    if memory_gib is None:
        return None
    least, most = entry.memory
    total = min(max(memory_gib, least), most)
    return _subtract(total, f"({entry.basis}: {memory_gib} GiB)", *spent)


def _gce_by_gpu(machine_type: str, family: str, table: GceTable) -> int | None:
    fields = machine_type.split("-")
    if len(fields) < 3:
        return None
    if fields[2] == "metal":
        return table.gpu_metal.get(family)
    gpus = fields[2].removesuffix("g")
    return _step(table.by_gpu[family], int(gpus)) if gpus.isdecimal() else None


def _step(steps: tuple[Step, ...], number: int) -> int:
    return next((count for most, count in steps if number <= most), steps[-1][1])


def _subtract(total: int, what: str, *spent: Spent, at_least: int = 0) -> ComputedSlots:
    left = total - sum(each.number for each in spent)
    formula = " - ".join([f"{total} {what}", *map(str, spent)]) + f" = {left}"
    if left >= at_least:
        return ComputedSlots(left, formula)
    why = "the driver publishes 1, never less" if at_least else "none left"
    return ComputedSlots(at_least, f"{formula}: {why}")
