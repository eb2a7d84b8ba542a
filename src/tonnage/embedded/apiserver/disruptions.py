"""Disruption budgets, kept up to date with every change of a pod.

In a real cluster a controller writes their status and evictions are counted against it. Here the
status is always that of this moment.
"""

import math
from collections import Counter
from typing import Any, TypeAlias

import msgspec

from tonnage.embedded.apiserver.refusals import Tree
from tonnage.embedded.apiserver.store import Collection, ObjectStore, Occurrence, Stored
from tonnage.objects import selectors
from tonnage.objects.meta import LabelSelector

Owner: TypeAlias = tuple[str, str, str]
"""API version, kind and name of a pod's controller."""

_NOBODY: Owner = ("", "", "")


class DisruptionBudget:
    """Which pods a budget is about, and how many of them are healthy."""

    def __init__(self, selector: LabelSelector | None) -> None:
        self._selector = selector
        self._healthy: dict[str, bool] = {}
        self._owner_of: dict[str, Owner] = {}
        self.healthy = 0
        self.owners: Counter[Owner] = Counter()

    @property
    def pods(self) -> int:
        return len(self._healthy)

    def covers(self, pod: Stored) -> bool:
        try:
            return selectors.matches(self._selector, pod.meta.get("labels") or {})
        except selectors.SelectorError:
            return False

    def see(self, pod: Stored) -> bool:
        """Take note of a pod as it is now; false if that changes nothing."""
        if not self.covers(pod):
            return self.forget(pod.name)
        healthy, owner = is_ready(pod.tree) and not pod.deleting, _controller(pod)
        known = self._healthy.get(pod.name)
        if known == healthy and self._owner_of[pod.name] == owner:
            return False
        self.forget(pod.name)
        self._healthy[pod.name] = healthy
        self._owner_of[pod.name] = owner
        self.healthy += healthy
        self.owners[owner] += 1
        return True

    def forget(self, name: str) -> bool:
        healthy = self._healthy.pop(name, None)
        if healthy is None:
            return False
        self.healthy -= healthy
        owner = self._owner_of.pop(name)
        self.owners[owner] -= 1
        if not self.owners[owner]:
            del self.owners[owner]
        return True


class Disruptions:
    """The budgets of all namespaces."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._pods = store.built_in("pods")
        self._objects = store.collections["policy", "v1", "poddisruptionbudgets"]
        self._budgets: dict[str, dict[str, DisruptionBudget]] = {}
        store.observers.append(self._observe)

    def covering(self, pod: Stored) -> list[Stored]:
        """The budgets a pod is subject to."""
        found = []
        for name, budget in self._budgets.get(pod.namespace, {}).items():
            obj = self._objects.get(pod.namespace, name)
            if obj is not None and budget.covers(pod):
                found.append(obj)
        return found

    def adopt(self, obj: Stored) -> None:
        """Learn of a budget that is there from the beginning."""
        self._budget_written(None, obj)

    def _observe(self, collection: Collection, occurrence: Occurrence) -> None:
        namespace = occurrence.subject.namespace
        if collection is self._objects:
            if occurrence.after is not None:
                self._budget_written(occurrence.before, occurrence.after)
            else:
                self._budgets.get(namespace, {}).pop(occurrence.subject.name, None)
        elif collection is self._pods:
            for name, budget in [*self._budgets.get(namespace, {}).items()]:
                pod = occurrence.after
                if budget.forget(occurrence.subject.name) if pod is None else budget.see(pod):
                    self._tell(namespace, name, budget)
        elif collection.kind.scale and namespace in self._budgets:
            for name, budget in [*self._budgets[namespace].items()]:
                self._tell(namespace, name, budget)

    def _budget_written(self, before: Stored | None, after: Stored) -> None:
        spec = after.tree.get("spec", {})
        if before is not None and before.tree.get("spec") == spec:
            return
        budget = DisruptionBudget(msgspec.convert(spec.get("selector"), LabelSelector | None))
        self._budgets.setdefault(after.namespace, {})[after.name] = budget
        for pod in self._pods.within(after.namespace):
            budget.see(pod)
        self._tell(after.namespace, after.name, budget)

    def _tell(self, namespace: str, name: str, budget: DisruptionBudget) -> None:
        obj = self._objects.get(namespace, name)
        if obj is None:
            return
        status = self._status(obj, budget)
        if status != obj.tree.get("status"):
            self._store.put(self._objects, {**obj.tree, "status": status}, obj)

    def _status(self, obj: Stored, budget: DisruptionBudget) -> Tree:
        spec = obj.tree.get("spec", {})
        expected, desired = self._wanted(obj.namespace, spec, budget)
        allowed = max(budget.healthy - desired, 0) if expected > 0 else 0
        return {
            "observedGeneration": obj.meta.get("generation", 1),
            "currentHealthy": budget.healthy,
            "desiredHealthy": desired,
            "disruptionsAllowed": allowed,
            "expectedPods": expected,
        }

    def _wanted(self, namespace: str, spec: Tree, budget: DisruptionBudget) -> tuple[int, int]:
        """How many pods there should be, and how many of them healthy."""
        least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
        if most is None and not isinstance(least, str):
            return (budget.pods, least) if least is not None else (0, 0)
        expected = self._expected(namespace, budget)
        if expected is None:
            # A share of an unknown number: nothing may be disturbed.
            return 0, budget.pods
        if most is not None:
            return expected, max(expected - _share(most, expected), 0)
        return expected, _share(least, expected)

    def _expected(self, namespace: str, budget: DisruptionBudget) -> int | None:
        total = 0
        for owner in budget.owners:
            replicas = self._replicas(namespace, owner)
            if replicas is None:
                return None
            total += replicas
        return total

    def _replicas(self, namespace: str, owner: Owner) -> int | None:
        """The replicas a controller wants; nobody knows of pods without one."""
        api_version, kind, name = owner
        collection = self._store.of_kind(api_version, kind)
        obj = collection.get(namespace, name) if collection is not None else None
        if collection is None or obj is None or collection.kind.scale is None:
            return None
        value: Any = obj.tree
        for step in collection.kind.scale[0].split("."):
            value = value.get(step) if isinstance(value, dict) else None
        return value if isinstance(value, int) else 1


def is_ready(pod: Tree) -> bool:
    conditions = pod.get("status", {}).get("conditions") or ()
    return any(
        condition.get("type") == "Ready" and condition.get("status") == "True"
        for condition in conditions
    )


def _controller(pod: Stored) -> Owner:
    for owner in pod.meta.get("ownerReferences") or ():
        if owner.get("controller"):
            return owner["apiVersion"], owner["kind"], owner["name"]
    return _NOBODY


def _share(amount: int | str | None, whole: int) -> int:
    """A number, or a percentage of the whole, rounded up."""
    if isinstance(amount, str):
        return math.ceil(int(amount.rstrip("%")) * whole / 100)
    return amount or 0
