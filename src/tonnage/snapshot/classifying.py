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
from tonnage.snapshot.counting import AntiTerms, PodCounters
from tonnage.snapshot.nodes import NodeColumns


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
        pods = self.by_key.get(key)
        if pods is None:
            pods = PodClass(key, pod, version=self._version)
            self._tell_apart_by(pods.identity_labels_named())
            self._register(key, pods)
        labels = pod.metadata.labels
        pods = self.told_apart(pods, labels)
        if not classes.IDENTITY_LABELS.isdisjoint(labels):
            own = classes.IDENTITY_LABELS.intersection(labels)
            pods.identity_labels |= own - pods.labels.keys()
        return pods

    def told_apart(self, pods: PodClass, labels: Mapping[str, str]) -> PodClass:
        """The part of a class that a pod with these labels is in; nearly always all of it."""
        if not self._telling:
            return pods
        own = {name: labels[name] for name in sorted(self._telling.intersection(labels))}
        if not own:
            return pods
        key = classes.key_told_apart(pods.key, own)
        part = self.by_key.get(key)
        if part is None:
            part = pods.told_apart(own)
            self._register(key, part)
        return part

    def adopt(self, pods: PodClass) -> PodClass:
        """The class as it is known; one that was forgotten meanwhile is known again."""
        known = self.by_key.get(pods.registered_as)
        if known is None:
            self._register(pods.registered_as, pods)
            return pods
        return known

    def use(self, pods: PodClass) -> None:
        """One more pod of the snapshot is in the class."""
        pods.users += 1
        if pods.users == 1:
            self._unused.pop(pods, None)

    def release(self, pods: PodClass) -> None:
        """One pod fewer is."""
        pods.users -= 1
        if not pods.users:
            self._leave(pods)

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

    def _register(self, key: bytes, pods: PodClass) -> None:
        pods.identity = self._next_identity
        self._next_identity += 1
        pods.registered_as = key
        pods.usage_columns = self._columns.columns_of(pods.usage)
        self.by_key[key] = pods
        self._counters.register(pods)
        self._anti_terms.register(pods)
        self._leave(pods)

    def _leave(self, pods: PodClass) -> None:
        self._unused[pods] = None
        self.clutter += 1 + (len(pods.registered_as) >> 10)

    def _tell_apart_by(self, names: frozenset[str]) -> None:
        if not names <= self._telling:
            self._check(names - self._telling)
            self._telling |= names
            self._regroup(names)
