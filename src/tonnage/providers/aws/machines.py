"""What EC2 says of instance types, and how many EBS volumes one of them attaches."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from tonnage.errors import ProviderError
from tonnage.groups import catalogue
from tonnage.groups.catalogue import formulas
from tonnage.groups.catalogue.tables import AwsType, Kind
from tonnage.providers.aws.calls import Calls

_SIZE = {"VCpuInfo": "DefaultVCpus", "MemoryInfo": "SizeInMiB"}


class InstanceType(NamedTuple):
    """An instance type: memory in MiB, and EBS slots of a node with one network interface."""

    name: str
    cpus: int
    memory: int
    gpus: int
    architecture: str
    ebs_slots: int | None


class InstanceTypes:
    """Asked once per type: what a type is does not change."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._known: dict[str, InstanceType] = {}

    async def learn(self, names: Iterable[str]) -> None:
        """Look up those that are not known, as many at once as possible."""
        missing = sorted({name for name in names if name and name not in self._known})
        if missing:
            for told in await self._calls.instance_types(missing):
                machine = machine_of(told)
                self._known[machine.name] = machine

    def get(self, name: str) -> InstanceType | None:
        return self._known.get(name)


def machine_of(told: Any) -> InstanceType:
    """One entry of DescribeInstanceTypes; one without its size is a `ProviderError`."""
    name = told["InstanceType"]
    for field, part in _SIZE.items():
        if part not in told.get(field, {}):
            raise ProviderError(f"AWS: EC2 does not tell {field}.{part} of instance type {name}")
    gpus = told.get("GpuInfo", {}).get("Gpus", [])
    architectures = told.get("ProcessorInfo", {}).get("SupportedArchitectures", [])
    return InstanceType(
        name=name,
        cpus=told["VCpuInfo"]["DefaultVCpus"],
        memory=told["MemoryInfo"]["SizeInMiB"],
        gpus=sum(one.get("Count", 0) for one in gpus if one.get("Manufacturer") == "NVIDIA"),
        architecture="arm64" if "arm64" in architectures else "amd64",
        ebs_slots=_ebs_slots(name, told),
    )


def _ebs_slots(name: str, told: Any) -> int | None:
    """By the driver's own formula, from the numbers of the API; else from the catalogue."""
    ebs = told.get("EbsInfo", {})
    attachments = ebs.get("MaximumEbsAttachments")
    if not attachments:
        found = catalogue.lookup(catalogue.EBS, name)
        return found.count if found is not None else None
    nitro = told.get("Hypervisor", "nitro") == "nitro" or told.get("BareMetal", False)
    kind: Kind = "x" if not nitro else "d" if ebs.get("AttachmentLimitType") == "dedicated" else "s"
    disks = told.get("InstanceStorageInfo", {}).get("Disks", [])
    row = AwsType(
        kind=kind,
        attachments=attachments,
        nvme=sum(disk.get("Count", 0) for disk in disks),
        enis=told.get("NetworkInfo", {}).get("MaximumNetworkInterfaces", 1),
    )
    return formulas.aws_ebs(name, row, enis=1, reserved=0).number
