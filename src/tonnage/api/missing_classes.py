"""StorageClasses that claims of pending pods ask for and that do not exist.

kube-scheduler says of such a pod only that it has unbound claims, in words that stay as they are.
"""

from collections.abc import Iterable

from tonnage.objects import volumes
from tonnage.objects.pods import Pod
from tonnage.objects.storage import PersistentVolumeClaim, StorageClass


def of(objects: Iterable[object]) -> dict[str, tuple[str, ...]]:
    """By class: the unbound claims, as namespace/name, of pods that have no node."""
    held = list(objects)
    there = {one.metadata.name for one in held if isinstance(one, StorageClass)}
    claims = {
        (one.metadata.namespace, one.metadata.name): one.class_name
        for one in held
        if isinstance(one, PersistentVolumeClaim) and not one.spec.volume_name
    }
    found: dict[str, dict[str, None]] = {}
    for pod in held:
        if not isinstance(pod, Pod) or pod.spec.node_name or not claims:
            continue
        for volume in volumes.of_pod(pod):
            name = claims.get((pod.metadata.namespace, volume.claim), "")
            if name and name not in there:
                found.setdefault(name, {})[f"{pod.metadata.namespace}/{volume.claim}"] = None
    return {name: tuple(asking) for name, asking in found.items()}
