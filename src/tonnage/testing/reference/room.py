"""The filters that look at what pods on a node take: host ports, resources."""

from tonnage.objects import resources
from tonnage.objects.pods import Pod
from tonnage.testing.reference.cluster import ReferenceCluster
from tonnage.testing.reference.inventory import HostedNode
from tonnage.testing.reference.outcomes import (
    SKIP,
    UNRESOLVABLE,
    UNSCHEDULABLE,
    PluginRefusal,
    Stance,
    unschedulable,
)

PORT_TAKEN = "node(s) didn't have free ports for the requested pod ports"
ANY_ADDRESS = "0.0.0.0"

FIRST_RESOURCES = ("cpu", "memory", "ephemeral-storage")


def node_ports(_: ReferenceCluster, pod: Pod) -> Stance:
    wanted = _host_ports(pod)
    if not wanted:
        return SKIP

    def check(hosted: HostedNode) -> PluginRefusal | None:
        used = [port for other in hosted.pods for port in _host_ports(other)]
        clash = any(_clash(mine, theirs) for mine in wanted for theirs in used)
        return unschedulable(PORT_TAKEN) if clash else None

    return Stance(check=check)


def node_resources_fit(cluster: ReferenceCluster, pod: Pod) -> Stance:
    wanted = resources.requests(pod.spec)
    names = [*FIRST_RESOURCES, *sorted(wanted.keys() - set(FIRST_RESOURCES))]

    def check(hosted: HostedNode) -> PluginRefusal | None:
        allocatable = resources.allocatable(hosted.node)
        used: dict[str, int] = {}
        for other in hosted.pods:
            usage = resources.usage(other, version=cluster.kubernetes_version)
            for name, amount in usage.items():
                used[name] = used.get(name, 0) + amount
        reasons = []
        code = UNSCHEDULABLE
        if len(hosted.pods) + 1 > allocatable.get("pods", 0):
            reasons.append("Too many pods")
        for name in names:
            amount, total = wanted.get(name, 0), allocatable.get(name, 0)
            if amount > 0 and amount > total - used.get(name, 0):
                reasons.append(f"Insufficient {name}")
                if amount > total:
                    code = UNRESOLVABLE
        return PluginRefusal(code, tuple(reasons)) if reasons else None

    return Stance(check=check)


def _host_ports(pod: Pod) -> list[tuple[str, str, int]]:
    lasting = [c for c in pod.spec.init_containers if c.restart_policy == "Always"]
    return [
        (port.host_ip or ANY_ADDRESS, port.protocol or "TCP", port.host_port)
        for container in [*lasting, *pod.spec.containers]
        for port in container.ports
        if port.host_port > 0
    ]


def _clash(mine: tuple[str, str, int], theirs: tuple[str, str, int]) -> bool:
    same_port = mine[1:] == theirs[1:]
    return same_port and (mine[0] == theirs[0] or ANY_ADDRESS in (mine[0], theirs[0]))
