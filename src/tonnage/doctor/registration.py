"""Drivers that nodes should have registered and have not."""

from collections import Counter, defaultdict
from collections.abc import Iterator

from tonnage.doctor.evidence import Evidence
from tonnage.doctor.findings import Finding
from tonnage.groups import drivers
from tonnage.groups.passing_taints import AGENT_NOT_READY
from tonnage.objects.labels import INSTANCE_TYPE
from tonnage.objects.phrases import listed
from tonnage.objects.storage import CSIDriver


def listed_by_templates_only(evidence: Evidence) -> Iterator[Finding]:
    """Where no node of a group had time to register anything, nothing is known yet."""
    if not evidence.inputs.csinodes:
        return
    settled = set(_settled(evidence))
    registered = {
        name for csinode in evidence.inputs.csinodes.values() for name in drivers.by_name(csinode)
    }
    for group in evidence.inputs.groups:
        template = group.provider_template
        told = drivers.by_name(template.csi_node if template is not None else None)
        nodes = [name for name in group.nodes if name in settled]
        for driver in sorted(told.keys() - registered) if nodes else ():
            yield Finding(
                code="TON202",
                severity="error",
                object=f"NodeGroup {group.id}",
                message=f"its template lists {driver}, which no node of the cluster has registered,"
                f" {listed(nodes)} among them",
                facts={"driver": driver, "group": group.id, "nodes": nodes},
            )


def lacking_what_siblings_have(evidence: Evidence) -> Iterator[Finding]:
    """Nodes without any CSINode are told of elsewhere, and speak for nobody."""
    alike: dict[tuple[str, str], list[str]] = defaultdict(list)
    for name in _settled(evidence):
        kind = evidence.inputs.nodes[name].metadata.labels.get(INSTANCE_TYPE, "")
        key = (evidence.group_of.get(name, ""), kind)
        if any(key) and name in evidence.inputs.csinodes:
            alike[key].append(name)
    for names in alike.values():
        have = {name: drivers.by_name(evidence.inputs.csinodes[name]).keys() for name in names}
        votes = Counter(driver for listed_ in have.values() for driver in listed_)
        usual = {driver for driver, count in votes.items() if 2 * count > len(names)}
        for name in names:
            missing = sorted(usual - have[name])
            if missing:
                yield Finding(
                    code="TON203",
                    severity="error",
                    object=f"Node {name}",
                    message=f"{', '.join(missing)} not registered, as on most of the"
                    f" {len(names)} nodes like it",
                    facts={"drivers": missing},
                )


def _settled(evidence: Evidence) -> Iterator[str]:
    """Nodes that are Ready and had time to register their drivers."""
    timeout = evidence.inputs.policy.driver_registration_timeout
    for name, state in evidence.inputs.states.items():
        if state.ready and not state.deleting and state.is_seasoned(evidence.now, timeout):
            yield name


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
