"""Pods that keep together or apart are where they may be, by the plain model of kube-scheduler.

Counting does not do for these: they are put to `testing.reference`, which shares only typed objects
with what decides. At the moment of binding, pods that the scheduler has decided on are on their
nodes; only what went between the decision and the binding is forgiven.
"""

import math
from collections.abc import Iterator
from typing import Any

import msgspec

from tonnage.embedded.apiserver.store import Occurrence, Stored
from tonnage.objects.kinds import KubeObject
from tonnage.objects.nodes import Node
from tonnage.objects.pods import Pod
from tonnage.simulation.checks.context import CheckContext, node_of, was_bound
from tonnage.simulation.checks.places import has_wishes, takes_pods
from tonnage.testing import reference
from tonnage.testing.reference import ReferenceCluster

AGAINST_ITS_WISHES = "bound where it may not be beside others"
HAS_A_PLACE = "a pod that keeps together or apart has a place and is pending"

LEFT_SINCE = "bound beside others that left, or nodes that came or went, at about the same time"
NOT_COUNTED = "bought while pods wait that keep together or apart"

_PLUGINS = frozenset({"PodTopologySpread", "InterPodAffinity"})
_JUST_NOW = 5.0
"""Seconds from a decision to its binding, and more."""
_PATIENCE = 60.0


class PlacementCheck:
    """Is told of every change; asks about pods with spread constraints or affinity alone."""

    def __init__(self, context: CheckContext) -> None:
        self._context = context
        self._accounts = context.accounts
        self._findings = context.findings
        self._pods = context.store.built_in("pods")
        self._nodes = context.store.built_in("nodes")
        self._left_at = -math.inf
        self.asked = 0
        """Bindings that were put to the reference."""

    @property
    def waiting(self) -> list[Stored]:
        """Such pods that wait for a node."""
        return [
            pod
            for key, account in self._accounts.pods.items()
            if account.state == "pending"
            and (pod := self._context.pod(key)) is not None
            and has_wishes(pod)
        ]

    def changed(self, kind: str, occurrence: Occurrence) -> None:
        before, after = occurrence.before, occurrence.after
        if kind == "nodes" and (before is None or after is None):
            self._left_at = self._accounts.now
        elif kind == "pods":
            if after is None or after.deleting:
                self._left_at = self._accounts.now
            elif has_wishes(after) and was_bound(occurrence):
                self._check_binding(after)

    def at_the_end(self) -> None:
        """When all is quiet: nobody waits who has a place."""
        for pod in self.waiting:
            if self._accounts.now - self._accounts.pods[pod.key].since < _PATIENCE:
                continue
            found = reference.verdicts(ReferenceCluster(self._objects(but=pod)), _pod(pod.tree))
            for verdict in found:
                node = self._nodes.get("", verdict.node)
                if verdict.code == "Success" and node is not None and takes_pods(node):
                    self._findings.violated(HAS_A_PLACE, f"{pod.key}, on {verdict.node}")
                    break

    def _check_binding(self, pod: Stored) -> None:
        self.asked += 1
        cluster = ReferenceCluster(self._objects(but=pod))
        if node_of(pod) not in cluster.nodes:
            return
        verdict = reference.verdict(cluster, _pod(pod.tree, on=""), node_of(pod))
        if verdict.plugin not in _PLUGINS:
            return
        if self._accounts.now - self._left_at <= _JUST_NOW:
            self._findings.excuse(LEFT_SINCE)
        else:
            what = f"{verdict.pod} on {verdict.node}: {'; '.join(verdict.reasons)}"
            self._findings.violated(AGAINST_ITS_WISHES, what)

    def _objects(self, *, but: Stored) -> Iterator[KubeObject]:
        """The cluster without a pod, and with all that the scheduler has decided on."""
        assumed = self._context.assumed()
        for node in self._nodes.within():
            yield msgspec.convert(node.tree, Node)
        for pod in self._pods.within():
            if pod.uid == but.uid:
                continue
            decided = assumed.get(pod.key)
            is_its = decided is not None and decided.uid == pod.uid
            yield _pod(pod.tree, on=node_of(pod) or (decided.node if decided and is_its else ""))


def _pod(tree: dict[str, Any], *, on: str = "") -> Pod:
    pod = msgspec.convert(tree, Pod)
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=on))
