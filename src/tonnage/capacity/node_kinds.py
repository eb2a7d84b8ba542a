"""Which groups of nodes there are: by the labels nodes carry, and those that templates promise."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

import msgspec

from tonnage.errors import InputError
from tonnage.groups.model import TEMPLATE_NODE_LABEL, Group
from tonnage.objects.labels import HOSTNAME
from tonnage.objects.nodes import Node
from tonnage.objects.resources import valid_qualified_name
from tonnage.objects.scenarios import GroupTemplate

Grouping: TypeAlias = tuple[str, ...]
"""Label keys, sorted; nodes with the same values under all of them are a group."""

GroupKey: TypeAlias = tuple[tuple[str, str], ...]
"""Label keys and values, sorted by key."""


class NodeKind(msgspec.Struct, kw_only=True):
    """A group: the labels of an imagined node of it, its nodes, and templates of its new ones."""

    sample: dict[str, str]
    nodes: list[str] = []
    templates: list[GroupTemplate] = []


def parse(texts: Iterable[str]) -> tuple[Grouping, ...]:
    """Groupings from flags: each a label key, or several joined by commas."""
    found: dict[Grouping, None] = {}
    for text in texts:
        keys = tuple(sorted(key.strip() for key in text.split(",")))
        for key in keys:
            if not valid_qualified_name(key):
                raise InputError(f"node group label {text!r}: {key!r} is not a label key")
            if key in (TEMPLATE_NODE_LABEL, HOSTNAME):
                raise InputError(f"node group label {text!r}: {key} does not make groups")
        if len(set(keys)) != len(keys):
            raise InputError(f"node group label {text!r}: names a label twice")
        found[keys] = None
    return tuple(found)


def keys_of(labels: Mapping[str, str], groupings: Sequence[Grouping]) -> tuple[GroupKey, ...]:
    """The groups that something with these labels belongs to; an empty value makes none."""
    return tuple(
        tuple((key, labels[key]) for key in grouping)
        for grouping in groupings
        if all(labels.get(key) for key in grouping)
    )


def kinds_of(
    nodes: Iterable[Node], node_groups: Iterable[Group], groupings: Sequence[Grouping]
) -> tuple[dict[GroupKey, NodeKind], list[str]]:
    """All groups, those without nodes too, and the node groups that no grouping reaches."""
    found: dict[GroupKey, NodeKind] = {}
    for node in nodes:
        meta = node.metadata
        for key in keys_of(meta.labels, groupings):
            if key not in found:
                found[key] = NodeKind(sample=imagined(meta.labels, name=meta.name))
            found[key].nodes.append(meta.name)
    unreached = []
    for group in node_groups:
        template = group.provider_template
        if template is None:
            if not group.nodes:
                unreached.append(group.id)
            continue
        meta = template.node.metadata
        reached = keys_of(meta.labels, groupings)
        for key in reached:
            if key not in found:
                found[key] = NodeKind(sample=imagined(meta.labels, name=meta.name))
            found[key].templates.append(template)
        if not reached and not group.nodes:
            unreached.append(group.id)
    return found, unreached


def imagined(labels: Mapping[str, str], *, name: str) -> dict[str, str]:
    """The labels of a node that is imagined after one with these: none names its host."""
    hosts = {name, labels.get(HOSTNAME, name)}
    kept = {key: "template-node" if value in hosts else value for key, value in labels.items()}
    return {**kept, HOSTNAME: "template-node", TEMPLATE_NODE_LABEL: "true"}


def full_name(group: GroupKey) -> str:
    """The group so that no other has the name: `key=value,key=value`."""
    return ",".join(f"{key}={value}" for key, value in group)


def shown(group: GroupKey) -> str:
    """The group in messages: `instance-type=m5.large,zone=a`, keys without their prefix."""
    return ",".join(f"{key.rpartition('/')[2]}={value}" for key, value in group)
