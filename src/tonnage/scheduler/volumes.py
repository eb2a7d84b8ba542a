"""What the claims of a pod need before it can be bound to a node.

The filters have said that the node can serve them; here the same matching says with which volumes.
"""

from tonnage.objects.storage import SELECTED_NODE_ANNOTATION, PersistentVolumeClaim
from tonnage.rules import volume_binding
from tonnage.rules.features import Features
from tonnage.rules.framework import Ask, Rejection
from tonnage.rules.volume_matching import Matching
from tonnage.scheduler.scheduler_cache import NOTHING_TO_BIND, VolumeChoice
from tonnage.snapshot.open_volumes import size_wanted
from tonnage.snapshot.snapshot import PodRecord, Snapshot


def choose(snapshot: Snapshot, record: PodRecord, row: int, features: Features) -> VolumeChoice:
    """Volumes for the claims that wait for their pod to have a node, which is the one on the row.

    A claim without a volume to take gets a new one.
    """
    if not record.volumes:
        return NOTHING_TO_BIND
    ask = Ask(snapshot, record, features)
    waiting = _waiting(ask)
    if not waiting:
        return NOTHING_TO_BIND
    provision = [one for one in waiting if SELECTED_NODE_ANNOTATION in one.metadata.annotations]
    searching = [one for one in waiting if one not in provision]
    matching = Matching(ask)
    prebind = []
    # In the filter's order, or a volume might go to another claim than it thought.
    for claim in sorted(searching, key=size_wanted):
        matching.unserved(claim)
        volume = matching.volume_for(claim, row)
        if volume is None:
            provision.append(claim)
        else:
            prebind.append((volume, claim))
    return VolumeChoice(tuple(prebind), tuple(provision))


def follows_by_name(snapshot: Snapshot, record: PodRecord) -> bool:
    """Whether volumes that exist may be taken, so that each pod changes what the next finds."""
    return any(
        snapshot.storage.open_volumes(claim.class_name).none
        or snapshot.storage.reserved_for(claim.metadata.namespace, claim.metadata.name)
        for claim in _claims(snapshot, record)
        if not claim.spec.volume_name
    )


def _waiting(ask: Ask) -> list[PersistentVolumeClaim]:
    sorted_out = volume_binding.sort_out(ask, _claims(ask.snapshot, ask.pod))
    return [] if isinstance(sorted_out, Rejection) else sorted_out.waiting


def _claims(snapshot: Snapshot, record: PodRecord) -> list[PersistentVolumeClaim]:
    names = dict.fromkeys(volume.claim for volume in record.volumes if volume.claim)
    found = (snapshot.storage.claim(record.meta.namespace, name) for name in names)
    return [claim for claim in found if claim is not None]
