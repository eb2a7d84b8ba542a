"""Room that is kept ready or booked holds nodes: one that it needs does not go.

It is looked for on nodes that stay anyway, then on the one that would go last: a node that has been
unneeded for long is not held in place of one that has just become so.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from tonnage.groups.headroom import of_chunk
from tonnage.scaledown.inputs import ScaleDownInputs
from tonnage.scaledown.selection import Contender
from tonnage.scaleup import headroom, placement, requested_room
from tonnage.snapshot.rows import Bools, RowIndex


def hold(
    inputs: ScaleDownInputs, contenders: Sequence[Contender], usable: Bools
) -> Mapping[int, Sequence[str]]:
    """Put the chunks on their nodes, for the trial; gives the rows that might have gone else.

    Each with the titles of the rooms it is held for.
    """
    last = {
        one.facts.row: number for number, one in enumerate(sorted(contenders, key=_goes_last), 1)
    }

    def order() -> RowIndex:
        rows = np.flatnonzero(usable).tolist()
        return np.array(sorted(rows, key=lambda row: last.get(row, 0)), dtype=np.intp)

    placed = place(inputs, usable, order=order)
    return {row: titles for row, titles in placed.items() if row in last}


def place(
    inputs: ScaleDownInputs, usable: Bools, *, order: Callable[[], RowIndex | None] = lambda: None
) -> Mapping[int, Sequence[str]]:
    """Put the chunks on their nodes, for the trial; gives the rows with the titles of the rooms.

    The order of rows is asked for only where there is something to be placed.
    """
    booked = requested_room.booked_pods(inputs.inputs)
    kept = headroom.chunks(inputs.inputs, inputs.assessed.templates.by_group, ledger=False)
    if not (booked or kept.groups):
        return {}
    fits, _ = placement.place(
        inputs.snapshot,
        [*booked, *kept.groups],
        headroom.features_for(inputs.features),
        rows=usable,
        order=order(),
    )
    held: defaultdict[int, dict[str, None]] = defaultdict(dict)
    for placed in fits:
        held[placed.row].update((of_chunk(pod.key).title, None) for pod in placed.pods)
    return {row: list(titles) for row, titles in held.items()}


def _goes_last(one: Contender) -> tuple[bool, float, bool, int]:
    facts = one.facts
    return (one.wanted, -one.unneeded_since, facts.is_empty, -len(facts.move))
