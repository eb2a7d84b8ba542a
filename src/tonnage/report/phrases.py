"""What people read for what the records say in code words."""

from tonnage.report.timeline import Decided, NodeState

STATES: dict[NodeState, str] = {
    "ready": "ready",
    "comingUp": "Ready, driver missing",
    "starting": "starting",
    "requested": "requested",
    "notReady": "not ready",
}


def decision(one: Decided) -> str:
    """What was asked for, as a sentence that a reason can follow."""
    nodes = f"{one.nodes:,} node{'s' if one.nodes != 1 else ''}"
    sentences = {
        "increase": f"add {nodes} to {one.group}",
        "delete": f"remove {nodes} from {one.group}",
    }
    return sentences.get(one.deed, f"ask for {nodes} fewer in {one.group}")
