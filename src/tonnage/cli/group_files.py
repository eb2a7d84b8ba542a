"""Files of NodeGroups: what is in them that is none, and groups that have no node."""

from collections import Counter
from collections.abc import Iterable

from tonnage import files
from tonnage.cli import console
from tonnage.errors import InputError
from tonnage.groups import node_group_objects
from tonnage.objects import kinds
from tonnage.objects.kinds import KubeObject
from tonnage.objects.nodes import Node
from tonnage.objects.scenarios import API_VERSION, NodeGroup


def check(path: str, *, lenient: bool) -> None:
    """An `InputError` if the file has no NodeGroup; a warning about everything else in it."""
    loaded = files.load([path], lenient=lenient, expand=False)
    others = Counter(loaded.skipped)
    for one in loaded.objects:
        if not isinstance(one, NodeGroup):
            others[kinds.of(one).kind] += 1
    told = ", ".join(f"{count} {kind}" for kind, count in sorted(others.items()))
    scenario = " in its Scenario" if loaded.scenario is not None else ""
    if not any(isinstance(one, NodeGroup) for one in loaded.objects):
        raise InputError(
            f"--node-groups {path}: expected a NodeGroup (apiVersion: {API_VERSION}), found"
            f" {told or 'no object'}{scenario}"
        )
    if loaded.skipped:
        unread = ", ".join(f"{count} {kind}" for kind, count in sorted(loaded.skipped.items()))
        console.warn(f"--node-groups {path}: not read, being no NodeGroup: {unread}")


def note_groups_without_nodes(objects: Iterable[KubeObject]) -> None:
    """Say which selectors match no node: right for a group at zero, else a label misspelt."""
    held = list(objects)
    nodes = [one for one in held if isinstance(one, Node)]
    for group in (one for one in held if isinstance(one, NodeGroup)):
        selector = group.spec.node_selector
        if (
            selector is None
            or not nodes
            or node_group_objects.from_objects([group], nodes)[0].nodes
        ):
            continue
        wanted = ", ".join(f"{key}={value}" for key, value in selector.match_labels.items())
        console.note(
            f"NodeGroup {group.metadata.name}: no node matches its nodeSelector"
            f"{f' ({wanted})' if wanted else ''}, so it counts as a group without nodes"
        )
