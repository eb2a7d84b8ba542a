"""Startup taints that nobody takes off."""

from collections.abc import Iterator

from tonnage.doctor.evidence import Evidence
from tonnage.doctor.findings import Finding
from tonnage.groups import drivers
from tonnage.groups.passing_taints import AGENT_NOT_READY
from tonnage.objects.storage import CSIDriver


def left_over(evidence: Evidence) -> Iterator[Finding]:
    """The key of such a taint names the driver it waits for."""
    known = {one.metadata.name for one in evidence.of(CSIDriver)}
    for name, node in evidence.inputs.nodes.items():
        registered = drivers.by_name(evidence.inputs.csinodes.get(name))
        for taint in node.spec.taints:
            driver = taint.key.removesuffix(AGENT_NOT_READY)
            if driver == taint.key:
                continue
            if driver in registered:
                why = f"{driver} has registered, and the taint {taint.key} is still there"
            elif driver not in known:
                why = f"the taint {taint.key} waits for {driver}, which is not in the cluster"
            else:
                continue
            yield Finding(
                code="TON401",
                severity="error",
                object=f"Node {name}",
                message=why,
                facts={"taint": taint.key, "driver": driver},
            )
