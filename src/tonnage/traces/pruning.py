"""Objects as a trace has them: typed, as exports are, and without what only makes noise.

Versions, heartbeats and messages change all the time and decide nothing. A kubelet that reports
every few seconds that all is well writes no line.
"""

from typing import Any, TypeAlias

import msgspec

from tonnage.objects.kinds import KubeObject

Tree: TypeAlias = dict[str, Any]

_NOISE = ("lastHeartbeatTime", "lastProbeTime", "message")


def pruned(obj: KubeObject) -> Tree:
    """The object as a tree, without its version, and its conditions without noise."""
    tree: Tree = msgspec.to_builtins(obj)
    meta = tree.get("metadata", {})
    for field in ("resourceVersion", "generation"):
        meta.pop(field, None)
    status = tree.get("status")
    if status:
        for condition in status.get("conditions") or ():
            for field in _NOISE:
                condition.pop(field, None)
    return tree
