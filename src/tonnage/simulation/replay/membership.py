"""Which group a recorded node is of."""

from collections.abc import Iterable
from typing import Any

from tonnage.groups import node_group_objects
from tonnage.objects import codec, kinds
from tonnage.objects.nodes import Node
from tonnage.objects.scenarios import NodeGroup
from tonnage.providers.kwok_objects import GROUP_LABEL

_ROW = kinds.by_type(Node)


class GroupMembership:
    """By the label of played machines, else by what the groups' `nodes` and `nodeSelector` say."""

    def __init__(self, groups: Iterable[NodeGroup]) -> None:
        self._groups = tuple(groups)
        self._names = {group.metadata.name for group in self._groups}
        self._known: dict[str, str] = {}

    def of(self, node: str, tree: dict[str, Any]) -> str:
        """The group's name, empty if none has the node; it stays what it first was."""
        if node not in self._known:
            self._known[node] = self._found(node, tree)
        return self._known[node]

    def _found(self, node: str, tree: dict[str, Any]) -> str:
        labelled = (tree["metadata"].get("labels") or {}).get(GROUP_LABEL, "")
        if labelled in self._names:
            return str(labelled)
        typed = typed_node(tree)
        groups = node_group_objects.from_objects(self._groups, [typed])
        return next((group.id for group in groups if node in group.nodes), "")


def typed_node(tree: dict[str, Any]) -> Node:
    plain = {key: value for key, value in tree.items() if key not in ("apiVersion", "kind")}
    found = codec.convert(plain, _ROW)
    assert isinstance(found, Node)
    return found
