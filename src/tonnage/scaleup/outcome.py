"""The plan as a document: what was bought, how near it is to the least, who is left and why."""

from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from tonnage.rules import registry
from tonnage.rules.features import Features
from tonnage.scaleup import bounds
from tonnage.scaleup.candidates import Candidate, Candidates
from tonnage.scaleup.expanders import Option
from tonnage.scaleup.plan import NO_BOUNDS, Bounds, GroupLimit, GroupStorage, NewNode, ScaleUp
from tonnage.scaleup.pod_groups import PodGroup
from tonnage.snapshot.rows import Ints
from tonnage.snapshot.slots import UNLIMITED
from tonnage.snapshot.snapshot import PodRecord, Snapshot


def scale_ups(
    snapshot: Snapshot,
    bought: Mapping[str, Mapping[int, Sequence[PodRecord]]],
    features: Features,
) -> tuple[ScaleUp, ...]:
    """What is bought, by group; `bought` has the pods on every new row."""
    return tuple(
        ScaleUp(
            group=name,
            delta=len(rows),
            binding=_binding(snapshot, np.array(list(rows), dtype=np.intp), features),
            nodes=tuple(
                NewNode(name=snapshot.name_of(row), pods=tuple(pod.key for pod in pods))
                for row, pods in rows.items()
            ),
        )
        for name, rows in bought.items()
    )


def _binding(snapshot: Snapshot, rows: npt.NDArray[np.intp], features: Features) -> str:
    """What the rows have least left of, by share."""
    shares = {
        measure.resource: _share(measure.used, measure.capacity)
        for measure in registry.measures(snapshot, rows, features)
        if (measure.capacity != UNLIMITED).all()
    }
    return max(shares, key=lambda name: shares[name])


def _share(used: Ints, has: Ints) -> float:
    total = int(has.sum())
    return int(used.sum()) / total if total else 0.0


def reason(chosen: Option, options: Sequence[Option], expander: str) -> str:
    """Why the group was chosen, in one line."""
    nodes = f"{chosen.node_count} node{'s' if chosen.node_count != 1 else ''}"
    pods = f"{chosen.pod_count} pod{'s' if chosen.pod_count != 1 else ''}"
    if len(options) == 1:
        return f"the only group that helps: {nodes} for {pods}"
    return f"{expander} of {len(options)} groups: {nodes} for {pods}"


def group_limits(candidates: Candidates) -> tuple[GroupLimit, ...]:
    return tuple(
        GroupLimit(group=candidate.name, **msgspec.structs.asdict(limit))
        for candidate in candidates
        for limit in candidate.template.limits
    )


def group_storage(candidates: Candidates, classes: Collection[str]) -> tuple[GroupStorage, ...]:
    return tuple(
        GroupStorage(
            group=candidate.name,
            storage_class=room.storage_class,
            capacity=room.capacity,
            largest=room.largest,
            source=room.source,
        )
        for candidate in candidates
        for room in candidate.template.storage
        if room.storage_class in classes
    )


def least(
    candidates: Candidates,
    placed: Iterable[tuple[PodGroup, int]],
    bought: Mapping[str, int],
    *,
    among: Sequence[Candidate],
) -> Bounds:
    """What the pods on bought nodes need at the very least, on nodes of these groups.

    The cost is that of groups with a price, if all that is bought has one.
    """
    if not bought:
        return NO_BOUNDS
    found = list(placed)
    least = _bound(candidates, found, among, bought)
    priced = [one for one in among if (one.group.price_per_hour or 0.0) > 0]
    names = {one.name for one in priced}
    if len(priced) == len(among) or not names.issuperset(bought):
        return least
    cost = _bound(candidates, found, priced, bought).cost_per_hour
    return msgspec.structs.replace(least, cost_per_hour=cost)


def _bound(
    candidates: Candidates,
    placed: Iterable[tuple[PodGroup, int]],
    among: Sequence[Candidate],
    bought: Mapping[str, int],
) -> Bounds:
    supplies = candidates.supplies()
    positions = [one.position for one in among]
    return bounds.bound(
        [
            bounds.Demand(count, candidates.amounts(group), _most(candidates, group)[positions])
            for group, count in placed
        ],
        [supplies[position] for position in positions],
        bought=sum(bought.values()),
    )


def _most(candidates: Candidates, group: PodGroup) -> Ints:
    """The most of the pods that an empty node of each candidate ever takes, by position."""
    most = np.where(candidates.might_fit(group), np.maximum(candidates.room(group), 0), 0)
    alone = candidates.alone_on_node(group)
    return most if alone is None else np.where(alone, np.minimum(most, 1), most)
