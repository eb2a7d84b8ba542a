"""Node groups from NodeGroup objects: who belongs to them, and what is wrong with them."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

import msgspec

from tonnage.errors import InputError
from tonnage.groups.model import Group
from tonnage.groups.scale_down_options import GroupScaleDown
from tonnage.objects import durations, prices, selectors
from tonnage.objects.meta import LabelSelector
from tonnage.objects.nodes import Node
from tonnage.objects.scenarios import NodeGroup

ZERO_OR_MAX = "zeroOrMax"
_SCALING = ("any", ZERO_OR_MAX)
_OPTIONS = tuple(field.encode_name for field in msgspec.structs.fields(GroupScaleDown))


def from_objects(node_groups: Iterable[NodeGroup], nodes: Iterable[Node]) -> list[Group]:
    """Each group with its nodes, by name or selector, in the order of the groups.

    Nothing wrong with one group stops another: it is named in `Group.problems`, and the group
    goes on without it. A node that two groups claim belongs to the first.
    """
    directory = _Directory(nodes)
    owners: dict[str, str] = {}
    groups: dict[str, Group] = {}
    for node_group in node_groups:
        name = node_group.metadata.name
        if name in groups:
            groups[name] = _with_problem(groups[name], "declared twice; the first is used")
            continue
        groups[name] = _group(node_group, directory, owners)
    return list(groups.values())


class _Directory:
    """Nodes by name and by label, so that a selector looks at few of them."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self.by_name = {node.metadata.name: node for node in nodes}
        self._by_label: dict[str, dict[str, list[Node]]] = {}

    def matching(self, selector: LabelSelector) -> list[Node]:
        selectors.check(selector)
        return [
            node
            for node in self._candidates(selector)
            if selectors.matches(selector, node.metadata.labels)
        ]

    def _candidates(self, selector: LabelSelector) -> Iterable[Node]:
        for key, value in selector.match_labels.items():
            if key not in self._by_label:
                index: defaultdict[str, list[Node]] = defaultdict(list)
                for node in self.by_name.values():
                    if key in node.metadata.labels:
                        index[node.metadata.labels[key]].append(node)
                self._by_label[key] = dict(index)
            return self._by_label[key].get(value, ())
        return self.by_name.values()


def _group(node_group: NodeGroup, directory: _Directory, owners: dict[str, str]) -> Group:
    name, spec = node_group.metadata.name, node_group.spec
    problems: list[str] = []
    members: list[str] = []
    for node in dict.fromkeys(_claimed(node_group, directory, problems)):
        if owners.setdefault(node, name) == name:
            members.append(node)
        else:
            problems.append(f"node {node} already belongs to group {owners[node]}")
    if spec.min_size > spec.max_size:
        problems.append(f"spec.minSize {spec.min_size} is above spec.maxSize {spec.max_size}")
    if spec.scaling not in _SCALING:
        problems.append(
            f"spec.scaling {spec.scaling!r}: expected {' or '.join(_SCALING)}; taken as any"
        )
    return Group(
        id=name,
        min_size=spec.min_size,
        max_size=spec.max_size,
        target=len(members) if spec.target_size is None else spec.target_size,
        nodes=tuple(members),
        all_or_nothing=spec.scaling == ZERO_OR_MAX,
        limits=spec.limits,
        pools=spec.pools,
        price_per_hour=_price(node_group, problems),
        scale_down=_scale_down(node_group, problems),
        provider_template=spec.template,
        problems=_named(name, problems),
    )


def _claimed(node_group: NodeGroup, directory: _Directory, problems: list[str]) -> list[str]:
    spec = node_group.spec
    unknown = [node for node in spec.nodes if node not in directory.by_name]
    if unknown:
        problems.append(f"spec.nodes: no such node: {', '.join(unknown)}")
    found = [node for node in spec.nodes if node in directory.by_name]
    if spec.node_selector is not None:
        try:
            matching = directory.matching(spec.node_selector)
        except selectors.SelectorError as error:
            problems.append(f"spec.nodeSelector: {error}")
        else:
            found.extend(node.metadata.name for node in matching)
    return found


def _price(node_group: NodeGroup, problems: list[str]) -> float | None:
    price = node_group.spec.price_per_hour
    wrong = prices.complaint(price)
    if wrong:
        problems.append(f"spec.pricePerHour: {wrong}")
    return prices.amount(price)


def _scale_down(node_group: NodeGroup, problems: list[str]) -> GroupScaleDown | None:
    """What the group says itself of how its nodes are given back; what is wrong is left out."""
    told: dict[str, object] = {}
    for name, value in node_group.spec.options.items():
        try:
            if name not in _OPTIONS:
                raise InputError(f"expected one of {', '.join(_OPTIONS)}")
            msgspec.convert(durations.in_seconds({name: value}, GroupScaleDown), GroupScaleDown)
        except (InputError, msgspec.ValidationError) as error:
            said = str(error).partition(" - at ")[0]
            problems.append(f"spec.options.{name}: {said}; the cluster's is used")
        else:
            told[name] = value
    if not told:
        return None
    return msgspec.convert(durations.in_seconds(told, GroupScaleDown), GroupScaleDown)


def _with_problem(group: Group, problem: str) -> Group:
    return msgspec.structs.replace(group, problems=(*group.problems, *_named(group.id, [problem])))


def _named(name: str, problems: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"group {name}: {problem}" for problem in problems)
