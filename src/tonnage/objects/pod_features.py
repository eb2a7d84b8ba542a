"""Features a pod needs its node to declare (`node.status.declaredFeatures`)."""

from tonnage.objects.pods import PodSpec

RESTART_ALL_CONTAINERS = "RestartAllContainersOnContainerExits"
USER_NAMESPACES_HOST_NETWORK = "UserNamespacesHostNetworkSupport"
BIND_MOUNT_OPTIONS = "VolumeBindMountOptions"


def needed(spec: PodSpec) -> frozenset[str]:
    """The features a spec cannot do without; empty for nearly every pod."""
    found = set()
    if spec.host_network and spec.host_users is False:
        found.add(USER_NAMESPACES_HOST_NETWORK)
    for container in (*spec.containers, *spec.init_containers):
        if any(rule.action == "RestartAllContainers" for rule in container.restart_policy_rules):
            found.add(RESTART_ALL_CONTAINERS)
        if any(mount.bind_mount_options for mount in container.volume_mounts):
            found.add(BIND_MOUNT_OPTIONS)
    return frozenset(found)
