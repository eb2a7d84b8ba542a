"""One attempt at a plan.

What fits goes on the nodes there are; then, step by step, the expander picks a
group, its nodes are filled as well as they can be, and the pods still waiting are looked
at again, until no group helps any of them.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from tonnage.scaleup import (
    attempts,
    balancing,
    costly_pods,
    expanders,
    option_estimates,
    orders,
    outcome,
    packing,
    placement,
    refusals,
    shared_capacity,
    underway,
)
from tonnage.scaleup.attempts import Attempt, Unlucky
from tonnage.scaleup.budget import Budget
from tonnage.scaleup.candidates import Candidate, Candidates
from tonnage.scaleup.costly_pods import Costly
from tonnage.scaleup.packed_counts import CountedPacking
from tonnage.scaleup.packing import Packing
from tonnage.scaleup.plan import Bounds, GroupPool, Plan
from tonnage.scaleup.pod_groups import Placed, PodGroup
from tonnage.scaleup.purchases import Purchases
from tonnage.scaleup.request import Request
from tonnage.snapshot import imagined
from tonnage.snapshot.rows import Bools
from tonnage.snapshot.snapshot import PodRecord


class PlanBuilder:
    """Keeps the snapshot, the pods left and the purchases of a plan in the making in step."""

    def __init__(self, request: Request, attempt: Attempt) -> None:
        self._request = request
        self._left, self._costly = costly_pods.divide(attempt.groups, request.options)
        self._undecided: list[Costly] = []
        """Groups whose turn did not come, with the reason."""
        self._attempt = attempt
        self._snapshot = request.snapshot
        self._options = request.options
        self._features = request.features
        self._stored = shared_capacity.wanted((*request.pending, *request.headroom))
        self._without_room: list[PodGroup] = []
        """Chunks of room to be kept ready for which there is none."""
        self._lacks_of_pods = (0, 0)
        self._candidates = Candidates(
            request.snapshot,
            request.groups,
            request.templates,
            request.options,
            request.features,
            ledger=self._stored,
        )
        shared_capacity.open_ledger(
            request.snapshot,
            self._stored,
            self._candidates,
            templates=request.templates,
            coming_up=request.coming_up,
            reservations=request.reservations,
        )
        self._pools: tuple[GroupPool, ...] = ()
        if not request.options.as_upstream:
            self._pools = shared_capacity.open_pools(
                request.snapshot, request.groups, self._candidates, request.options.pools
            )
        self._purchases = Purchases(request.snapshot)
        self._packed: dict[str, Packing | CountedPacking] = {}
        self._packed_as: dict[str, str] = {}
        self._existing: list[int] = []
        self._out_of_time = request.out_of_time
        self._stopped = self.partial = False

    def run(self) -> None:
        self._begin()
        self._expander = expanders.chain(
            self._options.expander,
            rng=self._attempt.rng,
            priorities=self._options.priorities,
            cluster_size=len(self._snapshot.nodes),
            outside=self._request.outside(self._pods_of_option),
        )
        self._fit_existing()
        self._left = [group for group in self._left if not refusals.is_daemon(group.sample)]
        self._buy_for_all()
        if self._costly:
            self._help_costly()
        waiting = (*self._left, *(one.group for one in self._undecided))
        self._lacks_of_pods = (sum(group.size for group in waiting), len(self._purchases.rows))
        if self._request.headroom:
            self._keep_room()

    def _keep_room(self) -> None:
        """Room for what nobody needs yet, of what those who wait have left."""
        others = self._left
        rows = [*self._existing, *self._purchases.rows]
        fits, self._left = self._place(self._request.headroom, rows)
        self._purchases.add_without_buying(fits)
        self._buy_for_all()
        self._without_room, self._left = self._left, others

    def _begin(self) -> None:
        self._add_upcoming()
        nodes = self._snapshot.nodes.values()
        self._budget = Budget(self._options, (record.node for record in nodes))

    def _buy_for_all(self, *, late: str = costly_pods.TIME_OVER) -> None:
        """Buy for as long as that helps anybody; `late` is why not all may be decided on."""
        while self._left and self._step():
            pass
        if self._stopped:
            self._undecided += [Costly(group, late) for group in self._left]
            self._left = []

    def _help_costly(self) -> None:
        """One by one, when all others have what they get, and within a time of their own."""
        with self._request.own_time.running() as self._out_of_time:
            self._stopped = False
            for number, costly in enumerate(self._costly):
                if self._is_out_of_time():
                    self._undecided += self._costly[number:]
                    break
                others = self._left
                rows = [*self._existing, *self._purchases.rows]
                fits, left = self._place([costly.group], rows)
                self._purchases.add_without_buying(fits)
                self._left = [group for group in left if not refusals.is_daemon(group.sample)]
                self._buy_for_all(late=costly.reason)
                self._left = others + self._left

    @property
    def lacks(self) -> tuple[int, ...]:
        """Pods left out and nodes bought, the less the better; then the same of room kept ready."""
        lacking = sum(group.size for group in self._without_room)
        return (*self._lacks_of_pods, lacking, len(self._purchases.rows))

    def unlucky(self, bounds: Bounds | None) -> Unlucky:
        """Whom another attempt might help, or help without a new node, if there is time for one."""
        if self.partial or self._costly or not self._request.pending:
            return Unlucky({})
        found = attempts.left_out(self._left, self._candidates, self._request.skipped)
        if found.pods or not self._purchases.on_existing:
            return found
        bounds = bounds or self.least(of_chosen=True)
        return attempts.on_new_nodes(
            self._request.pending, self._purchases, self._candidates, bounds
        )

    def _add_upcoming(self) -> None:
        for name, count in self._request.upcoming.items():
            candidate = self._candidates.get(name)
            if candidate is not None and count > 0:
                names = imagined.free_names(self._snapshot, f"{name}-upcoming-", count)
                imagined.add_copies(self._snapshot, candidate.row, names)

    def _fit_existing(self) -> None:
        """Fill the nodes there are. Pods that no group could help go first: it is all they have.

        Before them go pods whose volumes are being made for a node: they have it already.
        """
        rows = placement.rows_there(self._snapshot, self._options)
        self._existing = np.flatnonzero(rows).tolist()
        if not self._existing:
            return
        helpless = {id(group): not self._fits(group).any() for group in self._left}
        awaited = {id(group) for group in self._left if self._is_awaited(group)}
        ordered = sorted(
            self._left,
            key=lambda group: (
                id(group) not in awaited,
                -group.sample.pod_class.priority,
                group.rank,
                not helpless[id(group)],
                self._attempt.existing_order(group),
            ),
        )
        order = self._attempt.arrange(self._existing, self._snapshot, self._features)
        fits, self._left = placement.place(
            self._snapshot,
            ordered,
            self._features,
            rows=rows,
            order=order,
            stop=self._is_out_of_time,
        )
        self._purchases.add_without_buying(fits)

    def _is_awaited(self, group: PodGroup) -> bool:
        return not self._options.as_upstream and underway.is_awaited(self._snapshot, group)

    def _step(self) -> bool:
        """Choose and buy once; whether anything was bought."""
        if self._is_out_of_time():
            return False
        feasible = np.array([self._fits(group) for group in self._left])
        options = option_estimates.options(
            self._candidates,
            self._left,
            feasible,
            expander=self._expander,
            limit=self._node_limit,
            estimate=self._estimate,
            packed_as=self._packed_as,
        )
        while (chosen := self._expander.choose(options)) is not None:
            candidate = self._candidates[chosen.group]
            column = feasible[:, candidate.position]
            groups = [self._left[index] for index in np.flatnonzero(column).tolist()]
            if self._buy(
                candidate, groups, outcome.reason(chosen, options, self._options.expander)
            ):
                return True
            # Only a promise that came to nothing, never a packing, gets here.
            options = [option for option in options if option.group != chosen.group]
        return False

    def _fits(self, group: PodGroup) -> Bools:
        """Candidates whose empty node the pods fit on now; none if there is no time to ask."""
        if self._is_out_of_time():
            return np.zeros(len(self._candidates), dtype=np.bool_)
        return self._candidates.fits(group)

    def _is_out_of_time(self) -> bool:
        """From the first time it is so, everything is left as it is: the plan is partial."""
        self._stopped = self._stopped or self._out_of_time()
        self.partial = self.partial or self._stopped
        return self._stopped

    def _estimate(self, candidate: Candidate, groups: list[PodGroup]) -> expanders.Option | None:
        """What upstream's first fit would buy of the group: the choice is made on that."""
        order = orders.by_rank(orders.by_size(groups, self._candidates.shares(candidate)))
        packed = self._packed[candidate.name] = self._count(candidate, order)
        group, nodes = candidate.group, packed.node_count
        if group.all_or_nothing and nodes:
            nodes = self._budget.group_room(group)
        if not nodes:
            return None
        return option_estimates.option(
            candidate,
            nodes=nodes,
            pods=packed.pod_count,
            cpu=packed.requested("cpu"),
            memory=packed.requested("memory"),
        )

    def _pods_of_option(self, name: str) -> Sequence[PodRecord]:
        packed = self._packed.get(self._packed_as.get(name, name))
        return [] if packed is None else packed.pods

    def _count(self, candidate: Candidate, order: list[PodGroup]) -> Packing | CountedPacking:
        """What packing in this order comes to; the snapshot stays as it is."""
        counted = self._candidates.count(
            candidate, order, limit=self._node_limit(candidate), stop=self._is_out_of_time
        )
        if counted is not None:
            return counted
        with self._snapshot.trial():
            return self._pack(candidate, order)

    def _pack(
        self, candidate: Candidate, order: Sequence[PodGroup], *, limit: int | None = None
    ) -> Packing:
        return packing.pack(
            self._snapshot,
            candidate.row,
            order,
            self._features,
            limit=self._node_limit(candidate) if limit is None else limit,
            prefix=f"{candidate.name}-new-",
            first_number=self._purchases.count(candidate.name) + 1,
            fresh=self._candidates.fresh_rooms(candidate, order),
            stop=self._is_out_of_time,
        )

    def _node_limit(self, candidate: Candidate) -> int:
        """Nodes a step may add for the group, those of groups it is balanced with included."""
        group = candidate.group
        room = self._budget.group_room(group)
        if group.id in self._request.skipped or room <= 0:
            return 0
        cluster = self._budget.cluster_room(candidate.template)
        if group.all_or_nothing:
            return room if cluster >= room else 0
        for other in self._candidates.similar(candidate):
            room += self._budget.group_room(other.group)
        return min(room, cluster, self._options.max_nodes_per_scale_up or room)

    def _buy(self, candidate: Candidate, groups: list[PodGroup], reason: str) -> bool:
        """Fill the group's nodes as well as any order can; whether that helps anybody."""
        order = self._best_order(candidate, groups)
        with self._snapshot.trial() as trial:
            packed = self._pack(candidate, order)
            if not packed.placed:
                return False
            deltas = self._balanced(candidate, packed)
            if deltas is not None:
                trial.start_over()
                if self._buy_from(candidate, deltas, packed, reason):
                    trial.keep()
                    return True
                trial.start_over()
                packed = self._pack(candidate, order)
            room = self._budget.group_room(candidate.group)
            if len(packed.used_rows) > room:
                # Similar groups were counted on, and do not help after all.
                trial.start_over()
                packed = self._pack(candidate, order, limit=room)
            whole = candidate.group.all_or_nothing
            if packed.depends_on_node_count:
                trial.start_over()
                packed = packing.repack(
                    packed,
                    order,
                    self._features,
                    nodes=room if whole else len(packed.used_rows),
                    keep_empty=whole,
                    stop=self._is_out_of_time,
                )
            elif whole:
                packed.add_nodes(room - len(packed.names))
            if not packed.placed:
                return False
            rows = list(range(packed.rows.start, packed.rows.stop)) if whole else packed.used_rows
            left = [
                group.without(packed.taken(group)) if packed.taken(group) else group
                for group in self._left
                if packed.remaining(group)
            ]
            self._record(candidate, {candidate.name: rows}, packed.placed, left, reason)
            trial.keep()
        return True

    def _best_order(self, candidate: Candidate, groups: list[PodGroup]) -> list[PodGroup]:
        """The order that helps most pods with fewest nodes."""

        def worth(order: list[PodGroup]) -> tuple[int, int]:
            packed = self._count(candidate, order)
            return -packed.pod_count, packed.node_count

        return orders.best(groups, self._candidates.shares(candidate), worth)

    def _balanced(self, candidate: Candidate, packed: Packing) -> dict[str, int] | None:
        """How the purchase is split over similar groups; `None` if it is not."""
        placed = {id(one.group): one.group for one in packed.placed}.values()
        partners = [
            other
            for other in self._candidates.similar(candidate)
            if other.name not in self._request.skipped
            and not other.group.all_or_nothing
            and all(self._candidates.fits(group)[other.position] for group in placed)
        ]
        if not partners or candidate.group.all_or_nothing:
            return None
        sizes = [
            (one.name, self._budget.target(one.group), one.group.max_size)
            for one in (candidate, *partners)
        ]
        deltas = balancing.distribute(sizes, len(packed.used_rows))
        return None if set(deltas) <= {candidate.name} else deltas

    def _buy_from(
        self, candidate: Candidate, deltas: dict[str, int], packed: Packing, reason: str
    ) -> bool:
        """Buy of several groups, if every pod finds a place on their nodes too, and all are used.

        Groups may be alike and yet differ a little, in storage say.
        """
        rows: dict[str, list[int]] = {}
        for name, delta in deltas.items():
            if delta:
                first = self._purchases.count(name) + 1
                names = imagined.free_names(self._snapshot, f"{name}-new-", delta, first=first)
                added = imagined.add_copies(self._snapshot, self._candidates[name].row, names)
                rows[name] = list(range(added.start, added.stop))
        order = list({id(one.group): one.group for one in packed.placed}.values())
        mask = self._mask([row for found in rows.values() for row in found])
        fits, left = placement.place(self._snapshot, order, self._features, rows=mask)
        used = {one.row for one in fits}
        if sum(len(one.pods) for one in fits) < packed.pod_count or len(used) < mask.sum():
            return False
        tried = {id(group) for group in order}
        untouched = [group for group in self._left if id(group) not in tried]
        self._record(candidate, rows, fits, untouched + left, reason)
        return True

    def _record(
        self,
        candidate: Candidate,
        rows: Mapping[str, list[int]],
        placed: Sequence[Placed],
        left: list[PodGroup],
        reason: str,
    ) -> None:
        """Book a purchase, and use up what room it leaves."""
        for name, found in rows.items():
            one = self._candidates[name]
            self._budget.take(one.group, one.template, len(found))
        self._purchases.add_rows(rows)
        more, self._left = self._use_up(left, self._purchases.rows)
        self._purchases.add_step(candidate.name, rows, (*placed, *more), reason=reason)

    def _use_up(
        self, left: list[PodGroup], bought: list[int]
    ) -> tuple[list[Placed], list[PodGroup]]:
        """Fill bought nodes; who minds other pods may now fit on nodes that were there, too."""
        more, still = self._place([group for group in left if not group.interacting], bought)
        minding = [group for group in left if group.interacting]
        if minding:
            fits, minding = self._place(minding, [*self._existing, *bought])
            more += fits
        return more, still + minding

    def _place(
        self, groups: Sequence[PodGroup], rows: list[int]
    ) -> tuple[list[Placed], list[PodGroup]]:
        return placement.place(
            self._snapshot,
            groups,
            self._features,
            rows=self._mask(rows),
            stop=self._is_out_of_time,
        )

    def _mask(self, rows: list[int]) -> Bools:
        mask = np.zeros(self._snapshot.table.size, dtype=np.bool_)
        mask[rows] = True
        return mask

    def least(self, *, of_chosen: bool = False) -> Bounds:
        """What the pods on new nodes need at the least: of any group, or of those bought from."""
        placed = self._purchases.placed
        bought = {name: len(rows) for name, rows in self._purchases.by_group.items()}
        return outcome.least(
            self._candidates,
            [
                (group, count)
                for group in (*self._request.pending, *self._request.headroom)
                if (count := placed[id(group.footprint)])
            ],
            bought,
            among=[
                one
                for one in self._candidates
                if one.name in bought
                or (
                    not of_chosen
                    and one.name not in self._request.skipped
                    and one.group.max_size > one.group.target
                )
            ],
        )

    def result(self) -> Plan:
        purchases = self._purchases
        apart = costly_pods.told(self._costly, [one.group for one in self._undecided])
        late = costly_pods.not_decided(self._undecided, [one.name for one in self._candidates])
        found = Plan(
            steps=tuple(purchases.steps),
            scale_ups=outcome.scale_ups(self._snapshot, purchases.by_group, self._features),
            fit_on_existing=tuple(purchases.on_existing),
            not_helped=(
                *late,
                *refusals.left_out(
                    self._snapshot,
                    (*self._left, *self._without_room),
                    self._features,
                    candidates=self._candidates,
                    skipped=self._request.skipped,
                    budget=self._budget,
                ),
            ),
            limits=outcome.group_limits(self._candidates),
            pools=self._pools,
            storage=outcome.group_storage(self._candidates, self._stored),
            bounds=self.least(),
            partial=self.partial,
            set_apart=apart,
            warnings=(
                *self._request.warnings,
                *(one.message for one in self._expander.notices),
                *costly_pods.warnings(apart),
            ),
        )
        return shared_capacity.with_warnings(
            found, self._snapshot, self._request.pending, self._features
        )
