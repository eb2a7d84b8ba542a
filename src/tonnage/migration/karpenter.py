"""From Karpenter's NodePools to NodeGroups: one for each instance type, zone and capacity type.

A NodePool leaves the choice of the machine open; a node group has one kind of machine. Which
types a pool may use is read off its requirements, over the types that are known: those of
DescribeInstanceTypes if given, those its requirements name, and those of its live nodes.
"""

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from tonnage.autoscaler.config import KIND as CONFIG_KIND
from tonnage.errors import InputError
from tonnage.migration.cluster_autoscaler import check
from tonnage.migration.documents import Followed, Migration, text_of
from tonnage.migration.flags import NOT_NEEDED, NOT_SUPPORTED, SETTING, Outcome
from tonnage.objects import quantities
from tonnage.objects.labels import ARCH, INSTANCE_TYPE, OS, REGION, ZONE
from tonnage.objects.nodes import Node
from tonnage.objects.scenarios import API_VERSION
from tonnage.providers.aws.machines import InstanceType

PROGRAM = "karpenter"
KIND = "NodePool"
POOL_LABEL = "karpenter.sh/nodepool"
CAPACITY_TYPE = "karpenter.sh/capacity-type"
MOST_GROUPS = 200
"""More than this from one pool nobody would look through."""

DEFAULT_SIZE = 100
"""The largest size of a group whose pool has no limits."""

_DURATION_FIELD = "scaleDownUnneededTime"
_AWS = "karpenter.k8s.aws/instance-"
_PODS = 110
_REASONS = {"Empty": "empty", "Underutilized": "consolidation"}
"""What Karpenter's reasons are called in budgets here."""
_WHERE_TYPES = (
    "give live nodes of the pool, or --instance-types with the answer of"
    " `aws ec2 describe-instance-types`"
)
_WHO_MAKES_NODES = (
    "Karpenter makes machines itself; Tonnage needs a node group for each: Auto Scaling groups or"
    " MachineDeployments of these names. Until they exist, --provider=declarative plans without"
    " buying"
)


class Requirement(NamedTuple):
    key: str
    operator: str
    values: tuple[str, ...]

    def allows(self, value: str | None) -> bool:
        """Whether a machine with such a label, or without it, may be used."""
        match self.operator:
            case "In":
                return value in self.values
            case "NotIn":
                return value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
            case "Gt" | "Lt" | "Gte" | "Lte":
                return value is not None and self._compares(value)
        return False

    def _compares(self, value: str) -> bool:
        if not (re.fullmatch("[0-9]+", value) and re.fullmatch("[0-9]+", self.values[0])):
            return False
        found, bound = int(value), int(self.values[0])
        return {
            "Gt": found > bound,
            "Lt": found < bound,
            "Gte": found >= bound,
            "Lte": found <= bound,
        }[self.operator]


class MachineType(NamedTuple):
    """A kind of machine that a pool may use, with what a new node of it would have."""

    name: str
    labels: Mapping[str, str]
    capacity: Mapping[str, Any]
    allocatable: Mapping[str, Any]


def migrate(
    pools: Sequence[Mapping[str, Any]],
    nodes: Sequence[Node] = (),
    machines: Sequence[InstanceType] = (),
) -> Migration:
    """NodeGroups for all pools, and one AutoscalerConfig."""
    made = [_Pool(pool, nodes, machines) for pool in pools]
    config: dict[str, Any] = {"apiVersion": API_VERSION, "kind": CONFIG_KIND}
    taints = sorted({key for one in made for key in one.startup_taints})
    if taints:
        config["startupTaints"] = taints
    groups = [group for one in made for group in one.groups()]
    weights = {one.name: one.weight for one in made if one.weight}
    if weights:
        config["expander"] = "priority,price,least-waste"
        rules: dict[str, list[str]] = {}
        for one in made:
            rules.setdefault(str(one.weight or 0), []).append(f"^{re.escape(one.name)}-")
        config["priorities"] = rules
    elif any("pricePerHour" in group["spec"] for group in groups):
        config["expander"] = "price,least-waste"
    waits = {one.consolidate_after for one in made if one.consolidate_after}
    consolidates = any(one.consolidates for one in made)
    if waits or consolidates:
        config["scaleDownEnabled"] = True
    if len(waits) == 1:
        config[_DURATION_FIELD] = waits.pop()
    if consolidates:
        config["consolidation"] = {"enabled": True}
        if budgets := [budget for one in made for budget in one.budgets]:
            config["consolidation"]["budgets"] = budgets
    names = ", ".join(one.name for one in made)
    check(config, source=f"{KIND} {names}")
    return Migration(
        program=PROGRAM,
        source=f"{KIND} {names}",
        arguments=("--provider=declarative", "--node-groups=node-groups.yaml"),
        config=config,
        node_groups=tuple(groups),
        followed=tuple(row for one in made for row in one.followed),
        warnings=(*(text for one in made for text in one.warnings), _WHO_MAKES_NODES),
    )


class _Pool:
    """One NodePool, taken apart; what cannot be followed is noted as it is met."""

    def __init__(
        self, document: Mapping[str, Any], nodes: Sequence[Node], machines: Sequence[InstanceType]
    ) -> None:
        self.name = text_of((document.get("metadata") or {}).get("name", ""), where=KIND)
        if not self.name:
            raise InputError(f"{KIND}: metadata.name: expected a name")
        self.followed: list[Followed] = []
        self.warnings: list[str] = []
        spec = self._mapping(document.get("spec"), "spec")
        template = self._mapping(spec.get("template"), "spec.template")
        self._template = self._mapping(template.get("spec"), "spec.template.spec")
        self._labels = self._texts((template.get("metadata") or {}).get("labels"), "labels")
        self._requirements = list(self._read_requirements())
        self._limits = self._mapping(spec.get("limits"), "spec.limits")
        self._nodes = [one for one in nodes if one.metadata.labels.get(POOL_LABEL) == self.name]
        self._machines = machines
        self.weight = int(spec.get("weight") or 0)
        self.consolidate_after = ""
        self.consolidates = False
        self.budgets: list[dict[str, Any]] = []
        self.startup_taints = [
            text_of(one.get("key", ""), where=f"{KIND} {self.name}: startupTaints")
            for one in self._template.get("startupTaints") or ()
        ]
        self._follow(spec)

    def groups(self) -> Iterator[dict[str, Any]]:
        """One for each kind of machine, zone and capacity type that the requirements allow."""
        kinds = self._kinds()
        zones = self._choices(ZONE) or [""]
        capacity_types = self._choices(CAPACITY_TYPE) or [""]
        if unknown := sorted(self._named_types() - {one.name for one in kinds}):
            self.warnings.append(
                f"{KIND} {self.name}: size not known of {', '.join(unknown)}: {_WHERE_TYPES}"
            )
        elif not kinds:
            self.warnings.append(f"{KIND} {self.name}: no instance type is known: {_WHERE_TYPES}")
        count = len(kinds) * len(zones) * len(capacity_types)
        if count > MOST_GROUPS:
            raise InputError(
                f"{KIND} {self.name}: its requirements allow {count} node groups ({len(kinds)}"
                f" instance types): expected {MOST_GROUPS} or fewer; narrow the requirements"
            )
        for kind, zone, capacity_type in itertools.product(kinds, zones, capacity_types):
            yield self._group(kind, zone, capacity_type, several=len(capacity_types) > 1)

    def _group(
        self, kind: MachineType, zone: str, capacity_type: str, *, several: bool
    ) -> dict[str, Any]:
        parts = [self.name, kind.name, zone, capacity_type if several else ""]
        name = re.sub(r"[^a-z0-9-]", "-", "-".join(filter(None, parts)).lower())
        place = {ZONE: zone} if zone else {}
        bought = {CAPACITY_TYPE: capacity_type} if capacity_type else {}
        members = {POOL_LABEL: self.name, INSTANCE_TYPE: kind.name, **place, **bought}
        node: dict[str, Any] = {
            "metadata": {"labels": {**kind.labels, **self._fixed(), **self._labels, **members}},
        }
        taints = list(self._template.get("taints") or ())
        if taints:
            node["spec"] = {"taints": taints}
        node["status"] = {
            "capacity": dict(kind.capacity),
            "allocatable": dict(kind.allocatable),
        }
        spec: dict[str, Any] = {
            "minSize": 0,
            "maxSize": self._most(kind),
            "nodeSelector": {"matchLabels": members},
            "template": {"node": node},
        }
        return {
            "apiVersion": API_VERSION,
            "kind": "NodeGroup",
            "metadata": {"name": name},
            "spec": spec,
        }

    def _kinds(self) -> list[MachineType]:
        """Live nodes are the better witness, so their kind goes before what the cloud says."""
        found: dict[str, MachineType] = {}
        for machine in self._machines:
            found[machine.name] = _of_machine(machine)
        for node in self._nodes:
            kind = _of_node(node)
            if kind.name:
                found[kind.name] = kind
        return [found[name] for name in sorted(found) if self._allows(found[name])]

    def _allows(self, kind: MachineType) -> bool:
        labels = {**kind.labels, INSTANCE_TYPE: kind.name}
        return all(
            one.allows(labels.get(one.key))
            for one in self._requirements
            if one.key in labels or one.key.startswith(_AWS) or one.key == INSTANCE_TYPE
        )

    def _named_types(self) -> set[str]:
        """Instance types that the requirements name, if they name any."""
        rules = [one for one in self._requirements if one.key == INSTANCE_TYPE]
        named = {value for one in rules if one.operator == "In" for value in one.values}
        return {value for value in named if all(one.allows(value) for one in rules)}

    def _choices(self, key: str) -> list[str]:
        """The values of a label that the requirements leave, as far as they or nodes name any."""
        rules = [one for one in self._requirements if one.key == key]
        named = [one for rule in rules if rule.operator == "In" for one in rule.values]
        seen = sorted(
            {one.metadata.labels[key] for one in self._nodes if key in one.metadata.labels}
        )
        return [one for one in named or seen if all(rule.allows(one) for rule in rules)]

    def _fixed(self) -> dict[str, str]:
        """Labels that every node of the pool has, because a requirement leaves one value."""
        own = (INSTANCE_TYPE, ZONE, CAPACITY_TYPE)
        return {
            one.key: one.values[0]
            for one in self._requirements
            if one.operator == "In" and len(one.values) == 1 and one.key not in own
        }

    def _most(self, kind: MachineType) -> int:
        """How many machines of the kind the limits of the pool allow, if there are no others."""
        most = []
        for resource, limit in self._limits.items():
            size = 1 if resource == "nodes" else kind.capacity.get(resource)
            if size is None:
                continue
            try:
                most.append(int(quantities.exact(str(limit)) // quantities.exact(str(size))))
            except (InputError, ValueError, ZeroDivisionError) as error:
                where = f"{KIND} {self.name}: spec.limits.{resource}"
                raise InputError(f"{where}: {limit!r}: expected a quantity") from error
        return min(most, default=DEFAULT_SIZE)

    def _follow(self, spec: Mapping[str, Any]) -> None:
        for resource, limit in self._limits.items():
            self._note(
                f"spec.limits.{resource}", limit, SETTING, "spec.maxSize",
                "holds for each group by itself, where Karpenter holds it for the pool",
            )  # fmt: skip
        if not self._limits:
            self._note(
                "spec.limits", "none", SETTING, "spec.maxSize", f"{DEFAULT_SIZE}: choose your own"
            )
        for one in self._requirements:
            self._note(
                f"requirements.{one.key}", f"{one.operator} {','.join(one.values)}".strip(),
                SETTING, "which groups there are",
            )  # fmt: skip
        self._follow_template()
        if self.weight:
            self._note("spec.weight", self.weight, SETTING, "priorities")
        if spec.get("replicas") is not None:
            self._note(
                "spec.replicas", spec["replicas"], NOT_SUPPORTED, "",
                "a fixed number of nodes is the node group's own affair",
            )  # fmt: skip
        self._follow_disruption(self._mapping(spec.get("disruption"), "spec.disruption"))

    def _follow_template(self) -> None:
        for field, target in (("taints", "template.node.spec.taints"),
                              ("startupTaints", "startupTaints")):  # fmt: skip
            keys = [str(one.get("key", "")) for one in self._template.get(field) or ()]
            if keys:
                self._note(field, ",".join(keys), SETTING, target)
        reference = self._mapping(self._template.get("nodeClassRef"), "nodeClassRef")
        if reference:
            self._note(
                "nodeClassRef", f"{reference.get('kind', '')}/{reference.get('name', '')}",
                NOT_SUPPORTED, "",
                "image, network and disks of machines belong to the node group's launch template",
            )  # fmt: skip
        for field, note in (
            ("expireAfter", "nodes are not replaced for their age"),
            ("terminationGracePeriod", "nodes are drained for as long as pods ask for"),
        ):
            if self._template.get(field) not in (None, "", "Never"):
                self._note(field, self._template[field], NOT_SUPPORTED, "", note)

    def _follow_disruption(self, disruption: Mapping[str, Any]) -> None:
        after = str(disruption.get("consolidateAfter") or "")
        if after == "Never":
            self._note(
                "disruption.consolidateAfter", after, NOT_NEEDED, "",
                "annotate the nodes cluster-autoscaler.kubernetes.io/scale-down-disabled=true",
            )  # fmt: skip
        elif after:
            self.consolidate_after = after
            self._note("disruption.consolidateAfter", after, SETTING, _DURATION_FIELD)
        if policy := disruption.get("consolidationPolicy"):
            self._follow_policy(str(policy), never=after == "Never")
        for budget in disruption.get("budgets") or ():
            self._follow_budget(budget)

    def _follow_policy(self, policy: str, *, never: bool) -> None:
        setting = "disruption.consolidationPolicy"
        if never:
            self._note(setting, policy, NOT_NEEDED, "", "consolidateAfter is Never")
            return
        if policy == "WhenEmpty":
            self._note(
                setting, policy, NOT_SUPPORTED, "",
                "nodes below scaleDownUtilizationThreshold are drained too; none is replaced",
            )  # fmt: skip
            return
        self.consolidates = True
        self._note(
            setting, policy, SETTING, "consolidation.enabled",
            "for the whole cluster; nodes of several pools may be replaced together",
        )  # fmt: skip

    def _follow_budget(self, budget: Mapping[str, Any]) -> None:
        setting = "disruption.budgets"
        value = " ".join(
            f"{key}={','.join(one) if isinstance(one, list) else one}"
            for key, one in sorted(budget.items())
        )
        reasons = [_REASONS[one] for one in budget.get("reasons") or () if one in _REASONS]
        if "schedule" in budget:
            note = "budgets have no schedule here; scaleDownWindows say when nodes may go"
            self._note(setting, value, NOT_SUPPORTED, "", note)
        elif budget.get("reasons") and not reasons:
            note = "no node is replaced for having drifted"
            self._note(setting, value, NOT_SUPPORTED, "", note)
        elif self.consolidates:
            self.budgets.append({"nodes": budget.get("nodes", "10%"), "reasons": reasons})
            note = "for the whole cluster instead of the pool; the strictest holds"
            self._note(setting, value, SETTING, "consolidation.budgets", note)
        else:
            note = "maxScaleDownParallelism and maxDrainParallelism bound what scale-down takes"
            self._note(setting, value, NOT_SUPPORTED, "", note)

    def _note(
        self, setting: str, value: object, outcome: Outcome, target: str = "", note: str = ""
    ) -> None:
        name = f"{self.name}: {setting.removeprefix('spec.')}"
        self.followed.append(
            Followed(setting=name, value=str(value), outcome=outcome, target=target, note=note)
        )

    def _read_requirements(self) -> Iterator[Requirement]:
        for number, one in enumerate(self._template.get("requirements") or ()):
            where = f"{KIND} {self.name}: requirements[{number}]"
            if not isinstance(one, dict) or "key" not in one or "operator" not in one:
                raise InputError(f"{where}: expected key, operator and values")
            values = tuple(text_of(value, where=where) for value in one.get("values") or ())
            operator = str(one["operator"])
            if operator in ("Gt", "Lt", "Gte", "Lte") and len(values) != 1:
                raise InputError(f"{where}: {operator} expects one number")
            yield Requirement(str(one["key"]), operator, values)

    def _mapping(self, value: object, field: str) -> Mapping[str, Any]:
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise InputError(f"{KIND} {self.name}: {field}: expected fields and values")
        return value

    def _texts(self, value: object, field: str) -> dict[str, str]:
        where = f"{KIND} {self.name}: {field}"
        return {str(k): text_of(v, where=where) for k, v in self._mapping(value, field).items()}


def _of_node(node: Node) -> MachineType:
    keep = (OS, ARCH, REGION)
    labels = {
        key: value
        for key, value in node.metadata.labels.items()
        if key in keep or key.startswith(_AWS)
    }
    return MachineType(
        name=node.metadata.labels.get(INSTANCE_TYPE, ""),
        labels=labels,
        capacity=_plain(node.status.capacity),
        allocatable=_plain(node.status.allocatable),
    )


def _of_machine(machine: InstanceType) -> MachineType:
    """As Karpenter labels such a machine; what the kubelet keeps for itself is not known."""
    family, _, size = machine.name.partition(".")
    parts = re.match(r"([a-z-]+?)([0-9]+)", family)
    resources = {
        "cpu": machine.cpus,
        "memory": f"{machine.memory}Mi",
        "pods": _PODS,
        **({"nvidia.com/gpu": machine.gpus} if machine.gpus else {}),
    }
    labels = {
        OS: "linux",
        ARCH: machine.architecture,
        f"{_AWS}family": family,
        f"{_AWS}size": size,
        f"{_AWS}cpu": str(machine.cpus),
        f"{_AWS}memory": str(machine.memory),
        **({f"{_AWS}category": parts[1], f"{_AWS}generation": parts[2]} if parts else {}),
    }
    return MachineType(machine.name, labels, resources, resources)


def _plain(resources: Mapping[str, Any]) -> dict[str, Any]:
    return {name: msgspec.to_builtins(value) for name, value in resources.items()}


def is_pool(document: Mapping[str, Any]) -> bool:
    version = str(document.get("apiVersion", ""))
    return document.get("kind") == KIND and version.startswith("karpenter.sh/")


def pools_of(documents: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [one for one in documents if is_pool(one)]
