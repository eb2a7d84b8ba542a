"""Nodes are given back without harm: to budgets, to replicas, to volumes, to whoever needs them.

What is evicted is told by the marks of its node; what was decided is not asked.
"""

import json
import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from tonnage.embedded.apiserver.store import Occurrence, Stored
from tonnage.groups.passing_taints import TO_BE_DELETED
from tonnage.objects.labels import ZONE
from tonnage.simulation.checks.context import CheckContext, node_of
from tonnage.simulation.checks.places import PodDemand

OVER_BUDGET = "evicted beyond a disruption budget"
TWO_REPLICAS = "two replicas of a set on their way at once"
STILL_USED = "removed with pods on it"
STILL_ATTACHED = "removed with volumes attached to it"
NOT_CLEANED = "a node left marked"
BOUGHT_FOR_MOVED = "bought for pods that were only moved"
STRANDED = "removed the last node of a zone that volumes need, and nobody can bring another"

NOT_HEARD = "removed before the autoscaler could hear of the latest changes"
DETACHED_LATE = "removed with volumes attached that were waited for long enough"

_CLEANED_WITHIN = 400.0
"""Seconds after which a node is no longer marked, or gone: a drain, its waits and its roll-back."""
_SLACK = 5.0
_HOUR = 3600.0


class Removals:
    """Is told of every request for a deletion before it is made, and of every change."""

    def __init__(
        self, context: CheckContext, *, detach_timeout: float, zones: Collection[str]
    ) -> None:
        self._context = context
        self._accounts = context.accounts
        self._findings = context.findings
        self._detach_timeout = detach_timeout
        self._zones = zones
        """Those that some group can have nodes in."""
        store = context.store
        self._nodes = store.built_in("nodes")
        self._volumes = store.built_in("persistentvolumes")
        self._sets = store.collections["apps", "v1", "statefulsets"]
        self._budgets = store.collections["policy", "v1", "poddisruptionbudgets"]
        self._attachments = store.collections["storage.k8s.io", "v1", "volumeattachments"]
        self._marked: dict[str, float] = {}
        self._emptied: dict[str, float] = {}
        self._moving: defaultdict[str, dict[str, str]] = defaultdict(dict)
        """By set: pods that were evicted and do not run again, with the UID they had."""
        self._evicted_at: dict[str, float] = {}
        self.evicted = 0
        self.removed = 0

    def is_marked(self, node: str) -> bool:
        return node in self._marked

    def changed(self, kind: str, occurrence: Occurrence) -> None:
        if kind == "nodes":
            self._note_marks(occurrence)
        elif kind == "pods":
            self._note_pod(occurrence)

    def check(self, nodes: Sequence[str]) -> None:
        """Just before nodes are deleted that are given back."""
        now = self._accounts.now
        for name in nodes:
            self.removed += 1
            pods = [
                key
                for key, one in self._accounts.pods.items()
                if one.node == name and one.state in ("running", "starting")
            ]
            if pods:
                self._breach(STILL_USED, f"{name}: {pods[0]} and {len(pods) - 1} more")
            since = self._emptied.get(name, now)
            left = [
                one.name
                for one in self._attachments.within()
                if one.tree["spec"]["nodeName"] == name
            ]
            if left and now - since >= self._detach_timeout - _SLACK:
                self._findings.excuse(DETACHED_LATE)
            elif left:
                self._breach(STILL_ATTACHED, f"{name}: {len(left)} volumes")
            self._check_zone(name)

    def _check_zone(self, name: str) -> None:
        """Volumes that can be used in one zone alone need a node there, or a group that has one."""
        node = self._nodes.get("", name)
        zone = (node.meta.get("labels") or {}).get(ZONE, "") if node is not None else ""
        others = [
            one
            for one in self._nodes.within()
            if one.name != name and (one.meta.get("labels") or {}).get(ZONE) == zone
        ]
        if not zone or others or zone in self._zones:
            return
        pinned = [
            one.name
            for one in self._volumes.within()
            if zone in json.dumps(one.tree["spec"].get("nodeAffinity", {}))
        ]
        if pinned:
            self._findings.violated(STRANDED, f"{name}, {zone}: {len(pinned)} volumes")

    def check_purchase(
        self, group: str, wishes: Iterable[PodDemand], *, quiet_since: float
    ) -> None:
        """Just before nodes are bought: not for pods that were only moved, when all is quiet."""
        now = self._accounts.now
        moved = [
            one.key
            for one in wishes
            if self._evicted_at.get(one.key, -math.inf) > max(quiet_since, now - _HOUR)
        ]
        if moved:
            self._breach(BOUGHT_FOR_MOVED, f"{group}: {moved[0]} and {len(moved) - 1} more")

    def at_the_end(self) -> None:
        now = self._accounts.now
        for name, since in self._marked.items():
            if now - since > _CLEANED_WITHIN:
                self._findings.violated(NOT_CLEANED, f"{name}, for {now - since:.0f} s")

    def _breach(self, rule: str, what: str) -> None:
        self._context.breach(rule, what, not_heard=NOT_HEARD)

    def _note_marks(self, occurrence: Occurrence) -> None:
        name, after = occurrence.subject.name, occurrence.after
        if after is None or not any(taint["key"] == TO_BE_DELETED for taint in _taints(after)):
            self._marked.pop(name, None)
            self._emptied.pop(name, None)
        elif name not in self._marked:
            self._marked[name] = self._accounts.now

    def _note_pod(self, occurrence: Occurrence) -> None:
        before, after = occurrence.before, occurrence.after
        subject = occurrence.subject
        key, controller = subject.key, _controller(subject)
        moving = self._moving[controller]
        if key in moving and (
            (after is not None and after.uid != moving[key] and _runs(after))
            or not self._is_wanted(subject)
        ):
            del moving[key]
        node = node_of(subject)
        if node not in self._marked:
            return
        self._emptied[node] = self._accounts.now
        evicted = (
            before is not None and after is not None and after.deleting and not before.deleting
        )
        if evicted and self._is_wanted(subject):
            self._note_eviction(key, controller, before or subject)

    def _note_eviction(self, key: str, controller: str, pod: Stored) -> None:
        self.evicted += 1
        kind = controller.partition("/")[0]
        others = self._moving[controller].keys() - {key}
        if kind == "StatefulSet" and others:
            self._findings.violated(TWO_REPLICAS, f"{key} beside {min(others)}")
        self._moving[controller][key] = pod.uid
        self._evicted_at[key] = self._accounts.now
        if not _is_ready(pod):
            return
        for budget in self._covering(pod):
            status = budget.tree["status"]
            # The status is that of this very moment, and this pod no longer counts in it.
            if status["currentHealthy"] < status["desiredHealthy"]:
                self._findings.violated(OVER_BUDGET, f"{key}: {budget.name}")

    def _covering(self, pod: Stored) -> Iterator[Stored]:
        labels = pod.meta.get("labels") or {}
        for budget in self._budgets.within(pod.namespace):
            wanted = budget.tree["spec"]["selector"].get("matchLabels") or {}
            if all(labels.get(name) == value for name, value in wanted.items()):
                yield budget

    def _is_wanted(self, pod: Stored) -> bool:
        """Whether its controller would bring it back: it may be scaled down at the same time."""
        kind, _, name = _controller(pod).partition("/")
        if kind != "StatefulSet":
            return bool(kind)
        ordinal = int(pod.name.rpartition("-")[2])
        return ordinal < self._replicas(pod.namespace, name)

    def _replicas(self, namespace: str, name: str) -> int:
        found = self._sets.get(namespace, name)
        return found.tree["spec"].get("replicas", 1) if found is not None else 0


def _taints(node: Stored) -> Sequence[dict[str, Any]]:
    return node.tree.get("spec", {}).get("taints") or ()


def _controller(pod: Stored) -> str:
    for owner in pod.meta.get("ownerReferences") or ():
        if owner.get("controller"):
            return f"{owner['kind']}/{owner['name']}"
    return ""


def _runs(pod: Stored) -> bool:
    return bool(node_of(pod)) and _is_ready(pod) and not pod.deleting


def _is_ready(pod: Stored) -> bool:
    conditions = pod.tree.get("status", {}).get("conditions") or ()
    return any(
        condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions
    )
