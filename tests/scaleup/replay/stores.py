"""Storage that volumes take up, counted in the plainest way: the replay's own ledger.

The rules are those of `tonnage.snapshot.storage_ledger`, node by node and claim by claim.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import NamedTuple

from tonnage.groups.model import Template
from tonnage.objects import quantities, selectors
from tonnage.objects.labels import HOSTNAME
from tonnage.objects.meta import LabelSelector, ObjectMeta
from tonnage.objects.pods import Pod
from tonnage.objects.storage import (
    SELECTED_NODE_ANNOTATION,
    CSIStorageCapacity,
    PersistentVolumeClaim,
)
from tonnage.testing.reference import ReferenceCluster, volume_choice
from tonnage.testing.reference.inventory import HostedNode, key
from tonnage.testing.reference.outcomes import AttemptError

POOL_ANNOTATION = "tonnage.dev/storage-pool"
UNTOLD = 2**60


class ReplayStore(NamedTuple):
    """Where a node has storage of a class: `place` is equal for nodes that share it."""

    capacity: int
    largest: int
    place: Hashable


class ReplayStores:
    """What every node of a replay has, and what was taken of it."""

    def __init__(
        self,
        cluster: ReferenceCluster,
        templates: Mapping[str, Template],
        waiting: Iterable[Pod],
        *,
        coming_up: Mapping[str, str],
    ) -> None:
        self._cluster = cluster
        self._templates = templates
        self._classes = sorted(_wanted(cluster, waiting))
        self._stores: dict[tuple[str, str], ReplayStore] = {}
        self._taken: Counter[tuple[str, Hashable]] = Counter()
        self._of_templates = {
            (group, name): store
            for group in templates
            for name in self._classes
            if (store := self._template_store(group, name)) is not None
        }
        for hosted in cluster.nodes.values():
            for name in self._classes:
                store = self._live_store(hosted, name)
                if store is not None:
                    self._stores[hosted.name, name] = store
        for node, group in coming_up.items():
            self._complete(node, group)
        self._pool: dict[str, str] = {}
        for name in self._classes:
            pools = dict.fromkeys(self._pool.values())
            self._pool[name] = next((pool for pool in pools if self._share(pool, name)), name)
        self._take_for_placed()

    def _take_for_placed(self) -> None:
        """Pods that have a node may have volumes that are still to be made."""
        for hosted in self._cluster.nodes.values():
            for name in {claim for pod in hosted.pods for claim in _claims_of(pod)}:
                claim = self._cluster.storage.claims.get(name)
                store = claim and self._stores.get((hosted.name, claim.class_name))
                if claim is not None and store and not claim.spec.volume_name:
                    self._taken[self._pool[claim.class_name], store.place] += _size(claim)

    def _complete(self, node: str, group: str) -> None:
        """A node that is coming up will have what its template has of its own."""
        for name in self._classes:
            store = self._of_templates.get((group, name))
            if (node, name) not in self._stores and store is not None and store.place is None:
                self._stores[node, name] = store._replace(place=node)
                self._publish(node, name)

    def add(self, group: str, node: str, starting: Iterable[Pod]) -> None:
        """A new node of the group; pods that come with it take only of its own."""
        for name in self._classes:
            store = self._of_templates.get((group, name))
            if store is not None:
                own = store.place is None
                self._stores[node, name] = store._replace(place=node) if own else store
                if own:
                    self._publish(node, name)
        for pod in starting:
            for volume in pod.spec.volumes:
                source = volume.ephemeral
                if source is None or source.volume_claim_template is None:
                    continue
                claim = PersistentVolumeClaim(spec=source.volume_claim_template.spec)
                store = self._stores.get((node, claim.class_name))
                if store is not None and store.place == node:
                    self._taken[self._pool[claim.class_name], node] += _size(claim)

    def remove(self, node: str) -> None:
        for name in self._classes:
            self._stores.pop((node, name), None)
            self._cluster.storage.capacities.pop(f"default/{node}-{name}", None)
            self._taken.pop((self._pool[name], node), None)

    def refusal(self, pod: Pod, node: str) -> str | None:
        """Why the node has too little for the pod's new volumes, all of them together."""
        wanted: Counter[tuple[str, Hashable]] = Counter()
        lefts: dict[tuple[str, Hashable], int] = {}
        try:
            claims = list(self._to_make(pod, node))
        except AttemptError:
            return None  # a filter says so itself
        for claim in claims:
            store = self._stores.get((node, claim.class_name))
            if store is None or store.largest < _size(claim):
                return f"no storage of class {claim.class_name} for {claim.metadata.name}"
            pool = (self._pool[claim.class_name], store.place)
            wanted[pool] += _size(claim)
            left = store.capacity - self._taken[pool]
            lefts[pool] = min(left, lefts.get(pool, left))
        for pool, amount in wanted.items():
            if amount > lefts[pool]:
                return f"{amount} bytes of {pool[0]} wanted, {lefts[pool]} left"
        return None

    def take(self, pod: Pod, node: str) -> None:
        """To be called before the pod is there."""
        for claim in self._to_make(pod, node):
            store = self._stores.get((node, claim.class_name))
            if store is not None:
                self._taken[self._pool[claim.class_name], store.place] += _size(claim)

    def _to_make(self, pod: Pod, node: str) -> Iterator[PersistentVolumeClaim]:
        """Claims that need a new volume there, unless a pod that is there has brought it."""
        hosted, storage = self._cluster.nodes[node], self._cluster.storage
        there = {name for other in hosted.pods for name in _claims_of(other)}
        delayed = {
            key(one.metadata): one for one in volume_choice.sort_claims(storage, pod).delayed
        }
        selected = [
            one for one in delayed.values() if SELECTED_NODE_ANNOTATION in one.metadata.annotations
        ]
        free = [one for one in delayed.values() if one not in selected]
        for claim in (*selected, *volume_choice.match_volumes(storage, free, hosted).unmatched):
            tracked = claim.class_name in self._classes
            if tracked and key(claim.metadata) not in there and _size(claim):
                yield claim

    def _template_store(self, group: str, name: str) -> ReplayStore | None:
        template = self._templates[group]
        declared = next((one for one in template.storage if one.storage_class == name), None)
        if declared is not None:
            return ReplayStore(min(declared.capacity, UNTOLD), min(declared.largest, UNTOLD), None)
        labels = template.node.metadata.labels
        near = [one for one in self._published(name) if _matches(one, labels)]
        return _joined(near) if near else None

    def _live_store(self, hosted: HostedNode, name: str) -> ReplayStore | None:
        near = [one for one in self._published(name) if _matches(one, hosted.labels)]
        own = [one for one in near if self._is_alone(one)]
        if own:
            return _joined(own)._replace(place=hosted.name)
        return _joined(near) if near else None

    def _is_alone(self, capacity: CSIStorageCapacity) -> bool:
        """Whether the object speaks of one node that exists, and of no node that may be added."""
        nodes = self._cluster.nodes.values()
        return sum(_matches(capacity, node.labels) for node in nodes) == 1 and not any(
            _matches(capacity, template.node.metadata.labels)
            for template in self._templates.values()
        )

    def _published(self, name: str) -> list[CSIStorageCapacity]:
        return [
            capacity
            for capacity in self._cluster.storage.capacities.values()
            if capacity.storage_class_name == name
            and (capacity.capacity is not None or capacity.maximum_volume_size is not None)
        ]

    def _publish(self, node: str, name: str) -> None:
        """Let kube-scheduler's own check see what the node has."""
        store = self._stores[node, name]
        self._cluster.storage.capacities[f"default/{node}-{name}"] = CSIStorageCapacity(
            metadata=ObjectMeta(name=f"{node}-{name}", namespace="default"),
            storage_class_name=name,
            node_topology=LabelSelector(match_labels={HOSTNAME: node}),
            capacity=store.capacity,
            maximum_volume_size=store.largest,
        )

    def _share(self, one: str, other: str) -> bool:
        first, second = (self._cluster.storage.classes[name] for name in (one, other))
        if first.provisioner != second.provisioner:
            return False
        named = [each.metadata.annotations.get(POOL_ANNOTATION) for each in (first, second)]
        if any(named):
            return named[0] == named[1]
        everything = {**self._stores, **self._of_templates}
        places = {place for place, name in everything if name == one}
        both = [place for place in places if (place, other) in everything]
        return bool(both) and all(
            everything[place, one].capacity == everything[place, other].capacity
            and everything[place, one].place == everything[place, other].place
            for place in both
        )


def _wanted(cluster: ReferenceCluster, waiting: Iterable[Pod]) -> set[str]:
    """Classes of claims that wait for their pods and whose drivers publish capacity."""
    storage = cluster.storage
    found = set()
    for pod in waiting:
        for name in _claims_of(pod):
            claim = storage.claims.get(name)
            if claim is None or claim.spec.volume_name:
                continue
            made = storage.classes.get(claim.class_name)
            driver = storage.drivers.get(made.provisioner) if made is not None else None
            if (
                made is not None
                and made.volume_binding_mode == "WaitForFirstConsumer"
                and driver is not None
                and driver.spec.storage_capacity
            ):
                found.add(claim.class_name)
    return found


def _claims_of(pod: Pod) -> list[str]:
    namespace = pod.metadata.namespace or "default"
    return [f"{namespace}/{use.name}" for use in volume_choice.claim_uses(pod)]


def _size(claim: PersistentVolumeClaim) -> int:
    return min(quantities.value(claim.spec.resources.requests.get("storage", 0)), UNTOLD)


def _matches(capacity: CSIStorageCapacity, labels: Mapping[str, str]) -> bool:
    try:
        return selectors.matches(capacity.node_topology, dict(labels))
    except selectors.SelectorError:
        return False


def _joined(capacities: list[CSIStorageCapacity]) -> ReplayStore:
    amounts = [
        UNTOLD if capacity.capacity is None else quantities.value(capacity.capacity)
        for capacity in capacities
    ]
    sizes = [
        capacity.capacity if capacity.maximum_volume_size is None else capacity.maximum_volume_size
        for capacity in capacities
    ]
    return ReplayStore(
        min(sum(min(amount, UNTOLD) for amount in amounts), UNTOLD),
        min(max(quantities.value(size) for size in sizes if size is not None), UNTOLD),
        frozenset(selectors.canonical(capacity.node_topology) for capacity in capacities),
    )
