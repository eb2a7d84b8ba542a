"""What the operator may set: one file for all nodes, every field with a default."""

from pathlib import Path

import msgspec

from tonnage.errors import InputError
from tonnage.nodeagent.csi import CsiPatience
from tonnage.nodeagent.drivers import PollPace
from tonnage.objects.nodes import Node
from tonnage.objects.scenarios import API_VERSION

KIND = "NodeAgentConfig"
OVERRIDES_ANNOTATION = "tonnage.dev/attach-limit-overrides"
"""On a node: `ebs.csi.aws.com=20,other.example.com=8`; goes before the file."""


class NodeAgentConfig(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True
):
    """Numbers are by driver. Times are in seconds, or Go durations such as 1m30s."""

    api_version: str = API_VERSION
    kind: str = KIND
    overrides: dict[str, int] = {}
    overrides_by_instance_type: dict[str, dict[str, int]] = {}
    """By instance type, then by driver; goes before `overrides`."""
    reserved: dict[str, int] = {}
    write_csinode: bool = msgspec.field(default=False, name="writeCSINode")
    publish_intree: bool = False
    poll_interval: float = 30.0
    driver_timeout: float = 10.0
    driver_attempts: int = 3
    settle_lower: float = 60.0
    settle_higher: float = 300.0
    ceiling_expiry: float = 86_400.0

    def __post_init__(self) -> None:
        if (self.api_version, self.kind) != (API_VERSION, KIND):
            raise InputError(
                f"apiVersion {self.api_version}, kind {self.kind}: expected {API_VERSION}, {KIND}"
            )
        for kind, counts in self.overrides_by_instance_type.items():
            _not_negative(f"overridesByInstanceType: {kind}", counts)
        _not_negative("overrides", self.overrides)
        _not_negative("reserved", self.reserved)
        for name, value, least in (
            ("pollInterval", self.poll_interval, 1.0),
            ("driverTimeout", self.driver_timeout, 0.1),
            ("driverAttempts", self.driver_attempts, 1),
            ("settleLower", self.settle_lower, 0.0),
            ("settleHigher", self.settle_higher, 0.0),
            ("ceilingExpiry", self.ceiling_expiry, 60.0),
        ):
            if value < least:
                raise InputError(f"`{name}`: {value:g}: expected at least {least:g}")

    @property
    def patience(self) -> CsiPatience:
        return CsiPatience(timeout=self.driver_timeout, attempts=self.driver_attempts)

    @property
    def pace(self) -> PollPace:
        return PollPace(poll=self.poll_interval)

    def override(self, driver: str, node: Node, *, instance_type: str) -> int | None:
        """What the operator says of a driver here; the nearer word goes first."""
        by_type = self.overrides_by_instance_type.get(instance_type, {})
        for numbers in (on_node(node), by_type, self.overrides):
            if driver in numbers:
                return numbers[driver]
        return None


class NodeAgentSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What is settled when the process starts, unlike `NodeAgentConfig`."""

    node_name: str
    kubelet_dir: Path = Path("/var/lib/kubelet")
    host_root: Path = Path("/")
    address: str = ":8087"
    env_max: int | None = None
    """`KUBE_MAX_PD_VOLS`, for the keys of in-tree plugins."""
    dry_run: bool = False
    once: bool = False
    """One round alone, which lets no number settle."""


def on_node(node: Node) -> dict[str, int]:
    """The overrides that a node is annotated with; what is not a number is left out."""
    text = node.metadata.annotations.get(OVERRIDES_ANNOTATION, "")
    pairs = (part.partition("=") for part in text.split(","))
    return {
        driver.strip(): int(number)
        for driver, _, number in pairs
        if number.strip().isdecimal() and number.strip().isascii()
    }


def _not_negative(where: str, counts: dict[str, int]) -> None:
    for driver, count in counts.items():
        if count < 0:
            raise InputError(f"`{where}`: {driver}: {count}: expected 0 or more slots")
