"""Node groups a plan may buy from, with their templates in the snapshot as shadow rows."""

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence

import msgspec
import numpy as np

from tonnage.groups.model import Group, Template
from tonnage.groups.options import Options
from tonnage.objects import quantities
from tonnage.objects.labels import HOSTNAME
from tonnage.objects.meta import ObjectMeta
from tonnage.objects.storage import CSINode
from tonnage.rules import inter_pod_affinity, pipeline, registry
from tonnage.rules.features import Features
from tonnage.rules.framework import Ask, Aspect, Code, Measure
from tonnage.rules.pipeline import Verdicts
from tonnage.scaleup import balancing, expanders, packed_counts, pod_groups
from tonnage.scaleup.bounds import Supply
from tonnage.scaleup.orders import Shares
from tonnage.scaleup.packed_counts import CountedPacking, Demands
from tonnage.scaleup.pod_groups import PodGroup
from tonnage.snapshot import imagined
from tonnage.snapshot.imagined import Footprint, TemplateRow
from tonnage.snapshot.rows import Bools, Ints
from tonnage.snapshot.slots import UNLIMITED
from tonnage.snapshot.snapshot import Snapshot

_SUCCESS = int(Code.SUCCESS)


class Candidate(msgspec.Struct, frozen=True):
    """A group with its template in the snapshot and the capacity of its node."""

    position: int
    group: Group
    template: Template
    row: TemplateRow
    cpu_milli: int
    memory: int
    gpu: bool

    @property
    def name(self) -> str:
        return self.group.id


class Candidates:
    """Answers for all templates at once; what cannot change while planning is remembered.

    `ledger` are storage classes whose volumes take of what nodes have.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        groups: Sequence[Group],
        templates: Mapping[str, Template],
        options: Options,
        features: Features,
        *,
        ledger: Collection[str] = (),
    ) -> None:
        self._snapshot = snapshot
        self._ledger = ledger
        self._features = features
        self._by_name: dict[str, Candidate] = {}
        self._feasible: dict[int, Bools] = {}
        self._depending: dict[int, bool] = {}
        self._ever: dict[int, Bools] = {}
        self._fitted: dict[int, bool] = {}
        self._rooms: dict[int, Ints] = {}
        self._shares: dict[int, Shares] = {}
        self._amounts: dict[int, dict[str, int]] = {}
        self._counted: dict[Hashable, tuple[Sequence[PodGroup], CountedPacking]] = {}
        """The pods are kept, as their ids are part of the key."""
        for group in groups:
            if group.id in templates:
                self._add(group, templates[group.id], options)
        self._rows = np.array([one.row.row for one in self], dtype=np.intp)
        self._templates = [one.row for one in self]
        self._similar = self._find_similar(options)
        self._demands = Demands(snapshot, self._rows, features)

    def __iter__(self) -> Iterator[Candidate]:
        return iter(self._by_name.values())

    def __len__(self) -> int:
        return len(self._by_name)

    def __getitem__(self, name: str) -> Candidate:
        return self._by_name[name]

    def get(self, name: str) -> Candidate | None:
        return self._by_name.get(name)

    def similar(self, candidate: Candidate) -> list[Candidate]:
        """Groups whose nodes could stand in for the candidate's, if purchases are balanced."""
        return [self._by_name[name] for name in self._similar.get(candidate.name, ())]

    def fits(self, group: PodGroup) -> Bools:
        """Candidates whose empty node the pods fit on now, by position."""
        key = id(group.footprint)
        known = self._feasible.get(key)
        if known is None or group.tracked or self.depends_on_others(group):
            self._ask(group)
            known = self._feasible[key]
        return known

    def _ask(self, group: PodGroup) -> Verdicts:
        """Where the pods fit now, remembered."""
        key = id(group.footprint)
        verdicts = pipeline.evaluate(self._snapshot, group.sample, self._features)
        self._fitted.setdefault(key, bool(verdicts.fits.any()))
        known = self._feasible[key] = verdicts.codes[self._rows] == _SUCCESS
        if group.sample.pod_class.affinity:
            self._ask_beside_starting(group, known)
        self._ever[key] = known | self._ever[key] if key in self._ever else known
        return verdicts

    def _ask_beside_starting(self, group: PodGroup, known: Bools) -> None:
        """The pods a node starts with may be the company that the group seeks."""
        ask = Ask(self._snapshot, group.sample, self._features)
        scopes = [inter_pod_affinity.scope_of(ask, term) for term in ask.pod_class.affinity]
        for one in self:
            if not known[one.position] and any(
                all(scope.covers(held.pod_class) for scope in scopes) for held in one.row.starting
            ):
                with self._snapshot.trial():
                    rows = imagined.add_copies(self._snapshot, one.row, [f"{one.name}-asked"])
                    verdicts = pipeline.evaluate(self._snapshot, group.sample, self._features)
                    known[one.position] = verdicts.codes[rows.start] == Code.SUCCESS

    def depends_on_others(self, group: PodGroup) -> bool:
        """Whether where the pods fit may change with where pods of other groups go.

        They need not say so themselves: others may keep away from them, or take of their storage.
        """
        key = id(group.footprint)
        known = self._depending.get(key)
        if known is None:
            ask = Ask(self._snapshot, group.sample, self._features)
            known = self._depending[key] = registry.depends_on_others(ask, group.footprint)
        return known

    def ever_fit(self, group: PodGroup) -> Bools:
        """Candidates whose empty node the pods have fitted on at some time, by position."""
        self.fits(group)
        return self._ever[id(group.footprint)]

    def might_fit(self, group: PodGroup) -> Bools:
        """The same, and those that only the places of other pods keep from them as it is."""
        if not group.interacting:
            return self.ever_fit(group)
        about_others = registry.names_about(self._features, Aspect.OTHER_PODS)
        kept_away = self._ask(group).refused_by(about_others)[self._rows]
        return kept_away | self._ever[id(group.footprint)]

    def shares(self, candidate: Candidate) -> Shares:
        """What pods take of an empty node of the candidate."""
        known = self._shares.get(candidate.position)
        if known is None:
            capacity = {
                measure.resource: int(measure.capacity[0]) for measure in self._measures(candidate)
            }
            known = self._shares[candidate.position] = Shares(capacity, self._all_amounts)
        return known

    def _all_amounts(self, group: PodGroup) -> dict[str, int]:
        key = id(group.footprint)
        known = self._amounts.get(key)
        if known is None:
            known = registry.amounts(self._snapshot, group.footprint, self._features)
            self._amounts[key] = known
        return known

    def _measures(self, candidate: Candidate) -> Iterator[Measure]:
        """How full an empty node of the candidate is of what it has a limit of."""
        row = np.array([candidate.row.row])
        for measure in registry.measures(self._snapshot, row, self._features):
            if measure.capacity[0] != UNLIMITED:
                yield measure

    def alone_on_node(self, group: PodGroup) -> Bools | None:
        """Candidates on a node of which no two of the pods go, by position; `None`: none."""
        pod_class = group.sample.pod_class
        return registry.alone_on_node(pod_class, self._templates, self._features)

    def amounts(self, group: PodGroup) -> dict[str, int]:
        """What one of the pods takes wherever it goes, by resource; that it is one pod aside."""
        footprint = group.footprint
        if group.tracked:
            # What its volumes take depends on the node.
            footprint = Footprint(footprint.pod_class, {})
        found = registry.amounts(self._snapshot, footprint, self._features)
        return {name: amount for name, amount in found.items() if name != "pods"}

    def fitted_a_node(self, group: PodGroup) -> bool:
        """Whether the pods fitted on a node that is there when they were first asked about."""
        self.fits(group)
        return self._fitted[id(group.footprint)]

    def room(self, group: PodGroup) -> Ints:
        """How many of the pods an empty node of each candidate has room for, by position."""
        key = id(group.footprint)
        known = self._rooms.get(key)
        if known is None:
            known = self._rooms[key] = registry.room(
                self._snapshot, group.footprint, self._rows, self._features
            )
        return known

    def fresh_rooms(self, candidate: Candidate, groups: Sequence[PodGroup]) -> dict[int, int]:
        """The same for one candidate, by the id of what a pod of each group holds."""
        position = candidate.position
        return {id(group.footprint): int(self.room(group)[position]) for group in groups}

    def count(
        self,
        candidate: Candidate,
        groups: Sequence[PodGroup],
        *,
        limit: int,
        stop: Callable[[], bool],
    ) -> CountedPacking | None:
        """What packing comes to; `None` if where the pods go is more than counting."""
        key = (candidate.position, limit, tuple(map(id, groups)))
        if key in self._counted:
            return self._counted[key][1]
        if any(group.tracked or self.depends_on_others(group) for group in groups):
            return None
        demands = self._demands.of(groups)
        if demands is None:
            return None
        counted = packed_counts.pack(
            groups,
            demands,
            self._demands.left(candidate.position),
            limit=limit,
            fresh=self.fresh_rooms(candidate, groups),
            stop=stop,
        )
        if not stop():
            self._counted[key] = (groups, counted)
        return counted

    def supplies(self) -> list[Supply]:
        """What an empty node of each has left beside the pods it starts with, by position."""
        found: list[dict[str, int]] = [{} for _ in self]
        for measure in registry.measures(self._snapshot, self._rows, self._features):
            left = (measure.capacity - measure.used).tolist()
            for position, has in enumerate(measure.capacity.tolist()):
                if has != UNLIMITED:
                    found[position][measure.resource] = left[position]
        return [
            Supply(capacity, one.group.price_per_hour)
            for capacity, one in zip(found, self, strict=True)
        ]

    def _add(self, group: Group, template: Template, options: Options) -> None:
        starting = [
            (pod, pod_groups.slots_of_template_pod(self._snapshot, pod))
            for pod in template.daemon_pods
        ]
        capacity = template.node.status.capacity
        self._by_name[group.id] = Candidate(
            position=len(self._by_name),
            group=group,
            template=template,
            row=imagined.add_template(
                self._snapshot,
                template.node,
                _seen_csinode(template, options),
                starting,
                host_keys=(HOSTNAME, *template.host_keys),
                storage=lambda pod: pod_groups.storage_of_template_pod(pod, self._ledger),
            ),
            cpu_milli=quantities.milli(capacity.get("cpu", 0)),
            memory=quantities.value(capacity.get("memory", 0)),
            gpu=expanders.has_gpu(template.node),
        )

    def _find_similar(self, options: Options) -> dict[str, tuple[str, ...]]:
        if not options.balance_similar_node_groups:
            return {}
        names = list(self._by_name)
        found = balancing.similar_groups(
            [one.template for one in self],
            ignore_labels=options.balancing_ignore_labels,
            only_labels=options.balancing_labels,
            compare_csi=not options.as_upstream,
        )
        return {
            name: tuple(names[other] for other in others)
            for name, others in zip(names, found, strict=True)
        }


def _seen_csinode(template: Template, options: Options) -> CSINode | None:
    """Upstream's VolumeBinding does not see a template's CSINode, so nothing is migrated."""
    csinode = template.csinode
    if csinode is None or not options.as_upstream:
        return csinode
    return msgspec.structs.replace(csinode, metadata=ObjectMeta(name=csinode.metadata.name))
