"""A variant asked: figures to compare, and on request the whole answer.

What several variants share is made once: the cluster after changes of its objects is kept while
only bounds and prices of groups or the seed differ.
"""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import msgspec

from tonnage.api import Cluster, plan_documents
from tonnage.api.decided import decided
from tonnage.errors import InputError
from tonnage.files import Loaded
from tonnage.groups import node_group_objects
from tonnage.groups.inputs import Inputs
from tonnage.groups.memory import TemplateMemory
from tonnage.groups.options import typed
from tonnage.objects.kinds import KubeObject
from tonnage.objects.scenarios import NodeGroup
from tonnage.scaledown import suppositions
from tonnage.scaleup import assessment, group_changes, whatif
from tonnage.scaleup.decision import Decision
from tonnage.scaleup.group_changes import SetMaxSize, SetMinSize, SetPrice
from tonnage.sweep.bundle import SweepBundle
from tonnage.sweep.variants import Variant

Answer: TypeAlias = dict[str, Any]
"""`figures`, by name, and whatever else is to be told of a variant."""

_STATES_KEPT = 4


class PreparedSweep:
    """Answers for variants of a sweep; what it keeps changes no answer."""

    def __init__(self, bundle: SweepBundle) -> None:
        self.definition = bundle.definition
        self.space = bundle.definition.space()
        self._bundle = bundle
        self._clusters = [
            _PlannedCluster(one, bundle) if isinstance(one, Loaded) else None
            for one in bundle.clusters
        ]

    def answer(self, variant: Variant) -> Answer:
        """What is to be said of a variant; `InputError` if it cannot be."""
        ask = self.definition.ask
        if ask in ("simulate", "explore"):
            # What plays clusters is not loaded to plan for one.
            from tonnage.sweep import played

            simulation = self._bundle.clusters[variant.cluster]
            return played.answer(ask, simulation, variant, whole=self.definition.whole_answers)
        cluster = self._clusters[variant.cluster]
        assert cluster is not None
        if ask == "plan":
            made = cluster.decided(variant.changes)
            found = _of_plan(made)
            if self.definition.whole_answers:
                found["plan"] = plan_documents.plan(made)
            return found
        return cluster.scale_down(variant.changes, whole=self.definition.whole_answers)


class _Sorted(NamedTuple):
    """The changes of a variant by what they touch."""

    objects: tuple[str, ...]
    groups: tuple[SetMaxSize | SetMinSize | SetPrice, ...]
    options: tuple[tuple[str, str], ...]
    seed: int | None


class _PlannedCluster:
    """One cluster of objects. `_kept` are inputs by the changes that they were built with."""

    def __init__(self, loaded: Loaded, bundle: SweepBundle) -> None:
        self._cluster = Cluster.of(loaded)
        self._objects = loaded.objects
        self._added = bundle.added
        self._now = bundle.definition.now
        self._kept: OrderedDict[object, Inputs] = OrderedDict()

    def decided(self, changes: Sequence[str]) -> Decision:
        asked = _sorted(changes)
        inputs = self._inputs(asked.objects, asked.options)
        if asked.groups:
            inputs = _with_groups(inputs, asked.groups)
        if asked.seed is not None:
            options = msgspec.structs.replace(inputs.options, random_seed=asked.seed)
            inputs = msgspec.structs.replace(inputs, options=options)
        return decided(inputs)

    def scale_down(self, changes: Sequence[str], *, whole: bool) -> Answer:
        supposed = suppositions.supposed(changes)
        asked = _sorted(supposed.rest)
        objects = self._changed(asked.objects)
        for change in asked.groups:
            objects = whatif.apply(objects, [change]).objects
        suppositions.check(objects, supposed)
        plan = self._cluster.with_objects(objects).scale_down(
            typed(dict(asked.options)),
            now=self._now,
            ignored_budgets=supposed.ignored_budgets,
            wanted=supposed.wanted,
        )
        gone = sum(one.goes for one in plan.nodes)
        saved = plan.saves_per_hour
        figures = {
            "nodesRemoved": gone,
            "nodesLeft": len(plan.nodes) - gone,
            "savesPerHour": float(saved) if saved is not None else None,
            "podsMoved": sum(len(one.moves) for one in plan.nodes if one.goes),
        }
        return {"figures": figures, **({"plan": msgspec.to_builtins(plan)} if whole else {})}

    def _inputs(self, changes: tuple[str, ...], options: tuple[tuple[str, str], ...]) -> Inputs:
        key = changes, options
        found = self._kept.get(key)
        if found is None:
            found = self._kept[key] = self._built(changes, options)
            if len(self._kept) > _STATES_KEPT:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return found

    def _built(self, changes: tuple[str, ...], options: tuple[tuple[str, str], ...]) -> Inputs:
        given = typed(dict(options))
        cluster = self._cluster.with_objects(self._changed(changes)) if changes else self._cluster
        memory: TemplateMemory | None = None
        if any(one.startswith("remove-node=") for one in changes):
            # What nodes of a group look like when its last one is gone.
            kept = tuple(one for one in changes if not one.startswith("remove-node="))
            before = self._cluster.with_objects(self._changed(kept))
            inputs = before.inputs(given, now=self._now)
            memory = assessment.assess(inputs).templates.memory
        return cluster.inputs(given, now=self._now, memory=memory)

    def _changed(self, changes: tuple[str, ...]) -> list[KubeObject]:
        parsed = [whatif.parse(one, read=self._added.__getitem__) for one in changes]
        return whatif.apply(self._objects, parsed).objects if parsed else list(self._objects)


def _sorted(changes: Sequence[str]) -> _Sorted:
    objects: list[str] = []
    groups: list[SetMaxSize | SetMinSize | SetPrice] = []
    options: list[tuple[str, str]] = []
    seed: int | None = None
    for text in changes:
        name, _, value = text.partition("=")
        if name == "seed":
            seed = seed_of(text)
        elif name == "option":
            option, _, setting = value.rpartition(":")
            options.append((option, setting))
        elif name == "duration":
            raise InputError(f"{text}: goes with simulations")
        else:
            about_group = group_changes.parse(text)
            if about_group is None:
                objects.append(text)
            else:
                groups.append(about_group)
    return _Sorted(tuple(objects), tuple(groups), tuple(options), seed)


def seed_of(text: str) -> int:
    """The number in `seed=N`."""
    value = text.partition("=")[2]
    if not value.isascii() or not value.removeprefix("-").isdigit():
        raise InputError(f"{text}: expected a whole number")
    return int(value)


def _with_groups(inputs: Inputs, changes: Sequence[SetMaxSize | SetMinSize | SetPrice]) -> Inputs:
    """Other groups on the same cluster: its columns are not built again."""
    declared: list[NodeGroup] = list(inputs.cluster.node_groups)
    for change in changes:
        declared = group_changes.apply(declared, change)
    return msgspec.structs.replace(
        inputs,
        groups=tuple(node_group_objects.from_objects(declared, inputs.cluster.nodes)),
        cluster=msgspec.structs.replace(inputs.cluster, node_groups=declared),
    )


def _of_plan(made: Decision) -> Answer:
    plan = made.plan
    figures = {
        "nodesBought": sum(one.delta for one in plan.scale_ups),
        "costPerHour": plan_documents.cost_of(made).in_all,
        "podsOnNewNodes": sum(len(node.pods) for one in plan.scale_ups for node in one.nodes),
        "podsOnExisting": len(plan.all_on_existing),
        "podsLeftOut": len(plan.not_helped),
        "leastNodes": plan.bounds.nodes,
    }
    bought = {one.group: one.delta for one in plan.scale_ups}
    return {"figures": figures, "bought": bought, **({"partial": True} if plan.partial else {})}
