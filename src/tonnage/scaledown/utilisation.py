"""How full a node is, by what its pods request."""

import math

from tonnage.groups import daemons
from tonnage.objects.pods import Pod
from tonnage.objects.resources import CPU, MEMORY
from tonnage.scaledown.facts import NodeFacts
from tonnage.scaledown.inputs import ScaleDownInputs
from tonnage.scaledown.plan import Utilisation
from tonnage.snapshot.slots import UNLIMITED
from tonnage.snapshot.snapshot import Snapshot

GPU_RESOURCES = ("nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/i915", "gpu.intel.com/xe")
"""Devices by which upstream's providers know a node with accelerators."""


def of(facts: NodeFacts, inputs: ScaleDownInputs) -> Utilisation | None:
    """The shares of a node; `None` if it has no CPU or no memory to have a share of."""
    cpu = _share(facts, inputs, CPU)
    memory = _share(facts, inputs, MEMORY)
    if cpu is None or memory is None:
        return None
    gpu = gpu_of(facts)
    if gpu is not None:
        share = _share(facts, inputs, gpu) or 0.0
        return Utilisation(
            cpu=_shown(cpu), memory=_shown(memory), gpu=share, resource=gpu, value=share
        )
    resource, value = (CPU, cpu) if cpu > memory else (MEMORY, memory)
    slots: float | None = None
    if inputs.options.slots_utilization and not inputs.options.as_upstream:
        driver, slots = _fullest_driver(facts, inputs.snapshot)
        if slots is not None and slots > value:
            resource, value = driver, slots
    return Utilisation(
        cpu=_shown(cpu), memory=_shown(memory), slots=slots, resource=resource, value=value
    )


def _shown(share: float) -> float | str:
    """JSON has no word for what is not a number."""
    if math.isnan(share):
        return "NaN"
    return "+Inf" if math.isinf(share) else share


def gpu_of(facts: NodeFacts) -> str | None:
    """The accelerators of a node that has some."""
    allocatable = facts.node.status.allocatable
    return next((name for name in GPU_RESOURCES if name in allocatable), None)


def _share(facts: NodeFacts, inputs: ScaleDownInputs, resource: str) -> float | None:
    snapshot = inputs.snapshot
    column = snapshot.columns.find_resource(resource)
    if column is None:
        return None
    allocatable = int(snapshot.columns.allocatable[column].data[facts.row])
    used = int(snapshot.columns.used[column].data[facts.row])
    if allocatable <= 0:
        return None
    for pod in facts.uncounted:
        used -= _used_by(pod, snapshot, resource)
    options = inputs.options_of(facts.group)
    if options.ignore_daemon_sets_utilization or options.ignore_mirror_pods_utilization:
        overdue = {id(pod) for pod in facts.uncounted}
        for pod in inputs.cluster.pods_by_node.get(facts.name, ()):
            left_out = (
                options.ignore_daemon_sets_utilization and daemons.is_daemon(pod.metadata)
            ) or (options.ignore_mirror_pods_utilization and daemons.is_mirror(pod))
            if left_out:
                amount = _used_by(pod, snapshot, resource)
                allocatable -= amount
                if id(pod) not in overdue:
                    used -= amount
    if allocatable == 0:
        # As upstream divides: nothing of nothing is not a number.
        return math.inf if used else math.nan
    return used / allocatable


def _used_by(pod: Pod, snapshot: Snapshot, resource: str) -> int:
    """What a pod takes of its node; nothing if the snapshot does not count it."""
    record = snapshot.pods.get(pod.metadata.key)
    return record.pod_class.usage.get(resource, 0) if record is not None else 0


def _fullest_driver(facts: NodeFacts, snapshot: Snapshot) -> tuple[str, float | None]:
    """The driver whose slots are fullest on the node, by volumes that are not about to leave."""
    best: tuple[str, float | None] = ("", None)
    for driver in snapshot.slots.drivers():
        limit = int(driver.limit.data[facts.row])
        if limit == UNLIMITED or limit <= 0:
            continue
        share = int(driver.used.data[facts.row]) / limit
        if best[1] is None or share > best[1]:
            best = (driver.name, share)
    return best
