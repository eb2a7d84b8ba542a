"""What is wrong with objects that are used all the same, for somebody to hear of it.

An API server of today would have refused it. kube-scheduler goes on with such an object, each in
its own way, and so do the filters; but nobody would learn why a pod fits nowhere. It is looked for
in every object that the watch tells of, so that what is usual costs next to nothing.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from tonnage.objects import selectors
from tonnage.objects.meta import LabelSelector
from tonnage.objects.pods import Affinity, NodeSelectorTerm, Pod, PodAffinityTerm, PodSpec
from tonnage.objects.resources import valid_qualified_name
from tonnage.objects.storage import (
    OPT_IN_ALIAS,
    OPT_IN_FIELD,
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from tonnage.objects.validation import Fault, Path, describe
from tonnage.objects.workloads import DaemonSet

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_BINDING_MODES = ("Immediate", "WaitForFirstConsumer")
_UNSATISFIABLE = ("DoNotSchedule", "ScheduleAnyway")
_OPERATORS = ("", "Equal", "Exists", "Lt", "Gt")
_EFFECTS = ("", "NoSchedule", "PreferNoSchedule", "NoExecute")


def first_oddity(obj: object) -> Fault | None:
    """The first thing wrong with the object, `None` for a good one."""
    look = _LOOKS.get(type(obj))
    return next(look(obj), None) if look is not None else None


def _pod(pod: Pod) -> Iterator[Fault]:
    yield from _pod_spec(pod.spec, ("spec",))


def _daemon_set(workload: DaemonSet) -> Iterator[Fault]:
    yield from _pod_spec(workload.spec.template.spec, ("spec", "template", "spec"))


def _pod_spec(spec: PodSpec, at: Path) -> Iterator[Fault]:
    if spec.affinity is not None:
        yield from _affinity(spec.affinity, (*at, "affinity"))
    for position, constraint in enumerate(spec.topology_spread_constraints):
        here = (*at, "topologySpreadConstraints", position)
        yield from _selector(constraint.label_selector, (*here, "labelSelector"))
        when = constraint.when_unsatisfiable
        if when not in _UNSATISFIABLE:
            yield _choice((*here, "whenUnsatisfiable"), _UNSATISFIABLE, when)
    for position, toleration in enumerate(spec.tolerations):
        if toleration.operator not in _OPERATORS:
            path = (*at, "tolerations", position, "operator")
            yield _choice(path, _OPERATORS[1:], toleration.operator)
        if toleration.effect not in _EFFECTS:
            path = (*at, "tolerations", position, "effect")
            yield _choice(path, _EFFECTS[1:], toleration.effect)


def _affinity(affinity: Affinity, at: Path) -> Iterator[Fault]:
    if affinity.node_affinity is not None and affinity.node_affinity.required is not None:
        terms = affinity.node_affinity.required.node_selector_terms
        yield from _terms(terms, (*at, "nodeAffinity", _REQUIRED))
    for name, one in (
        ("podAffinity", affinity.pod_affinity),
        ("podAntiAffinity", affinity.pod_anti_affinity),
    ):
        for position, term in enumerate(one.required if one is not None else ()):
            yield from _pod_term(term, (*at, name, _REQUIRED, position))


def _pod_term(term: PodAffinityTerm, at: Path) -> Iterator[Fault]:
    yield from _selector(term.label_selector, (*at, "labelSelector"))
    yield from _selector(term.namespace_selector, (*at, "namespaceSelector"))
    if not term.topology_key:
        yield Fault((*at, "topologyKey"), "the key of a label", "none")


def _terms(terms: tuple[NodeSelectorTerm, ...], at: Path) -> Iterator[Fault]:
    """An empty term is no oddity: it matches nothing, and may."""
    for position, term in enumerate(terms):
        if selectors.valid_term(term) or not (term.match_expressions or term.match_fields):
            continue
        here = (*at, "nodeSelectorTerms", position)
        for field, parts in (
            ("matchExpressions", [NodeSelectorTerm(match_expressions=(r,))
                                  for r in term.match_expressions]),
            ("matchFields", [NodeSelectorTerm(match_fields=(r,)) for r in term.match_fields]),
        ):  # fmt: skip
            for number, part in enumerate(parts):
                if not selectors.valid_term(part):
                    (one,) = (*part.match_expressions, *part.match_fields)
                    found = f"{one.key} {one.operator} {list(one.values)}"
                    yield Fault((*here, field, number), "something that can match", found)


def _selector(selector: LabelSelector | None, at: Path) -> Iterator[Fault]:
    try:
        selectors.check(selector)
    except selectors.SelectorError as error:
        yield Fault(at, "a label selector", f"none: {error}")


def _volume(volume: PersistentVolume) -> Iterator[Fault]:
    affinity = volume.spec.node_affinity
    if affinity is not None and affinity.required is not None:
        here = ("spec", "nodeAffinity", "required")
        yield from _terms(affinity.required.node_selector_terms, here)


def _claim(claim: PersistentVolumeClaim) -> Iterator[Fault]:
    yield from _selector(claim.spec.selector, ("spec", "selector"))


def _csi_driver(driver: CSIDriver) -> Iterator[Fault]:
    if driver.spec.prevent_pod_placement_without_driver is not None:
        yield Fault(("spec", OPT_IN_ALIAS), OPT_IN_FIELD, "the name that the enhancement gives it")


def _csi_node(csi_node: CSINode) -> Iterator[Fault]:
    names = Counter(driver.name for driver in csi_node.spec.drivers)
    for position, driver in enumerate(csi_node.spec.drivers):
        if names[driver.name] > 1:
            path = ("spec", "drivers", position, "name")
            yield Fault(path, "each driver once", f"{describe(driver.name)} more than once")


def _capacity(capacity: CSIStorageCapacity) -> Iterator[Fault]:
    yield from _selector(capacity.node_topology, ("nodeTopology",))


def _storage_class(storage_class: StorageClass) -> Iterator[Fault]:
    mode = storage_class.volume_binding_mode
    if mode is not None and mode not in _BINDING_MODES:
        yield _choice(("volumeBindingMode",), _BINDING_MODES, mode)
    for position, term in enumerate(storage_class.allowed_topologies):
        for number, one in enumerate(term.match_label_expressions):
            here: Path = ("allowedTopologies", position, "matchLabelExpressions", number)
            if not valid_qualified_name(one.key):
                yield Fault((*here, "key"), "the key of a label", describe(one.key))
            if not one.values:
                yield Fault((*here, "values"), "at least one value", "none")


def _choice(path: Path, allowed: tuple[str, ...], found: str) -> Fault:
    return Fault(path, " or ".join(allowed), describe(found))


_LOOKS: dict[type, Callable[[Any], Iterator[Fault]]] = {
    Pod: _pod,
    DaemonSet: _daemon_set,
    PersistentVolume: _volume,
    PersistentVolumeClaim: _claim,
    CSIDriver: _csi_driver,
    CSINode: _csi_node,
    CSIStorageCapacity: _capacity,
    StorageClass: _storage_class,
}
