"""Limits of a template that hold because nodes are judged by keys of their resources.

Where the accounting of 2018 is on, the keys of a node that does not exist count like those of any
other, and volumes of in-tree plugins have the scheduler's own number. A plan says so.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeAlias

import msgspec

from tonnage.groups import limits
from tonnage.groups.model import CATALOGUE, OVERRIDE, Limit, Template
from tonnage.objects import limit_keys
from tonnage.objects.nodes import Node
from tonnage.objects.storage import CSINode

ReadLimits: TypeAlias = Callable[[Node, CSINode | None], Mapping[str, int]]
"""The limits that hold on a node, by driver and by in-tree plugin."""


def stated(
    template: Template, *, plugins: Iterable[str], own: Mapping[str, str], read: ReadLimits
) -> Template:
    """The template, saying of its limits what holds on its node; `plugins` are wanted too."""
    numbers = read(template.node, template.csinode)
    drivers = [limit.driver for limit in template.limits]
    told = limit_keys.published(template.node.status.allocatable, drivers, own)
    found = [
        msgspec.structs.replace(
            limit,
            count=numbers[limit.driver],
            source=template.source,
            key=told[limit.driver].key,
        )
        if limit.count is None and limit.driver in numbers and limit.driver in told
        else limit
        for limit in template.limits
    ]
    found += _of_plugins(template.node, plugins, numbers)
    return msgspec.structs.replace(template, limits=tuple(found))


def _of_plugins(node: Node, plugins: Iterable[str], numbers: Mapping[str, int]) -> Iterator[Limit]:
    """What the scheduler says of in-tree volumes: the operator by its environment, else a table."""
    kind = limits.instance_type(node)
    for plugin in sorted(plugins):
        if plugin in numbers:
            by_table = limit_keys.intree_default(plugin, kind, None) == numbers[plugin]
            source = CATALOGUE if by_table else OVERRIDE
            yield Limit(driver=plugin, count=numbers[plugin], source=source)
