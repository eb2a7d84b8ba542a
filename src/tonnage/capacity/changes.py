"""From what is published to what should be: the least that has to be sent.

Class and selector of an object cannot be changed, so where they differ it is deleted and made
anew; everything else is patched. What is no longer wanted goes last.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

from tonnage.capacity import conventions, observed_sizes
from tonnage.capacity.desired import CapacityProblem, Desired, ProblemReason, Rules, is_ours
from tonnage.capacity.observed_sizes import LEARNED_ANNOTATION
from tonnage.objects import selectors
from tonnage.objects.storage import CSIStorageCapacity


class Create(NamedTuple):
    object: CSIStorageCapacity


class Patch(NamedTuple):
    """`change` is a merge patch of what differs."""

    old: CSIStorageCapacity
    object: CSIStorageCapacity
    change: dict[str, Any]


class Replace(NamedTuple):
    old: CSIStorageCapacity
    object: CSIStorageCapacity


class Delete(NamedTuple):
    old: CSIStorageCapacity


Step: TypeAlias = Create | Patch | Replace | Delete


def name_of(step: Step) -> str:
    return step.old.metadata.name if isinstance(step, Delete) else step.object.metadata.name


class Changes(NamedTuple):
    steps: list[Step]
    problems: tuple[CapacityProblem, ...]


def changes(wanted: Desired, there: Mapping[str, CSIStorageCapacity], rules: Rules) -> Changes:
    """Steps for the objects of our namespace, by name; objects of others are never touched."""
    steps: list[Step] = []
    problems: list[CapacityProblem] = []
    for name, entry in wanted.entries.items():
        old = there.get(name)
        if old is None:
            steps.append(Create(entry.object))
        elif not is_ours(old, rules):
            problems.append(_taken(old))
        elif (step := _step(old, entry.object)) is not None:
            steps.append(step)
    steps.extend(
        Delete(old)
        for name, old in there.items()
        if name not in wanted.entries
        and is_ours(old, rules)
        and old.storage_class_name not in wanted.kept
    )
    return Changes(steps, tuple(problems))


def removals(there: Iterable[CSIStorageCapacity], rules: Rules) -> list[Delete]:
    """Everything of ours."""
    return [Delete(old) for old in there if is_ours(old, rules)]


def _step(old: CSIStorageCapacity, new: CSIStorageCapacity) -> Step | None:
    same_place = old.storage_class_name == new.storage_class_name and (
        selectors.canonical(old.node_topology) == selectors.canonical(new.node_topology)
    )
    if not same_place:
        return Replace(old, new)
    change = _difference(old, new)
    return Patch(old, new, change) if change else None


def _difference(old: CSIStorageCapacity, new: CSIStorageCapacity) -> dict[str, Any]:
    change: dict[str, Any] = {}
    meta: dict[str, Any] = {}
    labels = _merging(old.metadata.labels, new.metadata.labels)
    if labels:
        meta["labels"] = labels
    # Only one annotation is ours; others may note what they like.
    noted = new.metadata.annotations.get(LEARNED_ANNOTATION)
    if old.metadata.annotations.get(LEARNED_ANNOTATION) != noted:
        meta["annotations"] = {LEARNED_ANNOTATION: noted}
    if meta:
        change["metadata"] = meta
    if not observed_sizes.same(old.capacity, new.capacity):
        change["capacity"] = new.capacity
    if not observed_sizes.same(old.maximum_volume_size, new.maximum_volume_size):
        change["maximumVolumeSize"] = new.maximum_volume_size
    return change


def _merging(old: Mapping[str, str], new: Mapping[str, str]) -> dict[str, str | None]:
    """A merge patch that leaves exactly the new labels."""
    gone: dict[str, str | None] = {key: None for key in old if key not in new}
    return gone | {key: value for key, value in new.items() if old.get(key) != value}


def _taken(old: CSIStorageCapacity) -> CapacityProblem:
    meta = old.metadata
    pair = conventions.pair_of(old)
    about = f" for class {pair[0]}" if pair is not None else ""
    message = (
        f"CSIStorageCapacity {meta.key} is wanted, and somebody else has"
        f" published one under that name{about}; it is left alone"
    )
    return CapacityProblem(reason=ProblemReason.CONFLICT, message=message)
