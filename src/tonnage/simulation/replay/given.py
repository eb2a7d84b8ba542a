"""What a replay takes from a trace: the objects of the beginning, and what others did then.

Given are arrivals, changes and deletions of what people and their controllers ask for, and what
happens to machines that no autoscaler asked for. Everything that a scheduler, an autoscaler, a
kubelet, a provisioner or a workload controller writes is decided anew.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any, TypeAlias

import msgspec

from tonnage.embedded.world import RUNS_FOR
from tonnage.objects.kinds import Kind
from tonnage.objects.pods import FINISHED
from tonnage.simulation.replay import lifetimes, namespaces, trees
from tonnage.simulation.replay.lifetimes import PodLifetimes
from tonnage.simulation.replay.membership import GroupMembership
from tonnage.simulation.replay.pod_keeper import KEPT
from tonnage.simulation.replay.trees import Tree
from tonnage.simulation.scenario import (
    Crash,
    LimitChangeAction,
    NodeLoss,
    NodeOutage,
    Scaling,
    ScenarioAction,
    Target,
)
from tonnage.simulation.scenario_files import OWN_NAMESPACES
from tonnage.traces.reader import TraceEvent

Key: TypeAlias = tuple[str, str]
"""Plural and name."""

ASKED_FOR = frozenset(
    {
        "namespaces",
        "storageclasses",
        "csidrivers",
        "priorityclasses",
        "poddisruptionbudgets",
        "services",
        "resourcequotas",
        "capacitybuffers",
        "podtemplates",
        "podgroups",
        "provisioningrequests",
        "daemonsets",
        "statefulsets",
        "replicasets",
        "replicationcontrollers",
        "jobs",
    }
)
"""Kinds that people or their controllers write; the ReplicaSets of a Deployment stand for it."""

PLAYED_OWNERS = frozenset({"ReplicaSet", "StatefulSet", "DaemonSet", "Job"})
"""Kinds whose pods the replay's own controllers make."""

_SCALED = frozenset({"statefulsets", "replicasets"})
_PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
_SUCCESSION = 120.0
"""Seconds within which a pod takes the place of one of the same owner that was taken away."""


class GivenCourse(msgspec.Struct, frozen=True, kw_only=True):
    """Objects as they are created at the beginning, owners first, and what comes then."""

    objects: tuple[Tree, ...]
    script: tuple[ScenarioAction, ...]


class GivenReader:
    """Fed with every event of a trace, in order; `course` afterwards."""

    def __init__(self, membership: GroupMembership, *, began: float) -> None:
        self._membership = membership
        self._known = False
        self._initial: dict[Key, Tree] = {}
        self._script: list[tuple[float, ScenarioAction]] = []
        self._arrivals: list[tuple[float, Key, Tree]] = []
        self.lifetimes = PodLifetimes(began)
        self._nodes: dict[str, Tree] = {}
        self._csi_nodes: dict[str, Tree] = {}
        self._initial_nodes: set[str] = set()
        self._down: dict[str, float] = {}
        self._missing: dict[tuple[str, str], float] = {}
        self._taken: defaultdict[str, list[tuple[float, str]]] = defaultdict(list)
        """Pods taken away, by the uid of an owner nobody plays: when, and their name."""
        self._stands_for: dict[str, str] = {}
        """Pods that took the place of one that is given, with the name of that."""
        self._given_pods: set[str] = set()

    def feed(self, event: TraceEvent) -> None:
        self.lifetimes.feed(event)
        if event.known:
            self._begin()
            return
        if event.kind is None:
            return
        self._note(event)
        if not self._known:
            key = (event.kind.plural, event.name)
            if event.after is None:
                self._initial.pop(key, None)
            else:
                self._initial[key] = event.after
        elif event.kind.plural == "nodes":
            self._node(event)
        elif event.kind.plural == "csinodes":
            self._csi_node(event)
        elif event.kind.plural == "pods":
            self._pod(event)
        elif self._is_asked_for(event):
            self._asked(event)

    def course(self) -> GivenCourse:
        """Everything, when the trace is over."""
        script = [*self._script]
        arrivals = namespaces.in_time(self._arrivals)
        for at, key, tree in arrivals:
            made = self._with_times(key, tree)
            script.append((at, ScenarioAction(at=at, apply=(made,))))
        for node, at in self._down.items():
            script.append((at, self._outage(node, at, None)))
        script.sort(key=lambda one: one[0])
        initial = {key: tree for key, tree in self._initial.items() if self._starts(key, tree)}
        uids = {tree["metadata"].get("uid") for tree in initial.values()}
        objects = sorted(
            (self._at_start(key, tree, uids) for key, tree in initial.items()), key=trees.rank
        )
        return GivenCourse(
            objects=(*namespaces.missing(objects, arrivals), *objects),
            script=tuple(_together([one for _, one in script])),
        )

    # The beginning

    def _begin(self) -> None:
        if self._known:
            return  # another file of the same recording
        self._known = True
        self._initial_nodes = {name for plural, name in self._initial if plural == "nodes"}
        for (plural, name), tree in self._initial.items():
            if plural == "pods" and not self._is_played(tree):
                self._given_pods.add(name)

    def _starts(self, key: Key, tree: Tree) -> bool:
        """Whether it is there when the replay begins."""
        plural, meta = key[0], tree["metadata"]
        if plural == namespaces.PLURAL:
            return key[1] not in OWN_NAMESPACES  # on their way out they are there until they go
        if meta.get("deletionTimestamp") or plural in ("deployments", "cronjobs"):
            return False
        if plural == "csistoragecapacities":
            return False  # published by the drivers of the replay
        if plural == "pods":
            return tree.get("status", {}).get("phase") not in FINISHED
        return True

    def _at_start(self, key: Key, tree: Tree, uids: set[Any]) -> Tree:
        tree = trees.new(tree, among=uids)
        if key[0] == "pods":
            if tree.get("spec", {}).get("nodeName") not in self._initial_nodes:
                tree = trees.unbound(tree)
            if self._is_kept(tree, self._initial[key]):
                tree = trees.annotated(tree, KEPT, "true")
        return self._with_times(key, tree, later=True)

    def _with_times(self, key: Key, tree: Tree, *, later: bool = False) -> Tree:
        """With the running times that pods had; of a Job that was there, those of later pods."""
        uid = tree["metadata"].get("uid", "")
        if key[0] == "pods":
            seconds = self.lifetimes.of_pod.get(uid)
            if seconds is None:
                return tree
            return trees.annotated(
                tree, RUNS_FOR, lifetimes.annotation([seconds], unfinished=False)
            )
        if key[0] != "jobs":
            return tree
        there = {
            pod["metadata"].get("uid")
            for (plural, _), pod in (self._initial.items() if later else ())
            if plural == "pods"
        }
        times = self.lifetimes.of_owner(uid, without=there)
        unfinished = self.lifetimes.unfinished(uid)
        if not times and not unfinished:
            return tree
        spec = tree["spec"]
        template = trees.annotated(
            {"metadata": {}, **spec.get("template", {})},
            RUNS_FOR,
            lifetimes.annotation(times, unfinished=unfinished),
        )
        return {**tree, "spec": {**spec, "template": template}}

    # What is asked for

    def _is_asked_for(self, event: TraceEvent) -> bool:
        assert event.kind is not None
        plural, tree = event.kind.plural, event.after or event.before
        assert tree is not None
        if plural in ASKED_FOR:
            return True
        if plural == "persistentvolumeclaims":
            return not self._is_made_claim(tree)
        if plural == "persistentvolumes":
            annotations = tree["metadata"].get("annotations") or {}
            return _PROVISIONED_BY not in annotations and not tree.get("spec", {}).get("claimRef")
        return False

    def _is_made_claim(self, claim: Tree) -> bool:
        """Whether a controller of the replay makes it: of a pod's own, or of a StatefulSet's."""
        if any(owner.get("kind") == "Pod" for owner in trees.owners(claim)):
            return True
        meta = claim["metadata"]
        stem, _, ordinal = meta["name"].rpartition("-")
        if not ordinal:
            return False
        namespace = meta.get("namespace", "")
        return any(
            stem == f"{template['metadata'].get('name', '')}-{tree['metadata']['name']}"
            for tree in self._stateful_sets(namespace)
            for template in tree.get("spec", {}).get("volumeClaimTemplates") or ()
        )

    def _stateful_sets(self, namespace: str) -> list[Tree]:
        found = [tree for (plural, _), tree in self._initial.items() if plural == "statefulsets"]
        found += [tree for _, key, tree in self._arrivals if key[0] == "statefulsets"]
        return [tree for tree in found if tree["metadata"].get("namespace", "") == namespace]

    def _asked(self, event: TraceEvent) -> None:
        assert event.kind is not None
        plural, before, after = event.kind.plural, event.before, event.after
        if after is None:
            self._script.append((event.at, _deletion(event.at, event.kind, event.name)))
        elif before is None or trees.uid(before) != trees.uid(after):
            made = (
                trees.unclaimed(trees.new(after))
                if plural == "persistentvolumeclaims"
                else trees.new(after)
            )
            self._arrivals.append((event.at, (plural, event.name), made))
        elif after["metadata"].get("deletionTimestamp"):
            return  # it goes when it is gone
        elif plural in _SCALED and trees.only_replicas(before, after):
            self._script.append((event.at, _scaling(event.at, event.kind, after)))
        elif trees.asks(before) != trees.asks(after):
            if plural == "persistentvolumeclaims":
                return  # bound, or grown: the replay's own binder does the one, nobody the other
            action = ScenarioAction(at=event.at, apply=(trees.anonymous(trees.new(after)),))
            self._script.append((event.at, action))

    # Pods

    def _is_played(self, pod: Tree) -> bool:
        """Whether the replay's controllers make it."""
        return any(
            owner.get("controller") and owner.get("kind") in PLAYED_OWNERS
            for owner in trees.owners(pod)
        )

    def _is_kept(self, pod: Tree, recorded: Tree) -> bool:
        owner = next((one for one in trees.owners(recorded) if one.get("controller")), None)
        own = owner is not None and owner.get("kind") not in (*PLAYED_OWNERS, "Node")
        return own and not self._is_played(pod)

    def _pod(self, event: TraceEvent) -> None:
        tree = event.after or event.before
        assert tree is not None
        assert event.kind is not None
        if self._is_played(tree):
            return
        owner = next((one for one in trees.owners(tree) if one.get("controller")), None)
        uid = owner.get("uid", "") if owner is not None else ""
        if owner is not None and owner.get("kind") == "Node":
            return  # a static pod comes and goes with its node
        if event.after is None:
            self._pod_gone(event, uid)
        elif event.before is None or trees.uid(event.before) != trees.uid(event.after):
            self._pod_came(event, uid)

    def _pod_came(self, event: TraceEvent, owner: str) -> None:
        assert event.after is not None
        assert event.kind is not None
        taken = self._taken.get(owner) if owner else None
        while taken:
            at, name = taken.pop(0)
            if event.at - at <= _SUCCESSION:
                self._stands_for[event.name] = name
                return
        made = trees.unbound(trees.new(event.after))
        if owner:
            made = trees.annotated(made, KEPT, "true")
        self._given_pods.add(event.name)
        self._arrivals.append((event.at, ("pods", event.name), made))

    def _pod_gone(self, event: TraceEvent, owner: str) -> None:
        assert event.before is not None
        assert event.kind is not None
        name = self._stands_for.pop(event.name, event.name)
        if name not in self._given_pods:
            return
        if trees.is_disrupted(event.before) or self._node_is_lost(event.before):
            # Decided anew; whoever takes its place is the same pod to the replay.
            self._taken[owner].append((event.at, name))
            return
        self._given_pods.discard(name)
        self._script.append((event.at, _deletion(event.at, event.kind, name)))

    def _node_is_lost(self, pod: Tree) -> bool:
        node = pod.get("spec", {}).get("nodeName")
        return bool(node) and node not in self._nodes

    # Nodes

    def _note(self, event: TraceEvent) -> None:
        assert event.kind is not None
        for plural, known in (("nodes", self._nodes), ("csinodes", self._csi_nodes)):
            if event.kind.plural != plural:
                continue
            if event.after is None:
                known.pop(event.name, None)
            else:
                known[event.name] = event.after

    def _node(self, event: TraceEvent) -> None:
        assert event.kind is not None
        name, before, after = event.name, event.before, event.after
        tree = after or before
        assert tree is not None
        group = self._membership.of(name, tree)
        if after is None:
            self._down.pop(name, None)
            if trees.is_leaving(tree):
                return
            if group:
                action = ScenarioAction(
                    at=event.at, lose=NodeLoss(nodes=(name,), or_oldest_of=group)
                )
            else:
                action = _deletion(event.at, event.kind, name)
            self._script.append((event.at, action))
        elif before is None:
            if not group:
                self._arrivals.append((event.at, ("nodes", name), trees.silent(trees.new(after))))
        elif trees.is_ready(before) and not trees.is_ready(after) and not trees.is_leaving(after):
            self._down.setdefault(name, event.at)
        elif trees.is_ready(after) and name in self._down:
            since = self._down.pop(name)
            self._script.append((since, self._outage(name, since, event.at)))

    def _outage(self, node: str, since: float, until: float | None) -> ScenarioAction:
        lasts = (until - since) if until is not None else 86_400.0
        tree = self._nodes.get(node)
        group = self._membership.of(node, tree) if tree is not None else ""
        if node in self._initial_nodes:
            group = ""
        outage = NodeOutage(nodes=(node,), or_oldest_of=group, lasts=lasts)
        return ScenarioAction(at=since, not_ready=outage)

    def _csi_node(self, event: TraceEvent) -> None:
        """Limits that change, and drivers that go and come back, on nodes of the beginning."""
        if event.before is None or event.after is None or event.name not in self._initial_nodes:
            return
        before, after = trees.drivers(event.before), trees.drivers(event.after)
        for driver in before.keys() - after.keys():
            self._missing[event.name, driver] = event.at
        for driver in sorted(after):
            since = self._missing.pop((event.name, driver), None)
            if since is not None:
                crash = Crash(driver=driver, nodes=(event.name,), lasts=event.at - since)
                self._script.append((since, ScenarioAction(at=since, crash=crash)))
            elif driver in before and before[driver] != after[driver]:
                change = LimitChangeAction(driver=driver, limit=after[driver], nodes=(event.name,))
                self._script.append((event.at, ScenarioAction(at=event.at, set_limit=change)))


def _scaling(at: float, kind: Kind, tree: Tree) -> ScenarioAction:
    meta, replicas = tree["metadata"], tree["spec"].get("replicas", 1)
    scaling = Scaling(
        kind=kind.kind, name=meta["name"], namespace=meta["namespace"], replicas=replicas
    )
    return ScenarioAction(at=at, scale=scaling)


def _deletion(at: float, kind: Kind, key: str) -> ScenarioAction:
    namespace, _, name = key.rpartition("/")
    target = Target(kind=kind.kind, name=name, namespace=namespace or "default")
    return ScenarioAction(at=at, delete=(target,))


def _together(actions: list[ScenarioAction]) -> Iterable[ScenarioAction]:
    """Objects that come or go at one moment as one action, so that reports stay readable."""
    found: list[ScenarioAction] = []
    for action in actions:
        last = found[-1] if found else None
        if last is None or last.at != action.at:
            found.append(action)
        elif last.apply is not None and action.apply is not None:
            found[-1] = msgspec.structs.replace(last, apply=(*last.apply, *action.apply))
        elif last.delete is not None and action.delete is not None:
            found[-1] = msgspec.structs.replace(last, delete=(*last.delete, *action.delete))
        else:
            found.append(action)
    return found
