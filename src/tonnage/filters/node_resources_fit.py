"""NodeResourcesFit: room for one more pod, and for everything it requests."""

import numpy as np

from tonnage.filters.causes import Cause, Reason
from tonnage.filters.framework import Ask, Begun, Code, Outcome, Screen, kinds_of
from tonnage.snapshot.nodes import PODS

_BASIC = ("cpu", "memory", "ephemeral-storage")


class NodeResourcesFit:
    name = "NodeResourcesFit"
    cures = ("Node.add", "Node.allocatable", "Pod.delete", "Pod.resize")

    def begin(self, ask: Ask) -> Outcome:
        return Begun(lambda: _screen(ask))


def _screen(ask: Ask) -> Screen:
    size, columns = ask.size, ask.snapshot.columns
    wanted = _wanted(ask)
    limits = [column.data[:size] for column in columns.allocatable]
    used = [column.data[:size] for column in columns.used]
    full = used[PODS] + 1 > limits[PODS]
    short = [amount > limits[resource] - used[resource] for resource, amount in wanted]
    codes = np.where(full, np.int8(Code.UNSCHEDULABLE), np.int8(Code.SUCCESS))
    for rows in short:
        codes[rows] = Code.UNSCHEDULABLE
    for resource, amount in wanted:
        codes[amount > limits[resource]] = Code.UNRESOLVABLE

    def reasons(row: int) -> tuple[Reason, ...]:
        found = []
        if full[row]:
            found.append(
                Reason(
                    Cause.TOO_MANY_PODS,
                    {"used": int(used[PODS][row]), "limit": int(limits[PODS][row])},
                )
            )
        for (resource, amount), rows in zip(wanted, short, strict=True):
            if rows[row]:
                found.append(
                    Reason(
                        Cause.INSUFFICIENT_RESOURCE,
                        {
                            "resource": columns.resource_names[resource],
                            "wanted": amount,
                            "used": int(used[resource][row]),
                            "limit": int(limits[resource][row]),
                        },
                    )
                )
        return tuple(found)

    return Screen(codes, reasons, kinds=lambda: kinds_of((full, *short)))


def _wanted(ask: Ask) -> list[tuple[int, int]]:
    """Column and amount of what the pod requests, in upstream's order of checks."""
    requests, columns = ask.pods.requests, ask.snapshot.columns
    basic = [name for name in _BASIC if requests.get(name)]
    scalar = [name for name, amount in requests.items() if name not in _BASIC and amount]
    return [(columns.resource(name), requests[name]) for name in (*basic, *scalar)]
