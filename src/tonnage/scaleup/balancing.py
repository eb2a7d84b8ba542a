"""Groups whose nodes could stand in for each other, and how a purchase is split between them."""

from collections.abc import Hashable, Iterable, Sequence
from fractions import Fraction
from typing import TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from tonnage.groups.model import UNKNOWN, Template
from tonnage.objects import quantities, resources
from tonnage.objects.meta import ResourceList

_AZURE_POOLS = ("kubernetes.azure.com/agentpool", "agentpool")

IGNORED_LABELS = frozenset(
    (
        "beta.kubernetes.io/fluentd-ds-ready",
        "failure-domain.beta.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
        "kops.k8s.io/instancegroup",
        "kubernetes.io/hostname",
        "topology.kubernetes.io/region",
        "topology.kubernetes.io/zone",
        # AWS
        "alpha.eksctl.io/instance-id",
        "alpha.eksctl.io/nodegroup-name",
        "eks.amazonaws.com/nodegroup",
        "k8s.amazonaws.com/eniConfig",
        "lifecycle",
        "topology.ebs.csi.aws.com/zone",
        "topology.k8s.aws/zone-id",
        # Azure
        *_AZURE_POOLS,
        "aksEngineVersion",
        "creationSource",
        "kubernetes.azure.com/consolidated-additional-properties",
        "kubernetes.azure.com/node-image-version",
        "poolName",
        "resourceNameSuffix",
        "topology.disk.csi.azure.com/zone",
        # GCE
        "topology.gke.io/zone",
    )
)
"""Labels that tell nodes of one kind apart. Upstream takes one cloud's, chosen by its provider;
we take them all, since one provider here may serve any cloud."""


def similar_groups(
    templates: Sequence[Template],
    *,
    ignore_labels: Iterable[str] = (),
    only_labels: Iterable[str] = (),
    memory_ratio: float = 0.015,
    allocatable_ratio: float = 0.05,
    free_ratio: float = 0.05,
    compare_csi: bool = True,
) -> list[tuple[int, ...]]:
    """For each template the positions of those so alike that a purchase may be split, in order.

    `only_labels`, if any, are all that is compared. Otherwise capacity is the same (memory
    nearly), what is allocatable and what is left of it nearly the same, and labels are equal
    but for the ignored ones; two parts of one Azure node pool are alike whatever they look like.
    `compare_csi` also wants the same limit for each driver; upstream does not look at them.

    Near to near is not always near, so these are no classes. Each template is read once,
    however many there are.
    """
    alike = np.zeros((len(templates), len(templates)), dtype=np.bool_)
    if only := tuple(only_labels):
        for rows in _equals([_labels_of(template, only) for template in templates]):
            alike[np.ix_(rows, rows)] = True
    else:
        ignored = IGNORED_LABELS.union(ignore_labels)
        limits = [_driver_limits(template) if compare_csi else None for template in templates]
        sizes = [
            _size(template, memory=memory_ratio, allocatable=allocatable_ratio, free=free_ratio)
            for template in templates
        ]
        exact = [
            (size.exact, size.names, _labels_but(template, ignored), limit)
            for size, template, limit in zip(sizes, templates, limits, strict=True)
        ]
        for rows in _equals(exact):
            amounts = np.array([sizes[row].amounts for row in rows])
            alike[np.ix_(rows, rows)] = _near(amounts, np.array(sizes[rows[0]].ratios))
        for label in _AZURE_POOLS:
            pools = [template.node.metadata.labels.get(label) for template in templates]
            found = zip(pools, limits, strict=True)
            for rows in _equals([(pool, limit) if pool else None for pool, limit in found]):
                alike[np.ix_(rows, rows)] = True
    np.fill_diagonal(alike, False)
    return [tuple(np.flatnonzero(row).tolist()) for row in alike]


def distribute(groups: Sequence[tuple[str, int, int]], nodes: int) -> dict[str, int]:
    """How many of `nodes` each of (id, current size, maximum) gets, if any.

    The smallest grows first, one node at a time, until all that have room are level, and
    then all in turn; among equals the one that was smaller, then the one named first, takes
    the odd node. What no group has room for is left out. (When a group fills up half-way,
    upstream may give the odd node to another of the same size.)
    """
    growing = sorted((group for group in groups if group[1] < group[2]), key=lambda group: group[1])
    nodes = min(nodes, sum(most - size for _, size, most in growing))
    if nodes <= 0:
        return {}
    level = _level(growing, nodes)
    grown = {name: max(0, min(level, most) - size) for name, size, most in growing}
    odd = nodes - sum(grown.values())
    for name, size, most in growing:
        if odd and size <= level < most:
            grown[name] += 1
            odd -= 1
    return {name: grown[name] for name, _, _ in groups if grown.get(name)}


def _level(groups: Sequence[tuple[str, int, int]], nodes: int) -> int:
    """The greatest size that all can be raised to, as far as they have room, with the nodes."""
    low, high = groups[0][1], groups[-1][1] + nodes
    while low < high:
        middle = (low + high + 1) // 2
        needed = sum(max(0, min(middle, most) - size) for _, size, most in groups)
        if needed <= nodes:
            low = middle
        else:
            high = middle - 1
    return low


_Fractions: TypeAlias = dict[str, Fraction]


class _Size(msgspec.Struct, frozen=True):
    """A template's resources: what has to be equal, and columns of what has to be near.

    Columns are counted in thousandths; of each, `ratios` has how far apart two may be.
    """

    exact: Hashable
    names: tuple[tuple[str, ...], ...]
    amounts: tuple[float, ...]
    ratios: tuple[float, ...]


def _size(template: Template, *, memory: float, allocatable: float, free: float) -> _Size:
    capacity = _read(template.node.status.capacity)
    parts = (
        ({name: a for name, a in capacity.items() if name == resources.MEMORY}, memory),
        (_read(template.node.status.allocatable), allocatable),
        (_free(template), free),
    )
    return _Size(
        exact=frozenset((name, a) for name, a in capacity.items() if name != resources.MEMORY),
        names=tuple(tuple(sorted(amounts)) for amounts, _ in parts),
        amounts=tuple(
            float(quantities.round_up(amounts[name] * 1000))
            for amounts, _ in parts
            for name in sorted(amounts)
        ),
        ratios=tuple(ratio for amounts, ratio in parts for _ in amounts),
    )


def _read(published: ResourceList) -> _Fractions:
    return {name: quantities.exact(amount) for name, amount in published.items()}


def _free(template: Template) -> _Fractions:
    """What a new node has left, of the plain resources and of those its own pods ask for.

    Upstream counts all of the pod slots as free.
    """
    plain = (resources.CPU, resources.MEMORY, resources.EPHEMERAL_STORAGE, resources.PODS)
    taken: _Fractions = dict.fromkeys(plain, Fraction())
    for pod in template.daemon_pods:
        for name, amount in resources.requests(pod.spec).items():
            asked = Fraction(amount, 1000 if name == resources.CPU else 1)
            taken[name] = taken.get(name, Fraction()) + asked
    offered = _read(template.node.status.allocatable)
    return {name: offered.get(name, Fraction()) - amount for name, amount in taken.items()}


def _labels_of(template: Template, names: Sequence[str]) -> Hashable | None:
    labels = template.node.metadata.labels
    return tuple(labels[n] for n in names) if all(n in labels for n in names) else None


def _labels_but(template: Template, ignored: frozenset[str]) -> Hashable:
    labels = template.node.metadata.labels
    return frozenset((key, value) for key, value in labels.items() if key not in ignored)


def _driver_limits(template: Template) -> Hashable:
    """Each driver's number of slots, and whether that is known."""
    drivers = template.csinode.spec.drivers if template.csinode is not None else ()
    limits = {driver.name: (driver.limit, True) for driver in drivers}
    limits |= {limit.driver: (limit.count, limit.source != UNKNOWN) for limit in template.limits}
    return frozenset(limits.items())


def _equals(keys: Sequence[Hashable | None]) -> list[list[int]]:
    """Positions with the same key, by key; what has none equals nothing."""
    found: dict[Hashable, list[int]] = {}
    for position, key in enumerate(keys):
        if key is not None:
            found.setdefault(key, []).append(position)
    return list(found.values())


def _near(amounts: NDArray[np.float64], ratios: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which rows differ from which by no more than a fraction of the larger, in all columns."""
    larger = np.maximum(amounts[:, None], amounts[None, :])
    smaller = np.minimum(amounts[:, None], amounts[None, :])
    near: NDArray[np.bool_] = np.all(larger - smaller <= larger * ratios, axis=2)
    return near
