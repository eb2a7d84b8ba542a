"""The decision: given a cluster, its node groups and what waits, what to buy.

One pass: what fits goes on the nodes there are; then, step by step, the expander picks a
group, its nodes are filled as well as they can be, and the pods still waiting are looked
at again, until no group helps any of them.
"""

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import msgspec
import numpy as np

from tonnage.filters import inter_pod_affinity, pipeline
from tonnage.filters.features import Features
from tonnage.filters.framework import Code
from tonnage.groups.model import Group, Template
from tonnage.objects import quantities, resources
from tonnage.objects.meta import ObjectMeta
from tonnage.objects.storage import CSINode
from tonnage.scaleup import (
    balancing,
    bounds,
    expanders,
    explaining,
    orders,
    packing,
    placing,
    podgroups,
)
from tonnage.scaleup.budget import Budget
from tonnage.scaleup.options import Options
from tonnage.scaleup.plan import (
    Bounds,
    GroupDelta,
    GroupLimit,
    NewNode,
    NotHelped,
    Placement,
    Plan,
    ScaleUp,
    Step,
)
from tonnage.scaleup.podgroups import Placed, PodGroup
from tonnage.snapshot import imagined
from tonnage.snapshot.imagined import TemplateRow
from tonnage.snapshot.rows import Bools, Ints
from tonnage.snapshot.slots import UNLIMITED
from tonnage.snapshot.snapshot import PodRecord, Snapshot

_SHORTLIST = 2
_TOO_MUCH_TO_PACK = 60_000
_ORDERS_TRIED_UP_TO = 400
_WORTH_ANOTHER_ORDER = 5_000


class Candidate(NamedTuple):
    """A group that may be scaled, with its template in the snapshot."""

    position: int
    group: Group
    template: Template
    row: TemplateRow


class Request(NamedTuple):
    """Everything a decision is made from. `out_of_time` may end it early with a partial plan."""

    snapshot: Snapshot
    pending: Sequence[PodRecord]
    groups: Sequence[Group]
    templates: Mapping[str, Template]
    skipped: Mapping[str, str]
    upcoming: Mapping[str, int]
    options: Options
    features: Features
    warnings: Sequence[str] = ()
    out_of_time: Callable[[], bool] = lambda: False


def plan(request: Request) -> Plan:
    """Decide. The snapshot is left as it was.

    Which pods fill the nodes there are decides what is left to buy for, so a few orders are
    planned to the end and the best plan is kept, unless one cannot be bettered.
    """
    best: Plan | None = None
    groups = podgroups.group(request.snapshot, request.pending)
    for order in EXISTING_ORDERS:
        request.snapshot.fork()
        try:
            planner = _Planner(request, groups, order)
            found = planner.run()
        finally:
            request.snapshot.revert()
        if best is None or _worth(found) < _worth(best):
            best = found
        if found.partial or not planner.improvable:
            break
    assert best is not None
    return best


def _worth(found: Plan) -> tuple[int, int]:
    return (len(found.not_helped), sum(one.delta for one in found.scale_ups))


class _Planner:
    """Keeps the snapshot, the pods left and the purchases of a plan in the making in step."""

    def __init__(
        self, request: Request, groups: list[PodGroup], existing_order: "ExistingOrder"
    ) -> None:
        self._request = request
        self._groups = groups
        self._existing_order = existing_order
        self._snapshot = request.snapshot
        self._options = request.options
        self._features = request.features
        self._candidates: dict[str, Candidate] = {}
        self._bought: dict[str, dict[int, list[PodRecord]]] = {}
        self._left: list[PodGroup] = []
        self._feasible: dict[int, Bools] = {}
        self._similar: dict[str, tuple[str, ...]] = {}
        self._rooms: dict[int, Ints] = {}
        self._fresh: dict[str, dict[int, int]] = defaultdict(dict)
        self._demands: Counter[int] = Counter()
        self._steps: list[Step] = []
        self._on_existing: list[Placement] = []
        self._partial = False
        self.improvable = False

    def run(self) -> Plan:
        self._add_templates()
        self._add_upcoming()
        self._budget = Budget(
            self._options, (record.node for record in self._snapshot.nodes.values())
        )
        self._expander = expanders.chain(
            self._options.expander,
            rng=random.Random(self._options.random_seed),
            priorities=self._options.priorities,
            cluster_size=len(self._snapshot.nodes),
        )
        self._left = self._groups
        self._fit_existing()
        self._left = [group for group in self._left if not explaining.is_daemon(group.sample)]
        while self._left and self._step():
            pass
        found = self._result()
        self.improvable = self._could_be_better(found)
        return found

    # What there is to start from.

    def _add_templates(self) -> None:
        for group in self._request.groups:
            template = self._request.templates.get(group.id)
            if template is None:
                continue
            starting = [
                (pod, podgroups.slots_of_template_pod(self._snapshot, pod))
                for pod in template.daemon_pods
            ]
            row = imagined.add_template(
                self._snapshot,
                template.node,
                self._seen_csinode(template),
                starting,
                host_keys=(imagined.HOSTNAME, *template.host_keys),
            )
            self._candidates[group.id] = Candidate(len(self._candidates), group, template, row)
        if self._options.balance_similar_node_groups:
            self._find_similar()

    def _seen_csinode(self, template: Template) -> CSINode | None:
        """Upstream's VolumeBinding does not see a template's CSINode, so nothing is migrated."""
        csinode = template.csinode
        if csinode is None or not self._options.as_upstream:
            return csinode
        return msgspec.structs.replace(csinode, metadata=ObjectMeta(name=csinode.metadata.name))

    def _find_similar(self) -> None:
        names = list(self._candidates)
        found = balancing.similar_groups(
            [candidate.template for candidate in self._candidates.values()],
            ignore_labels=self._options.balancing_ignore_labels,
            only_labels=self._options.balancing_labels,
            compare_csi=not self._options.as_upstream,
        )
        for name, others in zip(names, found, strict=True):
            self._similar[name] = tuple(names[other] for other in others)

    def _add_upcoming(self) -> None:
        for name, count in self._request.upcoming.items():
            candidate = self._candidates.get(name)
            if candidate is not None and count > 0:
                names = [f"{name}-upcoming-{index + 1}" for index in range(count)]
                imagined.add_copies(self._snapshot, candidate.row, names)

    def _fit_existing(self) -> None:
        """Fill the nodes there are. Pods that no group could help go first: it is all they have."""
        size = self._snapshot.table.size
        rows = self._snapshot.table.alive.data[:size].copy()
        if self._options.as_upstream:
            rows &= ~self._snapshot.columns.unschedulable.data[:size]
        if not rows.any():
            return
        helpless = {id(group): not self._template_fits(group).any() for group in self._left}
        ordered = sorted(
            self._left,
            key=lambda group: (
                -group.sample.pods.priority,
                not helpless[id(group)],
                self._existing_order(group),
            ),
        )
        fits, self._left = placing.place(self._snapshot, ordered, self._features, rows=rows)
        self._on_existing = [
            Placement(pod=pod.key, node=self._snapshot.name_of(fit.row))
            for fit in fits
            for pod in fit.pods
        ]

    def _template_fits(self, group: PodGroup) -> Bools:
        """Candidates whose empty node the group fits on now, by their index."""
        key = id(group.held)
        known = self._feasible.get(key)
        if known is None or group.interacting or group.apart:
            rows = [candidate.row.row for candidate in self._candidates.values()]
            verdicts = pipeline.evaluate(self._snapshot, group.sample, self._features)
            known = self._feasible[key] = verdicts.codes[rows] == Code.SUCCESS
        return known

    # Steps.

    def _step(self) -> bool:
        """Choose and buy once; whether anything was bought."""
        if self._request.out_of_time():
            self._partial = True
            return False
        feasible = np.array([self._template_fits(group) for group in self._left])
        open_to = [one for one in self._candidates.values() if self._node_limit(one) > 0]
        prospects = [
            (one, found)
            for one in open_to
            if (found := self._prospect(one, feasible[:, one.position])) is not None
        ]
        options = self._weigh(prospects, feasible)
        chosen = self._expander.choose(options)
        if chosen is None:
            return False
        candidate = self._candidates[chosen.group]
        self._buy(candidate, self._fitting(feasible[:, candidate.position]))
        return True

    def _fitting(self, feasible: Bools) -> list[PodGroup]:
        return [self._left[index] for index in np.flatnonzero(feasible).tolist()]

    def _weigh(
        self, prospects: list[tuple[Candidate, expanders.Prospect]], feasible: Bools
    ) -> list[expanders.Option]:
        """Options for the expander: groups are packed from the most promising on.

        A group whose best case is worse than an option that is there already need not be packed,
        and groups that are alike to every waiting pod are packed once. With very many groups of
        pods and of nodes only the few that promise most are packed.
        """
        prospects = sorted(
            prospects, key=lambda one: (self._expander.best_case(one[1]), one[0].group.id)
        )
        if len(prospects) * len(self._left) > _TOO_MUCH_TO_PACK:
            prospects = sorted(
                prospects, key=lambda one: self._expander.score(self._promise(*one))
            )[:_SHORTLIST]
        options: list[expanders.Option] = []
        alike: dict[Hashable, expanders.Option | None] = {}
        best: tuple[float, ...] | None = None
        for candidate, prospect in prospects:
            if best is not None and self._expander.best_case(prospect) > best:
                continue
            column = feasible[:, candidate.position]
            key = self._likeness(candidate, column)
            if key not in alike:
                alike[key] = self._estimate(candidate, self._fitting(column))
            found = alike[key]
            if found is not None:
                option = msgspec.structs.replace(
                    found,
                    group=candidate.group.id,
                    price_per_hour=candidate.group.price_per_hour,
                )
                options.append(option)
                score = self._expander.score(option)
                best = score if best is None else min(best, score)
        return options

    def _likeness(self, candidate: Candidate, feasible: Bools) -> Hashable:
        """Equal for groups that packing cannot tell apart; where pods look at labels, none is."""
        if any(self._left[index].interacting for index in np.flatnonzero(feasible).tolist()):
            return candidate.group.id
        supply = self._supply(candidate)
        return (
            tuple(sorted(supply.capacity.items())),
            tuple(sorted(candidate.template.node.status.capacity.items())),
            self._node_limit(candidate),
            candidate.group.all_or_nothing,
            feasible.tobytes(),
        )

    def _prospect(self, candidate: Candidate, feasible: Bools) -> expanders.Prospect | None:
        """What is known of a group before it is packed."""
        chosen = np.flatnonzero(feasible)
        if not len(chosen):
            return None
        groups = [self._left[index] for index in chosen.tolist()]
        counts = np.array([group.size for group in groups])
        room = np.array([self._empty_room(group)[candidate.position] for group in groups])
        cpu = int(sum(group.size * group.requests("cpu") for group in groups))
        memory = int(sum(group.size * group.requests("memory") for group in groups))
        alone = -(-counts // np.maximum(room, 1))
        has = resources.allocatable(candidate.template.node)
        least = max(
            int(alone.max()),
            -(-cpu // has["cpu"]) if has["cpu"] else 1,
            -(-memory // has["memory"]) if has["memory"] else 1,
        )
        option = self._option(candidate, least, int(counts.sum()), cpu, memory)
        return expanders.Prospect(
            group=option.group,
            pod_count_max=option.pod_count,
            cpu_milli=cpu,
            memory=memory,
            nodes_min=least,
            node_cpu_milli=option.node_cpu_milli,
            node_memory=option.node_memory,
            price=option.price_per_hour,
            gpu=option.gpu,
            exact=bool((room > 0).all())
            and int(alone.sum()) <= self._node_limit(candidate)
            and not any(group.interacting or group.apart for group in groups),
        )

    def _promise(self, candidate: Candidate, prospect: expanders.Prospect) -> expanders.Option:
        """The option if everything packed without loss."""
        return self._option(
            candidate,
            prospect.nodes_min,
            prospect.pod_count_max,
            prospect.cpu_milli,
            prospect.memory,
        )

    def _empty_room(self, group: PodGroup) -> Ints:
        """How many pods of the group an empty node of each candidate has room for."""
        known = self._rooms.get(id(group.held))
        if known is None:
            rows = np.array([one.row.row for one in self._candidates.values()], dtype=np.intp)
            known = packing.headroom(self._snapshot, group, rows)
            self._rooms[id(group.held)] = known
            for one in self._candidates.values():
                self._fresh[one.group.id][id(group.held)] = int(known[one.position])
        return known

    def _estimate(self, candidate: Candidate, groups: list[PodGroup]) -> expanders.Option | None:
        """What upstream's first fit would buy of the group: the choice is made on that."""
        self._snapshot.fork()
        packed = self._pack(candidate, orders.by_size(groups, candidate.template))
        nodes = len(packed.used_rows)
        cpu, memory = _requested(packed, "cpu"), _requested(packed, "memory")
        self._snapshot.revert()
        group = candidate.group
        if not nodes or (group.all_or_nothing and nodes > self._budget.group_room(group)):
            return None
        if group.all_or_nothing:
            nodes = self._budget.group_room(group)
        return self._option(candidate, nodes, packed.pod_count, cpu, memory)

    def _option(
        self, candidate: Candidate, nodes: int, pods: int, cpu: int, memory: int
    ) -> expanders.Option:
        capacity = candidate.template.node.status.capacity
        return expanders.Option(
            group=candidate.group.id,
            node_count=nodes,
            pod_count=pods,
            cpu_milli=cpu,
            memory=memory,
            node_cpu_milli=quantities.milli(capacity.get("cpu", 0)),
            node_memory=quantities.value(capacity.get("memory", 0)),
            price_per_hour=candidate.group.price_per_hour,
            gpu=expanders.has_gpu(candidate.template.node),
        )

    def _pack(self, candidate: Candidate, order: Sequence[PodGroup]) -> packing.Packing:
        return packing.pack(
            self._snapshot,
            candidate.row,
            order,
            self._features,
            limit=self._node_limit(candidate),
            prefix=f"{candidate.group.id}-new-",
            first_number=len(self._bought.get(candidate.group.id, ())) + 1,
            fresh=self._fresh[candidate.group.id],
            stop=self._request.out_of_time,
        )

    def _node_limit(self, candidate: Candidate) -> int:
        """Nodes a step may add for the group, those of groups it is balanced with included."""
        group = candidate.group
        if group.id in self._request.skipped:
            return 0
        room = self._budget.group_room(group)
        if room <= 0:
            return 0
        cluster = self._budget.cluster_room(candidate.template)
        if group.all_or_nothing:
            return room if cluster >= room else 0
        for other in self._similar.get(group.id, ()):
            room += self._budget.group_room(self._candidates[other].group)
        return min(room, cluster, self._options.max_nodes_per_scale_up or room)

    def _buy(self, candidate: Candidate, groups: list[PodGroup]) -> None:
        """Fill the chosen group's nodes as well as any order can, and keep that."""
        packed = self._best_packing(candidate, groups)
        if self._buy_balanced(candidate, packed):
            return
        rows = packed.used_rows
        if candidate.group.all_or_nothing:
            packed.add_nodes(self._budget.group_room(candidate.group) - len(rows))
            rows = list(range(packed.rows.start, packed.rows.stop))
        taken = Counter[int]()
        for one in packed.placed:
            taken[id(one.group)] += len(one.pods)
        left = [
            group.without(taken[id(group)]) if id(group) in taken else group
            for group in self._left
            if taken[id(group)] < group.size
        ]
        self._snapshot.commit()
        self._record(candidate, {candidate.group.id: rows}, packed.placed, left)

    def _best_packing(self, candidate: Candidate, groups: list[PodGroup]) -> packing.Packing:
        """Pack in every order; the best is left in the snapshot, on a fork of its own."""
        tried = orders.ALL if len(groups) <= _ORDERS_TRIED_UP_TO else orders.ALL[:1]
        best: tuple[tuple[int, int], list[PodGroup]] | None = None
        packed: packing.Packing | None = None
        seen: set[tuple[int, ...]] = set()
        for order in tried:
            ordered = order(groups, candidate.template)
            key = tuple(id(group) for group in ordered)
            if key in seen:
                continue
            seen.add(key)
            if packed is not None:
                self._snapshot.revert()
            self._snapshot.fork()
            packed = self._pack(candidate, ordered)
            worth = (-packed.pod_count, len(packed.used_rows))
            if best is None or worth < best[0]:
                best = (worth, ordered)
                winner = packed
        assert best is not None
        assert packed is not None
        if packed is winner:
            return packed
        self._snapshot.revert()
        self._snapshot.fork()
        return self._pack(candidate, best[1])

    def _buy_balanced(self, candidate: Candidate, packed: packing.Packing) -> bool:
        """Split the purchase over similar groups, if everything still finds its place then.

        The packing that is on the snapshot's last fork is taken back if so, and kept if not.
        """
        order = list(dict.fromkeys(one.group for one in packed.placed))
        pods, nodes = packed.pod_count, len(packed.used_rows)
        partners = [
            other
            for name in self._similar.get(candidate.group.id, ())
            if (other := self._candidates[name]).group.id not in self._request.skipped
            and not other.group.all_or_nothing
            and all(self._template_fits(group)[other.position] for group in order)
        ]
        if not partners or candidate.group.all_or_nothing:
            return False
        everyone = {one.group.id: one for one in (candidate, *partners)}
        deltas = balancing.distribute(
            [
                (name, self._budget.target(one.group), one.group.max_size)
                for name, one in everyone.items()
            ],
            nodes,
        )
        if set(deltas) <= {candidate.group.id} and sum(deltas.values()) == nodes:
            return False
        self._snapshot.revert()
        self._snapshot.fork()
        rows: dict[str, list[int]] = {}
        for name, delta in deltas.items():
            if delta:
                number = len(self._bought.get(name, ())) + 1
                names = [f"{name}-new-{number + index}" for index in range(delta)]
                added = imagined.add_copies(self._snapshot, everyone[name].row, names)
                rows[name] = list(range(added.start, added.stop))
        mask = np.zeros(self._snapshot.table.size, dtype=np.bool_)
        mask[[row for found in rows.values() for row in found]] = True
        fits, left = placing.place(self._snapshot, order, self._features, rows=mask)
        if sum(len(one.pods) for one in fits) < pods:
            self._snapshot.revert()
            self._snapshot.fork()
            again = self._pack(candidate, order)
            packed.placed, packed.names = again.placed, again.names
            return False
        self._snapshot.commit()
        untouched = [group for group in self._left if group not in order]
        self._record(candidate, rows, fits, untouched + left)
        return True

    def _record(
        self,
        candidate: Candidate,
        rows: Mapping[str, list[int]],
        placed: Sequence[Placed],
        left: list[PodGroup],
    ) -> None:
        """Book a purchase, and use up what room it leaves."""
        for name, found in rows.items():
            one = self._candidates[name]
            self._budget.take(one.group, one.template, len(found))
            self._bought.setdefault(name, {}).update((row, []) for row in found)
        more, self._left = placing.place(
            self._snapshot, left, self._features, rows=self._bought_rows()
        )
        owner = {row: rows for rows in self._bought.values() for row in rows}
        for group, pods, row in (*placed, *more):
            owner[row][row].extend(pods)
            self._demands[id(group.held)] += len(pods)
        self._steps.append(
            Step(
                chosen=candidate.group.id,
                scale_ups=tuple(
                    GroupDelta(group=name, delta=len(found)) for name, found in rows.items()
                ),
                pods=tuple(pod.key for one in (*placed, *more) for pod in one.pods),
            )
        )

    def _bought_rows(self) -> Bools:
        mask = np.zeros(self._snapshot.table.size, dtype=np.bool_)
        mask[[row for rows in self._bought.values() for row in rows]] = True
        return mask

    # The outcome.

    def _could_be_better(self, found: Plan) -> bool:
        """Whether planning in another order could help more pods or buy fewer nodes."""
        bought = sum(one.delta for one in found.scale_ups)
        small = len(self._groups) * max(len(self._candidates), 1) <= _WORTH_ANOTHER_ORDER
        return (
            small and bool(self._on_existing) and (bool(self._left) or bought > found.bounds.nodes)
        )

    def _bounds(self) -> Bounds:
        """What the pods on bought nodes need at the very least, on nodes of the bought groups."""
        chosen = [self._candidates[name] for name in self._bought]
        return bounds.bound(
            [
                self._demand(group, self._demands[id(group.held)], chosen)
                for group in self._groups
                if self._demands[id(group.held)]
            ],
            {one.group.id: self._supply(one) for one in chosen},
            bought=sum(len(rows) for rows in self._bought.values()),
        )

    def _demand(self, group: PodGroup, count: int, chosen: list[Candidate]) -> bounds.Demand:
        alone = any(
            term.topology_key in one.row.host_keys
            and inter_pod_affinity.own_scope(group.sample.pods, term)
            for term in group.sample.pods.anti_affinity
            for one in chosen
        )
        most = {}
        for one in chosen:
            room = int(self._empty_room(group)[one.position])
            if room:
                most[one.group.id] = 1 if alone else room
        pods = group.sample.pods
        amounts = {name: amount for name, amount in pods.requests.items() if amount}
        if not group.apart:
            amounts.update(group.held.slots)
        return bounds.Demand(count, amounts, most)

    def _supply(self, candidate: Candidate) -> bounds.Supply:
        """What an empty node has left beside its own pods."""
        row, columns = candidate.row.row, self._snapshot.columns
        capacity = {
            name: int(columns.allocatable[index].data[row] - columns.used[index].data[row])
            for index, name in enumerate(columns.resource_names)
        }
        for slots in self._snapshot.slots.drivers():
            limit = int(slots.limit.data[row])
            if limit != UNLIMITED:
                capacity[slots.name] = limit - int(slots.used.data[row])
        return bounds.Supply(capacity, candidate.group.price_per_hour)

    def _result(self) -> Plan:
        return Plan(
            steps=tuple(self._steps),
            scale_ups=tuple(
                ScaleUp(
                    group=name,
                    delta=len(rows),
                    nodes=tuple(
                        NewNode(
                            name=self._snapshot.name_of(row),
                            pods=tuple(pod.key for pod in pods),
                        )
                        for row, pods in rows.items()
                    ),
                )
                for name, rows in self._bought.items()
            ),
            fit_on_existing=tuple(self._on_existing),
            not_helped=tuple(self._not_helped()),
            limits=tuple(
                GroupLimit(
                    group=candidate.group.id,
                    driver=limit.driver,
                    count=limit.count,
                    source=limit.source,
                )
                for candidate in self._candidates.values()
                for limit in candidate.template.limits
            ),
            bounds=self._bounds(),
            partial=self._partial,
            warnings=(*self._request.warnings, *(n.message for n in self._expander.notices)),
        )

    def _not_helped(self) -> list[NotHelped]:
        rows = {name: candidate.row.row for name, candidate in self._candidates.items()}
        full = {
            name: why
            for name, candidate in self._candidates.items()
            if (why := self._budget.why_full(candidate.group, candidate.template)) is not None
        }
        return [
            one
            for group in self._left
            for one in explaining.not_helped(
                self._snapshot,
                group,
                self._features,
                template_rows=rows,
                skipped=self._request.skipped,
                full=full,
            )
        ]


def _requested(packed: packing.Packing, resource: str) -> int:
    return sum(one.group.requests(resource) * len(one.pods) for one in packed.placed)


def _size(group: PodGroup) -> tuple[int, int, int]:
    slots = sum(group.held.slots.values())
    return (slots, group.requests("cpu"), group.requests("memory"))


ExistingOrder: TypeAlias = Callable[[PodGroup], tuple[int, ...]]

EXISTING_ORDERS: tuple[ExistingOrder, ...] = (
    lambda _: (),  # as they came
    _size,
    lambda group: tuple(-one for one in _size(group)),
)
"""Orders in which pods of one priority fill the nodes there are."""
