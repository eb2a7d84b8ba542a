"""From pods to their classes.

A class that no pod of the snapshot is in is kept for a while, because one may come again, and
forgotten with others when there are many of them.

A class leaves out the labels that only tell a pod from its siblings. Should a selector
name one of them after all, it becomes a fact, and classes are split by it.
"""

from collections.abc import Callable, Mapping

from tonnage.objects.pods import Pod
from tonnage.snapshot import classes
from tonnage.snapshot.classes import PodClass
from tonnage.snapshot.nodes import NodeColumns
from tonnage.snapshot.pod_counters import AntiTerms, PodCounters


class PodClasses:
    """Pods of one class cannot be told apart by anything a pod of the snapshot asks for."""

    def __init__(
        self,
        columns: NodeColumns,
        counters: PodCounters,
        anti_terms: AntiTerms,
        *,
        version: tuple[int, int],
        check: Callable[[frozenset[str]], None],
        regroup: Callable[[frozenset[str]], None],
    ) -> None:
        """When labels become facts, `check` may refuse, and `regroup` moves pods that have them."""
        self.by_key: dict[bytes, PodClass] = {}
        self.clutter = 0
        """How much was left behind since the last `forget_unused`, in steps of a KiB or less."""
        self._unused: dict[PodClass, None] = {}
        self._next_identity = 0
        self._columns = columns
        self._counters = counters
        self._anti_terms = anti_terms
        self._version = version
        self._check = check
        self._regroup = regroup
        self._telling: frozenset[str] = frozenset()

    def of(self, pod: Pod) -> PodClass:
        key = classes.key_of(pod)
        pod_class = self.by_key.get(key)
        if pod_class is None:
            pod_class = PodClass(key, pod, version=self._version)
            self._tell_apart_by(pod_class.identity_labels_named())
            self._register(key, pod_class)
        labels = pod.metadata.labels
        pod_class = self.told_apart(pod_class, labels)
        if not classes.IDENTITY_LABELS.isdisjoint(labels):
            own = classes.IDENTITY_LABELS.intersection(labels)
            pod_class.identity_labels |= own - pod_class.labels.keys()
        return pod_class

    def told_apart(self, pod_class: PodClass, labels: Mapping[str, str]) -> PodClass:
        """The part of a class that a pod with these labels is in; nearly always all of it."""
        if not self._telling:
            return pod_class
        own = {name: labels[name] for name in sorted(self._telling.intersection(labels))}
        if not own:
            return pod_class
        key = classes.key_told_apart(pod_class.key, own)
        part = self.by_key.get(key)
        if part is None:
            part = pod_class.told_apart(own)
            self._register(key, part)
        return part

    def adopt(self, pod_class: PodClass) -> PodClass:
        """The class as it is known; one that was forgotten meanwhile is known again."""
        known = self.by_key.get(pod_class.registered_as)
        if known is None:
            self._register(pod_class.registered_as, pod_class)
            return pod_class
        return known

    def use(self, pod_class: PodClass) -> None:
        """One more pod of the snapshot is in the class."""
        pod_class.users += 1
        if pod_class.users == 1:
            self._unused.pop(pod_class, None)

    def release(self, pod_class: PodClass) -> None:
        """One pod fewer is."""
        pod_class.users -= 1
        if not pod_class.users:
            self._leave(pod_class)

    def forget_unused(self) -> None:
        """Forget the classes that nobody is in; not while a trial may bring their pods back."""
        gone = [pods for pods in self._unused if not pods.nodes]
        for pods in gone:
            del self.by_key[pods.registered_as]
            del self._unused[pods]
        self._counters.forget(gone)
        self._anti_terms.forget(gone)
        self.clutter = 0

    def resource_came(self, name: str, column: int) -> None:
        """Nodes offer a resource that none did before: count what pods on nodes use of it."""
        used = self._columns.used[column]
        for pods in self.by_key.values():
            amount = pods.usage.get(name)
            if amount:
                pods.usage_columns += ((column, amount),)
                for row, count in pods.nodes.items():
                    used.data[row] += amount * count

    def resources_renumbered(self) -> None:
        """Resources have other columns than before."""
        for pods in self.by_key.values():
            pods.usage_columns = self._columns.columns_of(pods.usage)

    def _register(self, key: bytes, pod_class: PodClass) -> None:
        pod_class.identity = self._next_identity
        self._next_identity += 1
        pod_class.registered_as = key
        pod_class.usage_columns = self._columns.columns_of(pod_class.usage)
        self.by_key[key] = pod_class
        self._counters.register(pod_class)
        self._anti_terms.register(pod_class)
        self._leave(pod_class)

    def _leave(self, pod_class: PodClass) -> None:
        self._unused[pod_class] = None
        self.clutter += 1 + (len(pod_class.registered_as) >> 10)

    def _tell_apart_by(self, names: frozenset[str]) -> None:
        if not names <= self._telling:
            self._check(names - self._telling)
            self._telling |= names
            self._regroup(names)
