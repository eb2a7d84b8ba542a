"""Attach limits that are missing, odd, impossible, or exceeded."""

from collections import defaultdict
from collections.abc import Iterator

from tonnage.doctor.evidence import Evidence
from tonnage.doctor.findings import Finding
from tonnage.groups import catalogue
from tonnage.groups.limits import typical
from tonnage.objects.labels import INSTANCE_TYPE
from tonnage.objects.nodes import Node
from tonnage.objects.phrases import listed
from tonnage.objects.storage import CSIDriver
from tonnage.snapshot.slots import UNLIMITED


def without_count(evidence: Evidence) -> Iterator[Finding]:
    """Once per driver: where one node has no number, most have none."""
    attached = {
        one.metadata.name: one.spec.attach_required is not False for one in evidence.of(CSIDriver)
    }
    nodes: dict[str, list[str]] = defaultdict(list)
    for name, csinode in evidence.inputs.csinodes.items():
        for driver in csinode.spec.drivers:
            if driver.limit is None and attached.get(driver.name, True):
                nodes[driver.name].append(name)
    for driver_name, names in sorted(nodes.items()):
        yield Finding(
            code="TON301",
            severity="warning",
            object=f"CSIDriver {driver_name}",
            message=f"no limit on {listed(names)}: any number of volumes seems to fit",
            facts={"nodes": names},
        )


def not_positive(evidence: Evidence) -> Iterator[Finding]:
    for name, csinode in evidence.inputs.csinodes.items():
        for driver in csinode.spec.drivers:
            if driver.limit is not None and driver.limit <= 0:
                yield Finding(
                    code="TON305",
                    severity="error",
                    object=f"CSINode {name}",
                    message=f"the limit of {driver.name} is {driver.limit}: none of its volumes can"
                    " be scheduled there",
                    facts={"driver": driver.name, "count": driver.limit},
                )


def differing(evidence: Evidence) -> Iterator[Finding]:
    """Among nodes of one type in one group, the usual number is taken for the right one."""
    numbers: dict[tuple[str, str, str], dict[str, int]] = defaultdict(dict)
    for name, csinode in evidence.inputs.csinodes.items():
        node = evidence.inputs.nodes.get(name)
        if node is None:
            continue
        alike = (_instance_type(node), evidence.group_of.get(name, ""))
        if not any(alike):
            continue
        for driver in csinode.spec.drivers:
            if driver.limit is not None:
                numbers[(driver.name, *alike)][name] = driver.limit
    for (driver_name, type_, group), of_nodes in sorted(numbers.items()):
        usual = typical(of_nodes.values())
        odd = {name: number for name, number in of_nodes.items() if number != usual}
        count = len(of_nodes) - len(odd)
        if odd:
            kind = " ".join(filter(None, (type_, f"of group {group}" if group else "")))
            shown = listed([f"{name} ({number})" for name, number in odd.items()])
            yield Finding(
                code="TON302",
                severity="warning",
                object=f"CSIDriver {driver_name}",
                message=f"{count} of {len(of_nodes)} nodes {kind} have {usual} slots; not {shown}",
                facts={"usual": usual, "nodes": odd},
            )


def against_catalogue(evidence: Evidence) -> Iterator[Finding]:
    for name, csinode in evidence.inputs.csinodes.items():
        node = evidence.inputs.nodes.get(name)
        type_ = _instance_type(node) if node is not None else ""
        if node is None or not type_:
            continue
        for driver in csinode.spec.drivers:
            bounds = _possible(driver.name, node, type_)
            if driver.limit is None or bounds is None or driver.limit <= 0:
                continue
            least, most = bounds
            if not least <= driver.limit <= most:
                high = driver.limit > most
                yield Finding(
                    code="TON303",
                    severity="error" if high else "warning",
                    object=f"CSINode {name}",
                    message=f"{driver.name} reports {driver.limit} slots, and a {type_} has "
                    + (f"at most {most}" if high else f"at least {least}"),
                    facts={"driver": driver.name, "count": driver.limit, "most": most},
                )


def exceeded(evidence: Evidence) -> Iterator[Finding]:
    snapshot = evidence.snapshot
    for record in snapshot.ordered_nodes():
        for driver in snapshot.slots.drivers():
            limit = int(driver.limit.data[record.row])
            used, held = (
                int(driver.used.data[record.row]),
                int(driver.idle_attachments.data[record.row]),
            )
            if limit != UNLIMITED and used + held > limit:
                yield Finding(
                    code="TON304",
                    severity="error",
                    object=f"Node {record.name}",
                    message=f"{used} volumes of {driver.name} in use and {held} more attached, and"
                    f" the limit is {limit}",
                    facts={"driver": driver.name, "used": used, "held": held, "limit": limit},
                )


def without_csinode(evidence: Evidence) -> Iterator[Finding]:
    if not evidence.inputs.csinodes:
        # Nobody wrote them into the file, or the cluster has no CSI at all.
        return
    for name in evidence.inputs.nodes:
        if name not in evidence.inputs.csinodes:
            yield Finding(
                code="TON306",
                severity="warning",
                object=f"Node {name}",
                message="there is no CSINode for it, as there is for others",
            )


def _instance_type(node: Node) -> str:
    return node.metadata.labels.get(INSTANCE_TYPE, "")


def _possible(driver: str, node: Node, type_: str) -> tuple[int, int] | None:
    """The least and most a driver may rightly report: interfaces take slots, nothing gives any."""
    labels = node.metadata.labels
    most = catalogue.lookup(driver, type_, labels=labels)
    if most is None:
        return None
    pool = catalogue.pool(type_)
    members = pool.members if pool is not None else ()
    interfaces = max(
        (member.most or 1 for member in members if member.kind == "interface"), default=1
    )
    least = catalogue.lookup(driver, type_, enis=interfaces, labels=labels)
    return (least.count if least is not None else 0), most.count
