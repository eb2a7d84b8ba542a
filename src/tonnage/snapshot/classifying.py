"""From pods to their classes.

A class leaves out the labels that only tell a pod from its siblings. Should a selector
name one of them after all, it becomes a fact, and classes are split by it.
"""

from collections.abc import Callable, Mapping

from tonnage.objects.pods import Pod
from tonnage.snapshot import classes
from tonnage.snapshot.classes import PodClass
from tonnage.snapshot.counting import AntiTerms, PodCounters


class PodClasses:
    """Pods of one class cannot be told apart by anything a pod of the snapshot asks for."""

    def __init__(
        self,
        counters: PodCounters,
        anti_terms: AntiTerms,
        *,
        version: tuple[int, int],
        check: Callable[[frozenset[str]], None],
        regroup: Callable[[frozenset[str]], None],
    ) -> None:
        """When labels become facts, `check` may refuse, and `regroup` moves pods that have them."""
        self.by_key: dict[bytes, PodClass] = {}
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

    def _register(self, key: bytes, pods: PodClass) -> None:
        pods.identity = len(self.by_key)
        self.by_key[key] = pods
        self._counters.register(pods)
        self._anti_terms.register(pods)

    def _tell_apart_by(self, names: frozenset[str]) -> None:
        if not names <= self._telling:
            self._check(names - self._telling)
            self._telling |= names
            self._regroup(names)
