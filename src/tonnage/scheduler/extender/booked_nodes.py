"""Nodes whose room a ProvisioningRequest has booked: a pod is let through to what is left of them.

kube-scheduler counts CPU and memory itself and knows nothing of bookings, so here all of a pod
counts on such nodes, also of pods without volumes, and of pods that are still on their way.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from tonnage.rules import pipeline
from tonnage.rules.causes import Cause, Reason
from tonnage.rules.framework import Ask
from tonnage.scheduler.extender import node_verdicts
from tonnage.scheduler.extender.node_verdicts import Judgement
from tonnage.service.booked_room import BookedRoom
from tonnage.snapshot import imagined
from tonnage.snapshot.bulk_pods import Footprint
from tonnage.snapshot.reservations import Reservation, Reservations, Share, Source
from tonnage.snapshot.snapshot import Snapshot

_PODS = "pods"
_ON_THEIR_WAY = (Source.SELECTED_NODE, Source.LET_THROUGH)


def left_alone(
    ask: Ask,
    found: Judgement,
    booked: BookedRoom,
    reservations: Reservations,
    judge: Callable[[Sequence[str]], Judgement],
) -> Judgement:
    """What was found, without the nodes on which the pod fits only into booked room."""
    snapshot = ask.snapshot
    fits = pipeline.evaluate(snapshot, ask.pod, ask.features).fits
    rows = {name: snapshot.nodes[name].row for name in found.passing}
    with snapshot.trial():
        booked.place(ask.pod)
        _place_coming(snapshot, reservations, but=ask.pod.key)
        beside = pipeline.evaluate(snapshot, ask.pod, ask.features).fits
        # Where the pod fits nowhere by our own light, the scheduler knows more than we do.
        free = [name for name, row in rows.items() if beside[row] or not fits[row]]
        left = judge(free)
    passing = set(left.passing)
    taken = [name for name in found.passing if name not in passing]
    reason = Reason(Cause.ROOM_BOOKED)
    return left._replace(
        failed=found.failed,
        unresolvable={
            **found.unresolvable,
            **dict.fromkeys(taken, node_verdicts.text(reason)),
        },
        shares=(*left.shares, *_on_booked(snapshot, booked, left.passing)),
        causes=dict(Counter(found.causes) + Counter({reason.cause: len(taken)})),
    )


def _on_booked(snapshot: Snapshot, booked: BookedRoom, names: list[str]) -> Iterator[Share]:
    """That the pod itself may come to nodes on which room is booked."""
    rows = [snapshot.nodes[name].row for name in booked.nodes() & set(names)]
    if rows:
        counts = np.ones(len(rows), dtype=np.int16)
        yield Share(_PODS, np.array(sorted(rows), dtype=np.int32), counts)


def _place_coming(snapshot: Snapshot, reservations: Reservations, *, but: str) -> None:
    """Put pods on booked nodes that may be on their way there; their slots are counted apart."""
    for entry in reservations.of(*_ON_THEIR_WAY):
        record = snapshot.pods.get(entry.holder)
        if record is None or record.node_name or entry.holder == but:
            continue
        rows = _rows(snapshot, entry)
        if len(rows):
            ones = np.ones(len(rows), dtype=np.int64)
            imagined.place(snapshot, Footprint(record.pod_class, {}), rows, ones)


def _rows(snapshot: Snapshot, entry: Reservation) -> npt.NDArray[np.intp]:
    node = snapshot.nodes.get(entry.node)
    if node is not None:
        return np.array([node.row], dtype=np.intp)
    found = [share.rows for share in entry.shares if share.resource == _PODS]
    return np.array(found[0] if found else (), dtype=np.intp)
