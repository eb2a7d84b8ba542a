"""PodTopologySpread: matching pods stay spread over the values of a node label."""

from collections.abc import Iterator
from functools import partial

import msgspec
import numpy as np

from tonnage.objects import selectors
from tonnage.objects.meta import LabelRequirement, LabelSelector
from tonnage.objects.pods import TopologySpreadConstraint
from tonnage.rules import node_affinity
from tonnage.rules.caps import PLENTY, CapsBuilder, CapStep
from tonnage.rules.causes import Cause, Reason
from tonnage.rules.framework import (
    SKIP,
    Ask,
    Aspect,
    Code,
    EventKind,
    NodeResults,
    Outcome,
    PreFilter,
    Rejection,
    Rule,
    single,
)
from tonnage.snapshot.bulk_pods import Footprint
from tonnage.snapshot.classes import PodClass
from tonnage.snapshot.imagined import TemplateRow
from tonnage.snapshot.labels import ABSENT
from tonnage.snapshot.pod_counters import Scope, selects
from tonnage.snapshot.rows import Bools, Ints
from tonnage.snapshot.snapshot import PodRecord, Snapshot

_CONTEXT = "get constraints from pod: obtaining pod's hard topology spread constraints"


class PodTopologySpread(Rule):
    name = "PodTopologySpread"
    about = frozenset({Aspect.OTHER_PODS})
    cures = (
        EventKind.POD_ADDED,
        EventKind.POD_DELETED,
        EventKind.POD_LABELLED,
        EventKind.NODE_ADDED,
        EventKind.NODE_DELETED,
        EventKind.NODE_LABELLED,
    )

    def pre_filter(self, ask: Ask) -> Outcome:
        if not ask.pod_class.spread:
            return SKIP
        try:
            for constraint in ask.pod_class.spread:
                selectors.check(constraint.label_selector)
        except selectors.SelectorError as error:
            return Rejection(
                Code.ERROR,
                Cause.SELECTOR_INVALID,
                context=_CONTEXT,
                detail=str(error),
            )
        return PreFilter(lambda: _results(ask))

    def caps(self, ask: Ask, template: TemplateRow) -> Iterator[CapStep]:
        for constraint in ask.pod_class.spread:
            yield partial(_cap, constraint=constraint)

    def depends_on_others(self, ask: Ask, footprint: Footprint) -> bool:
        return bool(ask.pod_class.spread)

    def helps(self, event: EventKind, subject: object, pod: PodRecord, snapshot: Snapshot) -> bool:
        if event is not EventKind.POD_ADDED or not isinstance(subject, PodRecord):
            return True
        labels = subject.meta.labels
        return any(selects(one.label_selector, labels) for one in pod.pod_class.spread)


class Domains(msgspec.Struct, frozen=True):
    """Matching pods per value of the topology label; index 0 is "no label"."""

    of_row: Ints
    counts: Ints
    registered: Bools
    smallest: int
    self_match: int


def _results(ask: Ask) -> NodeResults:
    size = ask.size
    codes = np.zeros(size, dtype=np.int8)
    decided = np.zeros(size, dtype=np.bool_)
    refused_by: list[tuple[TopologySpreadConstraint, Bools, Bools, Domains]] = []
    for constraint in ask.pod_class.spread:
        if decided.all():
            break
        domains = count(ask, constraint)
        unlabelled = (domains.of_row == ABSENT) & ~decided
        skew = domains.counts[domains.of_row] + domains.self_match - domains.smallest
        skewed = (skew > constraint.max_skew) & ~unlabelled & ~decided
        codes[unlabelled] = Code.UNRESOLVABLE
        codes[skewed] = Code.UNSCHEDULABLE
        decided |= unlabelled | skewed
        refused_by.append((constraint, unlabelled, skewed, domains))

    def reasons(row: int) -> tuple[Reason, ...]:
        for constraint, unlabelled, skewed, domains in refused_by:
            if unlabelled[row]:
                return single(Cause.SPREAD_LABEL_MISSING, key=constraint.topology_key)
            if skewed[row]:
                return single(
                    Cause.SPREAD_SKEW,
                    key=constraint.topology_key,
                    count=int(domains.counts[domains.of_row[row]]),
                    smallest=domains.smallest,
                    limit=constraint.max_skew,
                )
        raise AssertionError("a row that is not refused has no reasons")

    return NodeResults(codes, reasons)


def count(ask: Ask, constraint: TopologySpreadConstraint) -> Domains:
    """Matching pods in every domain of a constraint, as a new pod of the class would see them."""
    snapshot, size = ask.snapshot, ask.size
    column = snapshot.columns.labels.find(constraint.topology_key)
    of_row = column.data[:size].astype(np.int64)
    eligible = _eligible(ask, constraint)
    selector = effective_selector(constraint, ask.pod_class)
    width = len(column.values)
    registered = np.zeros(width, dtype=np.bool_)
    registered[of_row[eligible]] = True
    if selector == LabelSelector():
        # An empty selector matches every pod, but upstream counts none for it.
        counts = np.zeros(width, dtype=np.int64)
    else:
        scope = Scope(frozenset((ask.pod_class.namespace,)), selector)
        matching = snapshot.counters.counter((scope,), terminating=False)
        counts = np.bincount(
            of_row[eligible], weights=matching.column.data[:size][eligible], minlength=width
        ).astype(np.int64)
    found = int(registered.sum())
    enough = found >= (constraint.min_domains or 1)
    return Domains(
        of_row,
        counts,
        registered,
        int(counts[registered].min()) if found and enough else 0,
        int(selectors.matches(selector, ask.pod_class.labels)),
    )


def effective_selector(
    constraint: TopologySpreadConstraint, pod_class: PodClass
) -> LabelSelector | None:
    """The constraint's selector with the pod's own values of its match label keys."""
    selector = constraint.label_selector
    own = tuple(
        LabelRequirement(key=key, operator="In", values=(pod_class.labels[key],))
        for key in constraint.match_label_keys
        if key in pod_class.labels
    )
    if selector is None or not own:
        return selector
    return LabelSelector(
        match_labels=selector.match_labels, match_expressions=selector.match_expressions + own
    )


def _eligible(ask: Ask, constraint: TopologySpreadConstraint) -> Bools:
    """Rows whose pods count: they have every constraint's label and pass its policies."""
    snapshot = ask.snapshot
    mask = ask.spread_rows
    if constraint.node_affinity_policy != "Ignore" and (
        ask.pod_class.node_affinity is not None or ask.pod_class.node_selector
    ):
        mask = mask & node_affinity.matching(snapshot, ask.pod)
    if constraint.node_taints_policy == "Honor":
        mask = mask & snapshot.columns.tolerated(
            ask.pod_class.tolerations, comparing=ask.features.taint_comparison_operators
        )
    return mask


# On new nodes


def _cap(caps: CapsBuilder, constraint: TopologySpreadConstraint) -> None:
    """What a constraint allows on new nodes."""
    key = constraint.topology_key
    domains = count(caps.ask, constraint)
    own = caps.label(key)
    selector = effective_selector(constraint, caps.ask.pod_class)
    if caps.starts_with(Scope(frozenset((caps.ask.pod_class.namespace,)), selector)):
        # Every node brings a pod that counts.
        caps.depends_on_node_count = caps.needs_pod_by_pod = True
    if own == ABSENT:
        caps.refuse()
    elif key in caps.host_keys:
        caps.depends_on_node_count = True
        _cap_hosts(caps, constraint, domains)
    else:
        _cap_domain(caps, constraint, domains, own)


def _cap_domain(
    caps: CapsBuilder,
    constraint: TopologySpreadConstraint,
    domains: Domains,
    own: int,
) -> None:
    """All new rows are in one domain: it may grow to the skew above the lowest other."""
    count = int(domains.counts[own])
    others = domains.registered.copy()
    others[own] = False
    lowest = int(domains.counts[others].min(initial=PLENTY))
    if int(others.sum()) + 1 < (constraint.min_domains or 1):
        lowest = 0
    if domains.self_match:
        caps.total = min(caps.total, max(constraint.max_skew + lowest - count, 0))
    elif count - min(lowest, count) > constraint.max_skew:
        caps.refuse()


def _cap_hosts(caps: CapsBuilder, constraint: TopologySpreadConstraint, domains: Domains) -> None:
    """Each new row is a domain of its own."""
    new = domains.of_row[caps.rows]
    others = domains.registered.copy()
    others[new] = False
    lowest = int(domains.counts[others].min(initial=PLENTY))
    if int(others.sum()) + max(len(new), 1) < (constraint.min_domains or 1):
        lowest = 0
    here = domains.counts[new]
    if not domains.self_match:
        floor = min(lowest, int(here.min(initial=PLENTY)))
        caps.on_row[here - floor > constraint.max_skew] = 0
    elif caps.max_skew is None:
        caps.max_skew, caps.global_minimum, caps.heights = constraint.max_skew, lowest, here
    elif (caps.heights == here).all():
        caps.max_skew = min(caps.max_skew, constraint.max_skew)
        caps.global_minimum = min(caps.global_minimum, lowest)
    else:
        caps.needs_pod_by_pod = True
