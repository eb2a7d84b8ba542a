"""Rules between pods in numbers: spreads, anti-affinity and affinity as ties of a packing problem.

What a rule says of nodes one at a time is in the caps of the problem; here is what it says of pods
that are placed together. Pods that nodes start with are left out, so that more is allowed than is.
"""

from collections.abc import Hashable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from tonnage.objects.pods import PodAffinityTerm, TopologySpreadConstraint
from tonnage.optimise.ties import OWN, Company, Domains, KeptApart, SharedSpread, Ties
from tonnage.rules import inter_pod_affinity, node_affinity, pod_topology_spread
from tonnage.rules.features import Features
from tonnage.rules.framework import Ask
from tonnage.scaleup.candidates import Candidate
from tonnage.scaleup.pod_groups import PodGroup
from tonnage.snapshot.labels import ABSENT
from tonnage.snapshot.pod_counters import Scope
from tonnage.snapshot.rows import Bools, Ints
from tonnage.snapshot.snapshot import Snapshot


class BinRows(NamedTuple):
    """The bins of a problem: nodes of the candidates, then the rows that are there."""

    snapshot: Snapshot
    features: Features
    candidates: Sequence[Candidate]
    rows: Ints

    def ask(self, group: PodGroup) -> Ask:
        return Ask(self.snapshot, group.sample, self.features)

    def domains(self, key: str, within: Bools | None = None) -> Domains:
        """The value of a label on each bin; `OWN` where each new node has its own."""
        values = self.snapshot.columns.labels.find(key).data[self.rows].tolist()
        found: list[int | None] = [None if one == ABSENT else int(one) for one in values]
        for place, one in enumerate(self.candidates):
            if key in one.row.host_keys:
                found[place] = OWN
        if within is None:
            return tuple(found)
        return tuple(one if is_in else None for one, is_in in zip(found, within, strict=True))


def read(bins: BinRows, groups: Sequence[PodGroup]) -> Ties:
    """All that ties the pods of these groups to each other."""
    return Ties(
        spreads=tuple(_spreads(bins, groups)),
        apart=tuple(dict.fromkeys(_apart(bins, groups))),
        company=tuple(_company(bins, groups)),
    )


def counted(ask: Ask, constraint: TopologySpreadConstraint) -> Scope | None:
    """The pods that a spread counts; `None` if it counts none."""
    selector = pod_topology_spread.effective_selector(constraint, ask.pod_class)
    if selector is None or not (selector.match_labels or selector.match_expressions):
        return None
    return Scope(frozenset((ask.pod_class.namespace,)), selector)


def _covered(scopes: Sequence[Scope], groups: Sequence[PodGroup]) -> tuple[int, ...]:
    return tuple(
        item
        for item, group in enumerate(groups)
        if all(scope.covers(group.sample.pod_class) for scope in scopes)
    )


def _spreads(bins: BinRows, groups: Sequence[PodGroup]) -> Iterator[SharedSpread]:
    """Constraints that differ in nothing but the skew speak of each other's pods too."""
    limited: dict[SharedSpread, dict[int, int]] = {}
    for item, group in enumerate(groups):
        ask = bins.ask(group)
        for constraint in group.sample.pod_class.spread:
            scope = counted(ask, constraint)
            if scope is None or not scope.covers(group.sample.pod_class):
                continue
            found = pod_topology_spread.count(ask, constraint)
            wanted = constraint.min_domains or 1
            kind = SharedSpread(
                limited=(),
                counted=_covered((scope,), groups),
                domains=bins.domains(constraint.topology_key, _eligible(bins, ask, constraint)),
                heights=tuple(found.counts.tolist()),
                standing=tuple(found.registered.tolist()),
                max_skew=0,
                least_domains=wanted if wanted > found.registered.sum() else 1,
            )
            skews = limited.setdefault(kind, {})
            skews[item] = min(skews.get(item, constraint.max_skew), constraint.max_skew)
    for kind, skews in limited.items():
        for skew in sorted(set(skews.values())):
            held = tuple(item for item, own in skews.items() if own <= skew)
            yield kind._replace(limited=held, max_skew=skew)


def _eligible(bins: BinRows, ask: Ask, constraint: TopologySpreadConstraint) -> Bools:
    """BinRows whose pods the constraint counts, by the pod's own choice of nodes."""
    pod_class = ask.pod_class
    chooses = pod_class.node_affinity is not None or pod_class.node_selector
    if constraint.node_affinity_policy == "Ignore" or not chooses:
        return np.ones(len(bins.rows), dtype=np.bool_)
    return node_affinity.matching(bins.snapshot, ask.pod)[bins.rows]


def _apart(bins: BinRows, groups: Sequence[PodGroup]) -> Iterator[KeptApart]:
    for item, group in enumerate(groups):
        ask = bins.ask(group)
        for term in group.sample.pod_class.anti_affinity:
            domains = bins.domains(term.topology_key)
            for other in _covered((inter_pod_affinity.scope_of(ask, term),), groups):
                yield KeptApart(min(item, other), max(item, other), domains)


def _company(bins: BinRows, groups: Sequence[PodGroup]) -> Iterator[Company]:
    seeking: dict[Hashable, Company] = {}
    for item, group in enumerate(groups):
        terms = group.sample.pod_class.affinity
        if not terms:
            continue
        scopes = [inter_pod_affinity.scope_of(bins.ask(group), term) for term in terms]
        if any(
            all(scope.covers(held.pod_class) for scope in scopes)
            for one in bins.candidates
            for held in one.row.starting
        ):
            continue
        sought = _covered(scopes, groups)
        for found in _sought(bins, terms, scopes, starts=item in sought):
            # Only those that are sought themselves can stand for each other.
            key = found._replace(sought=sought), item if item not in sought else None
            before = seeking.get(key, found._replace(sought=sought))
            seeking[key] = before._replace(items=(*before.items, item))
    yield from seeking.values()


def _sought(
    bins: BinRows, terms: Sequence[PodAffinityTerm], scopes: Sequence[Scope], *, starts: bool
) -> Iterator[Company]:
    """For each label: where pods are that match all terms."""
    snapshot = bins.snapshot
    counter = snapshot.counters.counter(tuple(scopes), terminating=True)
    matching = np.flatnonzero(counter.column.data[: snapshot.table.size] > 0)
    columns = {
        key: snapshot.columns.labels.find(key)
        for key in dict.fromkeys(term.topology_key for term in terms)
    }
    there = {key: set(column.data[matching].tolist()) - {ABSENT} for key, column in columns.items()}
    anywhere = any(there.values())
    for key, column in columns.items():
        yield Company(
            items=(),
            sought=(),
            domains=bins.domains(key),
            there=tuple(value in there[key] for value in range(len(column.values))),
            starts=starts and not anywhere,
        )
