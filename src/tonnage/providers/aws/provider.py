"""Auto Scaling groups as node groups.

A round of the loop costs one listing of the groups at most every minute (a page per hundred), and
one look at the activities of each group that AWS does not fill. What changes when we change it is
changed in memory at once, so nothing is bought twice in between.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from tonnage.clock import Clock
from tonnage.errors import ProviderError
from tonnage.groups import catalogue
from tonnage.groups.model import Group
from tonnage.objects.labels import ARCH, HOSTNAME, INSTANCE_TYPE, OS, REGION, ZONE
from tonnage.objects.meta import Condition, ObjectMeta, Quantity
from tonnage.objects.nodes import Node, NodeSpec, NodeStatus
from tonnage.objects.scenarios import GroupTemplate
from tonnage.objects.storage import CSINode, CSINodeSpec, NodeDriver, NodeDriverAllocatable
from tonnage.providers import sizes
from tonnage.providers.aws import prices, tags
from tonnage.providers.aws.calls import Calls
from tonnage.providers.aws.config import AwsConfig
from tonnage.providers.aws.discovery import WantedGroups
from tonnage.providers.aws.machines import InstanceType, InstanceTypes
from tonnage.providers.aws.tags import TagTemplate
from tonnage.providers.protocol import GroupOptions, Instance, InstanceError, InstanceState

LOOK_EVERY = 60.0
"""Seconds for which a listing of the groups is good."""

TYPE_FOR = 20 * 60.0
"""Seconds for which the instance type of a launch template is good: versions move."""

_NO_GROUP = "AWS: there is no Auto Scaling group"
UNFULFILLED = "placeholder-cannot-be-fulfilled"
_LEAVING = ("Terminating", "Terminated", "Detach")


class _Known(NamedTuple):
    group: Group
    told: TagTemplate
    zones: tuple[str, ...]
    described: Any
    ids: Mapping[str, str]
    """Instance ids, each with its state as AWS calls it."""


class AwsProvider:
    """`nodes` gives the nodes of the cluster: they belong to the group their instance is in."""

    def __init__(
        self,
        calls: Calls,
        wanted: WantedGroups,
        *,
        config: AwsConfig,
        nodes: Callable[[], Iterable[Node]],
        clock: Clock,
    ) -> None:
        self._calls = calls
        self._wanted = wanted
        self._config = config
        self._nodes = nodes
        self._clock = clock
        self._machines = InstanceTypes(calls)
        self._known: dict[str, _Known] = {}
        self._problems: tuple[str, ...] = ()
        self._looked_at: float | None = None
        self._types: dict[str, tuple[float, str]] = {}
        self._resized: dict[str, datetime] = {}
        self._leaving: set[str] = set()

    # Looking.

    async def refresh(self) -> None:
        now = self._clock.monotonic()
        if self._looked_at is None or now - self._looked_at >= LOOK_EVERY:
            described = await self._described()
            self._known = {one["AutoScalingGroupName"]: self._read(one) for one in described}
            self._leaving &= {id_ for known in self._known.values() for id_ in known.ids}
            self._looked_at = now
        self._assign()

    async def groups(self) -> Sequence[Group]:
        if not self._config.unpriced:
            return [known.group for known in self._known.values()]
        return [await self._with_unpriced(known) for known in self._known.values()]

    async def _with_unpriced(self, known: _Known) -> Group:
        """The group, and what is wrong with the price of its type."""
        wrong = self._config.unpriced.get(await self._instance_type(known))
        if wrong is None:
            return known.group
        told = f"group {known.group.id}: {wrong}"
        return msgspec.structs.replace(known.group, problems=(*known.group.problems, told))

    async def problems(self) -> Sequence[str]:
        return self._problems

    async def instances(self, group: str) -> Sequence[Instance]:
        known = self._get(group)
        by_instance = {_instance_of(node): node for node in self._nodes()}
        zones = {one["InstanceId"]: one["AvailabilityZone"] for one in known.described["Instances"]}
        found = []
        for id_, lifecycle in known.ids.items():
            node = by_instance.get(id_)
            found.append(
                Instance(
                    id=node.spec.provider_id if node else f"aws:///{zones.get(id_, '')}/{id_}",
                    state="deleting" if id_ in self._leaving else _state(lifecycle),
                    node=node.metadata.name if node else "",
                )
            )
        missing = known.group.target - sum(one.state != "deleting" for one in found)
        error = await self._unfulfilled(group) if missing > 0 else None
        found += [
            Instance(id=f"aws:///{group}/i-placeholder-{number}", state="creating", error=error)
            for number in range(1, missing + 1)
        ]
        return found

    async def template(self, group: str) -> GroupTemplate | None:
        known = self._get(group)
        name = await self._instance_type(known)
        if not name:
            return None
        await self._machines.learn([name])
        machine = self._machines.get(name)
        if machine is None:
            raise ProviderError(f"group {group}: EC2 does not know its instance type {name}")
        return build(group, machine, known.told, zones=known.zones)

    async def price(self, group: str) -> float | None:
        name = await self._instance_type(self._get(group))
        region = self._get(group).zones[0].rstrip("abcdefghij") if self._get(group).zones else ""
        if name in self._config.unpriced:
            return None
        return prices.price(name, region=region, given=self._config.prices)

    async def options(self, group: str) -> GroupOptions:
        return self._get(group).told.options

    # Changing.

    async def increase(self, group: str, delta: int) -> None:
        known = await self._looked_again(group)
        sizes.check_increase(known, delta)
        await self._resize(known, known.target + delta)

    async def delete(self, group: str, nodes: Sequence[str]) -> None:
        known = self._get(group)
        by_name = {node.metadata.name: node.spec.provider_id for node in self._nodes()}
        found = {one.id: one for one in await self.instances(group)}
        gone = {name for name in nodes if _id(by_name.get(name, name)) in self._leaving}
        sizes.check_own(known.group, set(nodes) - gone, instances=found)
        going = [name for name in dict.fromkeys(nodes) if name not in gone]
        sizes.check_deletion(known.group, going)
        placeholders = [name for name in going if "i-placeholder-" in name]
        for name in going:
            if name not in placeholders:
                await self._terminate(group, _id(by_name.get(name, name)))
        if placeholders:
            now = await self._looked_again(group)
            await self._resize(now, now.target - len(placeholders))

    async def decrease_target(self, group: str, delta: int) -> None:
        known = await self._looked_again(group)
        there = sum(id_ not in self._leaving for id_ in self._get(group).ids)
        sizes.check_decrease(known, delta, there=there)
        await self._resize(known, known.target - delta)

    # Parts.

    async def _described(self) -> list[Any]:
        found = await self._calls.groups(filters=self._wanted.filters)
        have = {one["AutoScalingGroupName"] for one in found}
        named = [name for name in self._wanted.sizes if name not in have]
        found += await self._calls.groups(names=named)
        missing = sorted(set(named) - {one["AutoScalingGroupName"] for one in found})
        self._problems = tuple(f"--nodes {name}: {_NO_GROUP} {name}" for name in missing)
        return found

    async def _looked_again(self, group: str) -> Group:
        """A group as it is now.

        Sizes are set, not added to: by what was seen up to a minute ago, a group that somebody else
        has grown since would be made smaller.
        """
        self._get(group)
        described = await self._calls.groups(names=[group])
        if not described:
            raise ProviderError(f"{_NO_GROUP} {group}")
        self._known[group] = self._read(described[0])
        self._assign()
        return self._known[group].group

    def _read(self, one: Any) -> _Known:
        name = one["AutoScalingGroupName"]
        told = tags.read(
            {tag["Key"]: tag.get("Value", "") for tag in one.get("Tags", [])}, group=name
        )
        least, most = self._wanted.sizes.get(name, (one["MinSize"], one["MaxSize"]))
        problems = list(told.problems)
        zones = tuple(sorted(one.get("AvailabilityZones", [])))
        if len(zones) > 1:
            problems.append(
                f"group {name}: spans {', '.join(zones)}: a new node is taken to be in {zones[0]};"
                " volumes bound to a zone need a group for each zone"
            )
        group = Group(
            id=name,
            min_size=least,
            max_size=most,
            target=one["DesiredCapacity"],
            problems=tuple(problems),
        )
        ids = {each["InstanceId"]: each["LifecycleState"] for each in one.get("Instances", [])}
        return _Known(group, told, zones, one, ids)

    def _assign(self) -> None:
        """Say of each group which nodes of the cluster are its own."""
        by_instance = {_instance_of(node): node.metadata.name for node in self._nodes()}
        for name, known in self._known.items():
            nodes = tuple(by_instance[id_] for id_ in known.ids if id_ in by_instance)
            if nodes != known.group.nodes:
                group = msgspec.structs.replace(known.group, nodes=nodes)
                self._known[name] = known._replace(group=group)

    async def _instance_type(self, known: _Known) -> str:
        """The type a new instance would have; empty where AWS chooses among many by itself."""
        name, now = known.group.id, self._clock.monotonic()
        kept = self._types.get(name)
        if kept is not None and now - kept[0] < TYPE_FOR:
            return kept[1]
        found = await self._type_now(known.described)
        self._types[name] = (now, found)
        return found

    async def _type_now(self, described: Any) -> str:
        mixed = described.get("MixedInstancesPolicy", {}).get("LaunchTemplate", {})
        for override in mixed.get("Overrides", []):
            if override.get("InstanceType"):
                return str(override["InstanceType"])
        specification = described.get("LaunchTemplate") or mixed.get("LaunchTemplateSpecification")
        if specification:
            data = await self._calls.launch_template(specification)
            return str(data.get("InstanceType", ""))
        if described.get("LaunchConfigurationName"):
            data = await self._calls.launch_configuration(described["LaunchConfigurationName"])
            return str(data.get("InstanceType", ""))
        return ""

    async def _unfulfilled(self, group: str) -> InstanceError | None:
        """Why AWS does not make the instances it was asked for, if it has said so since."""
        asked = self._resized.get(group)
        for activity in await self._calls.activities(group):
            started = activity.get("StartTime")
            if asked is not None and started is not None and started < asked:
                break
            if activity.get("StatusCode") == "Failed":
                message = str(activity.get("StatusMessage") or "AWS cannot provision instances")
                quota = "quota" in message.lower() or "limit" in message.lower()
                return InstanceError(
                    error_class="quota" if quota else "outOfResources",
                    code=UNFULFILLED,
                    message=message,
                )
        return None

    async def _resize(self, group: Group, target: int) -> None:
        await self._calls.set_desired(group.id, target)
        self._resized[group.id] = self._clock.now()
        self._retarget(group, target)

    async def _terminate(self, group: str, instance: str) -> None:
        await self._calls.terminate(instance)
        self._leaving.add(instance)
        now = self._get(group).group
        self._retarget(now, now.target - 1)

    def _retarget(self, group: Group, target: int) -> None:
        known = self._known[group.id]
        changed = msgspec.structs.replace(group, target=target)
        self._known[group.id] = known._replace(group=changed)
        # What AWS made of it is worth a look before the minute is over.
        self._looked_at = None

    def _get(self, name: str) -> _Known:
        known = self._known.get(name)
        if known is None:
            raise ProviderError(f"there is no group {name}")
        return known


def _instance_of(node: Node) -> str:
    """The instance id in `aws:///ZONE/ID`; empty for a node of somebody else's."""
    provider_id = node.spec.provider_id
    return _id(provider_id) if provider_id.startswith("aws://") else ""


def _id(provider_id: str) -> str:
    return provider_id.rpartition("/")[2]


def _state(lifecycle: str) -> InstanceState:
    if lifecycle.startswith(_LEAVING):
        return "deleting"
    return "creating" if lifecycle.startswith("Pending") else "running"


EBS_ZONE = "topology.ebs.csi.aws.com/zone"
_PODS = 110


def build(
    group: str, machine: InstanceType, told: TagTemplate, *, zones: Sequence[str]
) -> GroupTemplate:
    """With several zones the first one stands for all, as upstream has it."""
    name = f"{group}-asg-template"
    zone = zones[0] if zones else ""
    resources: dict[str, Quantity] = {
        "pods": _PODS,
        "cpu": machine.cpus,
        "memory": machine.memory * 1024 * 1024,
        **({"nvidia.com/gpu": machine.gpus} if machine.gpus else {}),
        **told.resources,
    }
    labels = {
        ARCH: machine.architecture,
        OS: "linux",
        HOSTNAME: name,
        INSTANCE_TYPE: machine.name,
        **({ZONE: zone, EBS_ZONE: zone} if zone else {}),
        **({REGION: zone.rstrip("abcdefghij")} if zone else {}),
        **told.labels,
    }
    node = Node(
        metadata=ObjectMeta(name=name, labels=labels),
        spec=NodeSpec(taints=told.taints),
        status=NodeStatus(
            capacity=resources,
            allocatable=resources,
            conditions=(Condition(type="Ready", status="True"),),
        ),
    )
    if told.drivers is None:
        return GroupTemplate(node=node)
    drivers = tuple(_driver(one, count, machine, name) for one, count in told.drivers.items())
    return GroupTemplate(
        node=node,
        csi_node=CSINode(metadata=ObjectMeta(name=name), spec=CSINodeSpec(drivers=drivers)),
    )


def _driver(name: str, count: int | None, machine: InstanceType, node: str) -> NodeDriver:
    """A number of the group's own goes before what the machine is known for."""
    is_ebs = name == catalogue.EBS
    if count is None and is_ebs:
        count = machine.ebs_slots or None
    return NodeDriver(
        name=name,
        node_id=node,
        topology_keys=(EBS_ZONE, ZONE, OS) if is_ebs else (),
        allocatable=NodeDriverAllocatable(count=count) if count is not None else None,
    )
