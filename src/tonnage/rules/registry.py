"""All rules in the order they are asked, and what they come to together."""

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

import numpy as np

from tonnage.rules.caps import Caps, CapsBuilder
from tonnage.rules.features import Features
from tonnage.rules.framework import Ask, Aspect, Count, Measure, Need, Rule
from tonnage.rules.inter_pod_affinity import InterPodAffinity
from tonnage.rules.node_affinity import NodeAffinityRule
from tonnage.rules.node_declared_features import NodeDeclaredFeatures
from tonnage.rules.node_name import NodeName
from tonnage.rules.node_ports import NodePorts
from tonnage.rules.node_resources_fit import NodeResourcesFit
from tonnage.rules.node_unschedulable import NodeUnschedulable
from tonnage.rules.node_volume_limits import NodeVolumeLimits
from tonnage.rules.pod_topology_spread import PodTopologySpread
from tonnage.rules.slot_pools import SlotPools
from tonnage.rules.taint_toleration import TaintToleration
from tonnage.rules.volume_binding import VolumeBinding
from tonnage.rules.volume_restrictions import VolumeRestrictions
from tonnage.rules.volume_zone import VolumeZone
from tonnage.snapshot.bulk_pods import Footprint
from tonnage.snapshot.classes import PodClass
from tonnage.snapshot.imagined import TemplateRow
from tonnage.snapshot.rows import Bools, Ints, RowIndex, Rows
from tonnage.snapshot.snapshot import Snapshot

KUBE_SCHEDULER: tuple[Rule, ...] = (
    NodeName(),
    NodeUnschedulable(),
    TaintToleration(),
    NodeAffinityRule(),
    NodePorts(),
    NodeResourcesFit(),
    VolumeRestrictions(),
    NodeVolumeLimits(),
    VolumeBinding(),
    VolumeZone(),
    PodTopologySpread(),
    InterPodAffinity(),
    NodeDeclaredFeatures(),
)
"""In the order of 1.37."""

_BEFORE_1_37 = (KUBE_SCHEDULER[1], KUBE_SCHEDULER[0], *KUBE_SCHEDULER[2:])
_OURS: tuple[Rule, ...] = (SlotPools(),)


def kube_scheduler(features: Features) -> tuple[Rule, ...]:
    """kube-scheduler's rules in the order the version runs them."""
    return KUBE_SCHEDULER if features.node_name_first else _BEFORE_1_37


def ours(features: Features) -> tuple[Rule, ...]:
    """Rules that kube-scheduler does not have; they skip where nobody set up what they look at."""
    return (*_OURS, *features.more_rules)


@lru_cache(maxsize=64)
def rules(features: Features) -> tuple[Rule, ...]:
    """Every rule, in the order they are asked."""
    return (*kube_scheduler(features), *ours(features))


@lru_cache(maxsize=64)
def by_name(features: Features) -> dict[str, Rule]:
    return {rule.name: rule for rule in rules(features)}


@lru_cache(maxsize=64)
def names_about(features: Features, aspect: Aspect) -> frozenset[str]:
    """The names of the rules whose refusals are about this."""
    return frozenset(rule.name for rule in rules(features) if aspect in rule.about)


@lru_cache(maxsize=64)
def _overriding(features: Features, method: str) -> tuple[Rule, ...]:
    """The rules that have something to say to a question."""
    default = getattr(Rule, method)
    return tuple(rule for rule in rules(features) if getattr(type(rule), method) is not default)


def room(snapshot: Snapshot, footprint: Footprint, rows: Rows, features: Features) -> Ints:
    """How many more such pods there is room for on each row, by count alone."""
    least: Ints | None = None
    for rule in _overriding(features, "room"):
        here = rule.room(snapshot, footprint, rows)
        if here is not None:
            least = here if least is None else np.minimum(least, here)
    assert least is not None, "a node has room for so many pods"
    return np.maximum(least, 0)


def counts(
    snapshot: Snapshot, footprint: Footprint, rows: Rows, features: Features
) -> list[Count] | None:
    """What `room` comes from on each row; `None` where that is more than counting on the row.

    Rules between pods are not in it.
    """
    found: list[Count] = []
    for rule in _overriding(features, "room"):
        here = rule.counts(snapshot, footprint, rows)
        if here is None:
            return None
        found += here
    return found


def within_shared(
    snapshot: Snapshot, footprint: Footprint, room: Ints, rows: RowIndex, features: Features
) -> Ints:
    """The room of the rows, cut where rows before have used up what they share."""
    for rule in _overriding(features, "within_shared"):
        room = rule.within_shared(snapshot, footprint, room, rows)
    return room


def amounts(snapshot: Snapshot, footprint: Footprint, features: Features) -> dict[str, int]:
    """What one such pod takes, by resource."""
    found: dict[str, int] = {}
    for rule in _overriding(features, "footprint"):
        found.update(rule.footprint(snapshot, footprint))
    return found


def measures(snapshot: Snapshot, rows: Rows, features: Features) -> Iterator[Measure]:
    """How full the rows are of everything that is counted."""
    for rule in _overriding(features, "measures"):
        yield from rule.measures(snapshot, rows)


def needs(ask: Ask) -> Iterable[Need]:
    """What the pod would newly take on each row, of what is set aside for pods by name."""
    return (need for rule in _overriding(ask.features, "needs") for need in rule.needs(ask))


def alone_on_node(
    pod_class: PodClass, templates: Sequence[TemplateRow], features: Features
) -> Bools | None:
    """Templates on a node of which no two such pods go, whatever room it has; `None`: none."""
    found: Bools | None = None
    for rule in _overriding(features, "alone_on_node"):
        alone = rule.alone_on_node(pod_class, templates)
        if alone is not None:
            found = alone if found is None else found | alone
    return found


def place(ask: Ask, row: int) -> None:
    """Put the very pod on a row, with all that it takes there; taken back with the trial.

    For pods whose volumes must be followed by name; others are placed in bulk, by
    `imagined.place`.
    """
    for rule in _overriding(ask.features, "take"):
        rule.take(ask, row)
    ask.snapshot.place(ask.pod, ask.snapshot.name_of(row))


def depends_on_others(ask: Ask, footprint: Footprint) -> bool:
    """Whether where such pods fit may change with where pods of other groups go."""
    return any(
        rule.depends_on_others(ask, footprint)
        for rule in _overriding(ask.features, "depends_on_others")
    )


def caps(ask: Ask, template: TemplateRow, rows: slice) -> Caps | None:
    """What other pods allow on the rows of new nodes, and on more of them; `None`: anything."""
    builder: CapsBuilder | None = None
    for rule in _overriding(ask.features, "caps"):
        for step in rule.caps(ask, template):
            if builder is None:
                builder = CapsBuilder(ask, template, rows)
            step(builder)
            if builder.none_fit:
                # What else there is to say makes no difference; it may be thousands of terms.
                return builder.build()
    return None if builder is None else builder.build()
