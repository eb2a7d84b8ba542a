"""What operators write on MachineDeployments, MachineSets and MachinePools.

Upstream passes over a value that it cannot read. Here it is passed over too, and named: a parser
gives what could be read and a list of what could not.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple, TypeVar

from tonnage.objects import durations, prices, quantities
from tonnage.objects.meta import ResourceList
from tonnage.objects.nodes import Taint
from tonnage.objects.storage import NodeDriver, NodeDriverAllocatable
from tonnage.objects.validation import QUANTITY, describe
from tonnage.providers.protocol import GroupOptions

T = TypeVar("T")

CAPACITY = "capacity.cluster-autoscaler.kubernetes.io"
CPU = f"{CAPACITY}/cpu"
MEMORY = f"{CAPACITY}/memory"
EPHEMERAL_DISK = f"{CAPACITY}/ephemeral-disk"
MAX_PODS = f"{CAPACITY}/maxPods"
GPU_COUNT = f"{CAPACITY}/gpu-count"
GPU_TYPE = f"{CAPACITY}/gpu-type"
LABELS = f"{CAPACITY}/labels"
TAINTS = f"{CAPACITY}/taints"
CSI_DRIVER = f"{CAPACITY}/csi-driver"
PRICE = "tonnage.dev/price-per-hour"
"""Ours: Cluster API knows no prices."""

_QUANTITIES = {CPU: "cpu", MEMORY: "memory", EPHEMERAL_DISK: "ephemeral-storage"}
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_LARGEST = 2**31 - 1
_WHOLE = re.compile(r"[0-9]{1,10}")
_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_PREFIX = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")


class Keys(NamedTuple):
    """The annotations and labels whose names begin with the API group."""

    group: str = "cluster.x-k8s.io"

    @property
    def min_size(self) -> str:
        return f"{self.group}/cluster-api-autoscaler-node-group-min-size"

    @property
    def max_size(self) -> str:
        return f"{self.group}/cluster-api-autoscaler-node-group-max-size"

    @property
    def paused(self) -> str:
        return f"{self.group}/paused"

    @property
    def delete_machine(self) -> str:
        return f"{self.group}/delete-machine"

    @property
    def machine(self) -> str:
        """On a node: the name of its Machine."""
        return f"{self.group}/machine"

    @property
    def cluster_namespace(self) -> str:
        """On a node: the namespace of its Machine."""
        return f"{self.group}/cluster-namespace"

    def option(self, name: str) -> str:
        return f"{self.group}/autoscaling-options-{name}"


class Sizes(NamedTuple):
    least: int
    most: int


class Capacity(NamedTuple):
    """What the annotations say a new node has."""

    resources: ResourceList
    labels: dict[str, str]
    taints: tuple[Taint, ...]
    drivers: tuple[NodeDriver, ...]


class Annotations:
    """The annotations of one object; what could not be read gathers in `problems`."""

    def __init__(self, values: Mapping[str, str], *, keys: Keys) -> None:
        self._values = values
        self._keys = keys
        self.problems: list[str] = []

    def sizes(self) -> Sizes | None:
        """The bounds, or `None` if they cannot be used: nothing is wrong if neither is there."""
        least, most = self._keys.min_size, self._keys.max_size
        if least not in self._values and most not in self._values:
            return None
        before = len(self.problems)
        found = Sizes(self._whole(least) or 0, self._whole(most) or 0)
        if len(self.problems) > before:
            return None
        if most not in self._values:
            self.problems.append(f"{most}: expected a number, found none beside {least}")
            return None
        if found.most < found.least:
            self.problems.append(
                f"{most}: expected at least {least}, which is {found.least}, found {found.most}"
            )
            return None
        return found

    def capacity(self) -> Capacity:
        resources: ResourceList = {}
        for key, name in _QUANTITIES.items():
            amount = self._read(key, _quantity, QUANTITY)
            if amount is not None:
                resources[name] = amount
        pods = self._whole(MAX_PODS)
        if pods is not None:
            resources["pods"] = str(pods)
        resources |= self._devices()
        return Capacity(
            resources=resources,
            labels=dict(self._each(LABELS, _label, "KEY=VALUE")),
            taints=tuple(self._each(TAINTS, _taint, f"KEY=VALUE:EFFECT ({', '.join(_EFFECTS)})")),
            drivers=tuple(self._drivers()),
        )

    def options(self) -> GroupOptions:
        def share(name: str) -> float | None:
            return self._read(self._keys.option(name), quantities.share, "a number from 0 to 1")

        def duration(name: str) -> float | None:
            key = self._keys.option(name)
            return self._read(key, durations.seconds, "a duration such as 10m or 1m30s")

        return GroupOptions(
            scale_down_utilization_threshold=share("scaledownutilizationthreshold"),
            scale_down_gpu_utilization_threshold=share("scaledowngpuutilizationthreshold"),
            scale_down_unneeded_time=duration("scaledownunneededtime"),
            scale_down_unready_time=duration("scaledownunreadytime"),
            max_node_provision_time=duration("maxnodeprovisiontime"),
            max_node_startup_time=duration("maxnodestartuptime"),
        )

    def price(self) -> float | None:
        written = self._values.get(PRICE)
        wrong = prices.complaint(written)
        if wrong:
            self.problems.append(f"{PRICE}: {wrong}")
        return prices.amount(written)

    def _devices(self) -> ResourceList:
        count = self._whole(GPU_COUNT)
        name = self._values.get(GPU_TYPE, "").strip()
        if name and not _is_qualified(name):
            self._wrong(GPU_TYPE, "the name of a resource such as nvidia.com/gpu", name)
        elif name and GPU_COUNT not in self._values:
            self.problems.append(f"{GPU_TYPE}: expected {GPU_COUNT} beside it, found none")
        elif count and not name:
            self.problems.append(f"{GPU_COUNT}: expected {GPU_TYPE} beside it, found none")
        elif count:
            return {name: str(count)}
        return {}

    def _drivers(self) -> Iterator[NodeDriver]:
        """A limit of 0 is a driver without one, as upstream has it."""
        seen: set[str] = set()
        for name, limit in self._each(CSI_DRIVER, _driver, "DRIVER=LIMIT, a whole number"):
            if name in seen:
                self.problems.append(f"{CSI_DRIVER}: {name} is there twice; the first counts")
                continue
            seen.add(name)
            allocatable = NodeDriverAllocatable(count=limit) if limit else None
            yield NodeDriver(name=name, allocatable=allocatable)

    def _whole(self, key: str) -> int | None:
        return self._read(key, _whole, "a whole number, 0 or more")

    def _read(self, key: str, parse: Callable[[str], T | None], expected: str) -> T | None:
        if key not in self._values:
            return None
        value = self._values[key].strip()
        found = parse(value)
        if found is None:
            self._wrong(key, expected, value)
        return found

    def _each(self, key: str, parse: Callable[[str], T | None], expected: str) -> Iterator[T]:
        """The readable ones of values between commas."""
        for part in filter(None, map(str.strip, self._values.get(key, "").split(","))):
            found = parse(part)
            if found is None:
                self._wrong(key, expected, part)
            else:
                yield found

    def _wrong(self, key: str, expected: str, found: str) -> None:
        self.problems.append(f"{key}: expected {expected}, found {describe(found)}; not used")


def _whole(text: str) -> int | None:
    return int(text) if _WHOLE.fullmatch(text) and int(text) <= _LARGEST else None


def _quantity(text: str) -> str | None:
    try:
        return text if text and quantities.exact(text) >= 0 else None
    except quantities.QuantityError:
        return None


def _label(text: str) -> tuple[str, str] | None:
    key, separator, value = (part.strip() for part in text.partition("="))
    good = separator and _is_qualified(key) and (not value or _NAME.fullmatch(value))
    return (key, value) if good else None


def _taint(text: str) -> Taint | None:
    what, _, effect = (part.strip() for part in text.rpartition(":"))
    key, _, value = (part.strip() for part in what.partition("="))
    good = effect in _EFFECTS and _is_qualified(key) and (not value or _NAME.fullmatch(value))
    return Taint(key=key, value=value, effect=effect) if good else None


def _driver(text: str) -> tuple[str, int] | None:
    name, _, limit = (part.strip() for part in text.partition("="))
    count = _whole(limit)
    return (name, count) if name and count is not None else None


def _is_qualified(key: str) -> bool:
    """Whether it may be the key of a label: a name, perhaps with a domain before it."""
    prefix, slash, name = key.rpartition("/")
    return bool(_NAME.fullmatch(name)) and (not slash or bool(_PREFIX.fullmatch(prefix)))
