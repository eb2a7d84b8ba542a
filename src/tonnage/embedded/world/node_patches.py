"""Changes to Node objects that kubelets, drivers and controllers make."""

from collections.abc import Callable
from datetime import datetime

import msgspec

from tonnage.cluster import errors
from tonnage.cluster.client import Client
from tonnage.objects.meta import Condition
from tonnage.objects.nodes import Node, Taint
from tonnage.objects.timestamps import rfc3339

_ATTEMPTS = 5


async def change_taints(
    client: Client, node: str, change: Callable[[Node], tuple[Taint, ...]]
) -> None:
    """Write the taints that `change` gives the node as it is now; nothing of others gets lost."""
    for attempt in range(1, _ATTEMPTS + 1):
        found = await client.get(Node, node)
        taints = change(found)
        if taints == found.spec.taints:
            return
        try:
            await write_taints(client, node, taints, version=found.metadata.resource_version)
            return
        except errors.Conflict:
            if attempt == _ATTEMPTS:
                raise


async def write_taints(
    client: Client, node: str, taints: tuple[Taint, ...], *, version: str = ""
) -> None:
    """Write these taints and no others; with a version, only over that one."""
    patch: dict[str, object] = {
        "spec": {"taints": [msgspec.to_builtins(taint) for taint in taints]}
    }
    if version:
        patch["metadata"] = {"resourceVersion": version}
    await client.patch(Node, node, patch)


def without(taints: tuple[Taint, ...], key: str) -> tuple[Taint, ...]:
    return tuple(taint for taint in taints if taint.key != key)


def conditions(node: Node, *, ready: bool, now: datetime) -> list[Condition]:
    """The node's conditions as a kubelet would report them now; those of others stay."""
    at = rfc3339(now)
    told = {
        "MemoryPressure": ("False", "KubeletHasSufficientMemory"),
        "DiskPressure": ("False", "KubeletHasNoDiskPressure"),
        "PIDPressure": ("False", "KubeletHasSufficientPID"),
        "Ready": ("True", "KubeletReady") if ready else ("False", "KubeletNotReady"),
    }
    before = {condition.type: condition for condition in node.status.conditions}
    reported = []
    for type_, (status, reason) in told.items():
        old = before.get(type_)
        unchanged = old is not None and old.status == status
        reported.append(
            Condition(
                type=type_,
                status=status,
                reason=reason,
                last_heartbeat_time=at,
                last_transition_time=old.last_transition_time if old and unchanged else at,
            )
        )
    return [
        condition for condition in node.status.conditions if condition.type not in told
    ] + reported
