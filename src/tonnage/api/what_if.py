"""The plan of a cluster that is changed in thought: other limits, sizes, numbers of replicas."""

import math
import time
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from tonnage.errors import InputError
from tonnage.groups import drivers
from tonnage.groups.cluster_state import ClusterState
from tonnage.groups.inputs import Inputs
from tonnage.groups.model import Group
from tonnage.objects.kinds import KubeObject
from tonnage.objects.meta import Record
from tonnage.objects.phrases import listed
from tonnage.scaleup import decision, pod_copies, whatif
from tonnage.scaleup.decision import Decision


class Supposition(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is other: attach limits by driver, largest sizes by group, and by `namespace/name` of
    one of its pods the replicas of a workload."""

    limits: dict[str, int] = {}
    max_sizes: dict[str, int] = {}
    replicas: dict[str, int] = {}


class SupposedDecision(NamedTuple):
    """The decision on the changed cluster, and what was assumed."""

    decision: Decision
    notes: tuple[str, ...]


def suppose(inputs: Inputs, objects: Iterable[KubeObject], what: Supposition) -> SupposedDecision:
    """Decide on a copy. `inputs` are what decides now; of its cluster only the objects count."""
    held = list(objects)
    for pod, replicas in what.replicas.items():
        held = pod_copies.scaled(held, pod, replicas)
    changes = [whatif.SetLimit(driver, slots) for driver, slots in what.limits.items()]
    changed = whatif.apply(held, changes)
    cluster = ClusterState.of(changed.objects, inputs.features, inputs.options)
    groups = tuple(_group(group, inputs, what) for group in inputs.groups)
    unknown = [name for name in what.max_sizes if name not in {group.id for group in groups}]
    if unknown:
        raise InputError(
            f"no node group {unknown[0]!r}; there are {listed([one.id for one in groups])}"
        )
    written = msgspec.structs.replace(inputs.written(), groups=groups, pending=None)
    end = time.monotonic() + (inputs.options.time_budget or math.inf)
    made = decision.decide(written.on(cluster), out_of_time=lambda: time.monotonic() >= end)
    return SupposedDecision(made, tuple(changed.notes))


def _group(group: Group, inputs: Inputs, what: Supposition) -> Group:
    size = what.max_sizes.get(group.id, group.max_size)
    if size < 0:
        raise InputError(f"largest size of {group.id}: {size}: expected 0 or more")
    limits = {
        driver: slots
        for driver, slots in what.limits.items()
        if _has(group, driver, inputs) or not _listed_anywhere(driver, inputs)
    }
    return msgspec.structs.replace(
        group,
        max_size=size,
        min_size=min(group.min_size, size),
        limits={**group.limits, **limits},
    )


def _has(group: Group, driver: str, inputs: Inputs) -> bool:
    csinodes = (inputs.csinodes.get(name) for name in group.nodes)
    return _declares(group, driver) or any(
        driver in drivers.by_name(one) for one in csinodes if one is not None
    )


def _listed_anywhere(driver: str, inputs: Inputs) -> bool:
    return any(driver in drivers.by_name(one) for one in inputs.csinodes.values()) or any(
        _declares(group, driver) for group in inputs.groups
    )


def _declares(group: Group, driver: str) -> bool:
    template = group.provider_template
    return driver in group.limits or (
        template is not None and driver in drivers.by_name(template.csi_node)
    )


def of(
    limits: Mapping[str, int] | None = None,
    max_sizes: Mapping[str, int] | None = None,
    replicas: Mapping[str, int] | None = None,
) -> Supposition:
    return Supposition(
        limits=dict(limits or {}), max_sizes=dict(max_sizes or {}), replicas=dict(replicas or {})
    )
