"""A cluster that can be asked questions: the facade over files, rules and decisions."""

import copy
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import msgspec

from tonnage import files
from tonnage.api import missing_classes, overview, slots
from tonnage.api.cluster_objects import read
from tonnage.api.overview import Overview
from tonnage.errors import InputError
from tonnage.groups.cluster_state import ClusterState
from tonnage.groups.inputs import Inputs
from tonnage.groups.memory import TemplateMemory
from tonnage.groups.options import Options, now_of
from tonnage.groups.options import of as options_of
from tonnage.groups.scale_down_options import AT_ONCE
from tonnage.objects.kinds import KubeObject
from tonnage.objects.phrases import alternatives
from tonnage.objects.pods import FINISHED, Pod
from tonnage.objects.storage import StorageClass
from tonnage.rules import features, opt_in, pipeline
from tonnage.rules.features import Features
from tonnage.rules.framework import Code, Rule
from tonnage.rules.opt_in import Enforcement
from tonnage.rules.pipeline import Verdict
from tonnage.snapshot.snapshot import PodRecord, Snapshot

if TYPE_CHECKING:
    from tonnage.api import stranded_capacity
    from tonnage.api.plans import PlanRecord, WhatIfResult
    from tonnage.consolidation.plan import ConsolidationPlan
    from tonnage.consolidation.right_size import InstancePrice, SizeAdvice
    from tonnage.consolidation.state import ConsolidationState
    from tonnage.scaledown.plan import ScaleDownPlan
    from tonnage.scaledown.state import ScaleDownState
    from tonnage.scaleup.decision import Decision


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """What kube-scheduler would say of one pod; `node` is where it runs now, if it does."""

    pod: str
    node: str = ""
    summary: str
    verdicts: tuple[Verdict, ...]

    @property
    def fits(self) -> tuple[str, ...]:
        """Names of the nodes the pod fits on."""
        return tuple(verdict.node for verdict in self.verdicts if verdict.code is Code.SUCCESS)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the verdicts could not take into account, each thing once."""
        return tuple(dict.fromkeys(text for verdict in self.verdicts for text in verdict.warnings))


def load(
    paths: Sequence[str | Path] | str | Path,
    *,
    lenient: bool = False,
    kubernetes_version: str = "",
    feature_gates: Mapping[str, bool] | None = None,
    legacy_attach_limits: bool = False,
    max_pd_vols: int | None = None,
    count_returning_volumes_once: bool = False,
    enforce_opt_in: Enforcement | None = None,
) -> "Cluster":
    """The cluster that manifests describe: files, directories, `-` for standard input.

    Version, gates and who enforces the opt-in of drivers go before what a Scenario in the files
    says; `max_pd_vols` is the scheduler's `KUBE_MAX_PD_VOLS`, for legacy limits. Leniently, objects
    that cannot be used are left out and listed in the cluster's `problems`; otherwise the first
    one is an `InputError`.
    """
    return Cluster.of(
        read(paths, lenient=lenient),
        kubernetes_version=kubernetes_version,
        feature_gates=feature_gates,
        legacy_attach_limits=legacy_attach_limits,
        max_pd_vols=max_pd_vols,
        count_returning_volumes_once=count_returning_volumes_once,
        enforce_opt_in=enforce_opt_in,
    )


class Cluster:
    """Answers about the objects it was built from; asking changes nothing.

    Pods are named `namespace/name`, or `name` where only one pod has it. `problems` and
    `notes` are what loading left out and had to say.
    """

    def __init__(
        self,
        objects: Iterable[KubeObject],
        *,
        kubernetes_version: str = "",
        feature_gates: Mapping[str, bool] | None = None,
        legacy_attach_limits: bool = False,
        max_pd_vols: int | None = None,
        count_returning_volumes_once: bool = False,
        enforce_opt_in: Enforcement = "auto",
        options: Mapping[str, object] | None = None,
        rules: Iterable[Rule] = (),
    ) -> None:
        """Take the objects as they are: nothing is assumed beside them.

        `options` are those of decisions, by the names they have in a Scenario; `rules` are of
        your own, asked after those of the scheduler.
        """
        self._objects = list(objects)
        self.problems: tuple[str, ...] = ()
        self.notes: tuple[str, ...] = ()
        self.unread: frozenset[str] = frozenset()
        """Kinds that could not be read, so that their absence says nothing."""
        self._options = dict(options or {})
        self._enforcement = enforce_opt_in
        self._version = features.of_version(
            kubernetes_version,
            feature_gates,
            legacy_attach_limits=legacy_attach_limits,
            max_pd_vols=max_pd_vols,
            returning_volume_once=count_returning_volumes_once,
        )
        self._version = msgspec.structs.replace(self._version, more_rules=tuple(rules))

    @classmethod
    def of(
        cls,
        loaded: files.Loaded,
        *,
        kubernetes_version: str = "",
        feature_gates: Mapping[str, bool] | None = None,
        legacy_attach_limits: bool = False,
        max_pd_vols: int | None = None,
        count_returning_volumes_once: bool = False,
        enforce_opt_in: Enforcement | None = None,
    ) -> "Cluster":
        """A cluster of what was read; what is given here goes before what its Scenario says."""
        scenario = loaded.scenario or files.ScenarioOptions()
        cluster = cls(
            loaded.objects,
            kubernetes_version=kubernetes_version or scenario.kubernetes_version,
            feature_gates={**scenario.feature_gates, **(feature_gates or {})},
            legacy_attach_limits=legacy_attach_limits,
            max_pd_vols=max_pd_vols,
            count_returning_volumes_once=count_returning_volumes_once,
            enforce_opt_in=enforce_opt_in or options_of(scenario.options).enforcement,
            options=scenario.options,
        )
        cluster.problems = tuple(map(str, loaded.problems))
        cluster.notes = tuple(loaded.notes)
        cluster.unread = loaded.unread
        return cluster

    def with_objects(self, objects: Iterable[KubeObject]) -> "Cluster":
        """Other objects, say after a change, that are asked about in the same way."""
        other = copy.copy(self)
        other._objects = list(objects)
        other._seen = self._seen
        other.__dict__.pop("_state", None)
        return other

    @property
    def objects(self) -> list[KubeObject]:
        """What it was built from."""
        return list(self._objects)

    @cached_property
    def enforcement_remark(self) -> str:
        """Why drivers count as opted in that kube-scheduler alone would not look at."""
        return opt_in.remark(self._objects, self._version, self._enforcement)

    @cached_property
    def _seen(self) -> str:
        return opt_in.seen_in(self._objects)

    @property
    def features(self) -> Features:
        """The version and gates that pods are judged by."""
        return opt_in.settled(self._version, self._enforcement, seen=self._seen)

    @property
    def missing_classes(self) -> dict[str, tuple[str, ...]]:
        """StorageClasses that do not exist, with the claims of pending pods that ask for them."""
        if StorageClass.__name__ in self.unread:
            return {}
        return missing_classes.of(self._objects)

    @cached_property
    def _state(self) -> ClusterState:
        return ClusterState.of(self._objects, self.features)

    @property
    def _snapshot(self) -> Snapshot:
        return self._state.snapshot

    @property
    def pending(self) -> tuple[str, ...]:
        """Pods that wait for a node, in the order they came."""
        waiting = sorted(self._snapshot.pending_pods(), key=lambda record: record.order)
        return tuple(record.key for record in waiting)

    @property
    def nodes(self) -> tuple[str, ...]:
        """Names of the nodes, in the order they came."""
        return tuple(node.name for node in self._snapshot.ordered_nodes())

    @property
    def namespaces(self) -> tuple[str, ...]:
        """Namespaces that pods live in."""
        return tuple(sorted({record.meta.namespace for record in self._snapshot.pods.values()}))

    def explain(self, pod: str) -> Explanation:
        """Where the pod fits and why not elsewhere, asked alone against the cluster as it is.

        A pod that runs already is asked as if it were still pending: it is taken off its node,
        and its volumes with it, for as long as the question takes.
        """
        record = self._snapshot.pods[self.find(pod)]
        with self._taken_off(record) as taken:
            verdicts = pipeline.evaluate(self._snapshot, taken, self.features)
            return Explanation(
                pod=record.key,
                node=record.node_name,
                summary=verdicts.summary(),
                verdicts=tuple(verdicts),
            )

    def plan(
        self, options: Mapping[str, object] | None = None, *, now: float | None = None
    ) -> "PlanRecord":
        """What to buy for the pods that wait, with NodeGroups among the objects.

        `options` go before those of the cluster. `now`, in seconds since 1970, decides what is
        young; without it, it is the present.
        """
        from tonnage.api import plans

        return plans.of(self.decide(options, now=now))

    def what_if(
        self,
        *,
        limits: Mapping[str, int] | None = None,
        max_sizes: Mapping[str, int] | None = None,
        replicas: Mapping[str, int] | None = None,
        now: float | None = None,
    ) -> "WhatIfResult":
        """The plan if drivers had other attach limits, groups other largest sizes, workloads other
        numbers of replicas; a workload is named by one of its pods, `namespace/name`.
        """
        from tonnage.api import plans, what_if
        from tonnage.scaleup import plan_diff

        made = self.decide(now=now)
        what = what_if.of(limits, max_sizes, replicas)
        supposed = what_if.suppose(made.inputs, self._objects, what)
        return plans.WhatIfResult(
            plan=plans.of(supposed.decision),
            before=plans.of(made),
            difference=plan_diff.compare(made.plan, supposed.decision.plan),
            notes=supposed.notes,
        )

    def decide(
        self,
        options: Mapping[str, object] | None = None,
        *,
        now: float | None = None,
        memory: TemplateMemory | None = None,
    ) -> "Decision":
        """The plan with the templates, readiness and inputs it came from."""
        # The planner is not loaded to explain a pod or to count slots.
        from tonnage.api.decided import decided

        return decided(self.inputs(options, now=now, memory=memory))

    def scale_down(
        self,
        options: Mapping[str, object] | None = None,
        *,
        now: float | None = None,
        state: "ScaleDownState | None" = None,
        ignored_budgets: Iterable[str] = (),
        wanted: Iterable[str] = (),
    ) -> "ScaleDownPlan":
        """Which nodes can go, where their pods land, and why the others stay.

        Without a `state` the cluster has no past: times that the options do not name are 0.
        `ignored_budgets` are PodDisruptionBudgets, as namespace/name, that are taken as not there;
        `wanted` nodes are to go whatever their utilisation.
        """
        from tonnage.scaledown import decision
        from tonnage.scaledown.inputs import ScaleDownInputs

        given = {**(AT_ONCE if state is None else {}), **self._options, **(options or {})}
        inputs = self.inputs(given, now=now_of(given) if now is None else now)
        end = time.monotonic() + inputs.options.scale_down_simulation_timeout
        asked = ScaleDownInputs.of(
            inputs,
            self._objects,
            state=state,
            ignored_budgets=ignored_budgets,
            wanted=wanted,
        )
        return decision.decide(asked, out_of_time=lambda: time.monotonic() >= end).plan

    def consolidate(
        self,
        options: Mapping[str, object] | None = None,
        *,
        now: float | None = None,
        state: "ConsolidationState | None" = None,
        ignored_budgets: Iterable[str] = (),
    ) -> "ConsolidationPlan":
        """Which nodes to replace by cheaper or fewer ones, in which waves, and what that is worth.

        `state` is what a round before remembered; `ignored_budgets` are PodDisruptionBudgets, as
        namespace/name, that are taken as not there.
        """
        from tonnage.consolidation import decision
        from tonnage.consolidation.decision import ConsolidationQuestion
        from tonnage.consolidation.state import ConsolidationState
        from tonnage.scaledown.inputs import ScaleDownInputs

        given = {**AT_ONCE, **self._options, **(options or {})}
        inputs = self.inputs(given, now=now_of(given) if now is None else now)
        end = time.monotonic() + inputs.options.scale_down_simulation_timeout
        asked = ScaleDownInputs.of(inputs, self._objects, ignored_budgets=ignored_budgets)
        return decision.decide(
            ConsolidationQuestion(asked, state or ConsolidationState()),
            out_of_time=lambda: time.monotonic() >= end,
        )

    def inputs(
        self,
        options: Mapping[str, object] | None = None,
        *,
        now: float | None = None,
        memory: TemplateMemory | None = None,
    ) -> Inputs:
        """What a decision would be made from; `memory` is what nodes of groups were like before."""
        chosen = options_of({**self._options, **(options or {})})
        return Inputs.of_objects(
            self._objects,
            options=chosen,
            features=opt_in.settled(self._version, chosen.enforcement, seen=self._seen),
            now=time.time() if now is None else now,
            memory=memory,
        )

    def alike(self, pods: Iterable[str]) -> list[tuple[str, ...]]:
        """The pods, named `namespace/name`, in groups that every node answers the same."""
        records = [self._snapshot.pods[pod] for pod in pods]
        waiting = [record for record in records if not record.node_name]
        running = [(record.key,) for record in records if record.node_name]
        return [*overview.alike(self._snapshot, waiting), *running]

    def overview(self, pods: Sequence[str]) -> Overview:
        """Of pods that are alike: where they fit, and for which reasons not elsewhere."""
        record = self._snapshot.pods[self.find(pods[0])]
        with self._taken_off(record) as taken:
            return overview.overview(
                self._snapshot, taken, self.features, pods=tuple(pods), node=record.node_name
            )

    @property
    def node_labels(self) -> Mapping[str, Mapping[str, str]]:
        """The labels of every node, by its name."""
        records = self._snapshot.ordered_nodes()
        return {record.name: record.node.metadata.labels for record in records}

    def labels(self, pod: str) -> Mapping[str, str]:
        """The labels of a pod, named `namespace/name`."""
        return self._snapshot.pods[pod].meta.labels

    def slots(self) -> slots.SlotReport:
        """The attach slots of every node and driver."""
        return slots.report(self._snapshot)

    def right_size(
        self, prices: "Sequence[InstancePrice]", *, now: float, seconds: float = 5.0
    ) -> "SizeAdvice":
        """Which instance types would carry the cluster cheaper, given its volumes."""
        from tonnage.api import stranded_capacity
        from tonnage.consolidation import right_size

        inputs = Inputs.of_cluster(self._state, options=Options(), features=self.features, now=now)
        found = right_size.advise(inputs, prices, seconds=seconds)
        shares = (
            right_size.StrandedShare(
                group=one.name,
                driver=one.total.driver,
                cpu_milli=one.stranded_cpu,
                memory=one.stranded_memory,
            )
            for one in stranded_capacity.report(inputs, by="group").shares
        )
        return msgspec.structs.replace(found, stranded=tuple(shares))

    def slots_by(
        self, by: "stranded_capacity.By", *, now: float
    ) -> "stranded_capacity.StrandingReport":
        """The attach slots by node group, instance type or driver, and what they strand.

        `now`, in seconds since 1970, decides which nodes are old enough to stand for their group.
        """
        from tonnage.api import stranded_capacity

        if by not in get_args(stranded_capacity.By):
            choices = ", ".join(get_args(stranded_capacity.By))
            raise InputError(f"slots by {by!r}: expected one of {choices}")
        inputs = Inputs.of_cluster(self._state, options=Options(), features=self.features, now=now)
        return stranded_capacity.report(inputs, by=by)

    def find(self, pod: str, *, namespace: str = "") -> str:
        """`namespace/name` of the pod that is meant; `InputError` with near matches if none is."""
        known = self._snapshot.pods
        if "/" in pod or namespace:
            key = pod if "/" in pod else f"{namespace}/{pod}"
            if namespace and not key.startswith(f"{namespace}/"):
                raise InputError(f"pod {pod!r} is not in namespace {namespace!r}")
            found = [key] if key in known else []
        else:
            key = pod
            found = [one for one, record in known.items() if record.meta.name == pod]
        if len(found) == 1:
            return found[0]
        if found:
            raise InputError(f"pod {pod!r}: which of {', '.join(sorted(found))}?")
        raise InputError(self._unknown(key))

    @contextmanager
    def _taken_off(self, record: PodRecord) -> Iterator[PodRecord]:
        """The pod as if it were still pending: off its node, and its volumes with it."""
        if not record.node_name:
            yield record
            return
        snapshot = self._snapshot
        with snapshot.trial():
            for attachment in self._attachments_of(record):
                snapshot.drop_attachment(attachment)
            snapshot.drop_pod(record.meta.namespace, record.meta.name)
            yield record.moved_to("")

    def _attachments_of(self, record: PodRecord) -> list[str]:
        """Attachments to the pod's node that are there for its volumes."""
        uses = {*record.slots.uses, *record.slots.migrated}
        return [
            name
            for name, attachment in self._snapshot.attachments.items()
            if uses
            and attachment.spec.node_name == record.node_name
            and self._snapshot.storage.use_of(attachment) in uses
        ]

    def _unknown(self, pod: str) -> str:
        for obj in self._objects:
            name, key = obj.metadata.name, obj.metadata.key
            if isinstance(obj, Pod) and obj.status.phase in FINISHED and pod in (key, name):
                phase = obj.status.phase
                return f"pod {key} has finished ({phase}): there is nothing left to schedule"
        if not self._snapshot.pods:
            return f"no pod {pod!r}: there are no pods in the input"
        return f"no pod {pod!r} in the input; {alternatives(pod, self._snapshot.pods)}"
