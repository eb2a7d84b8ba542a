"""PodGroups of a live cluster, read while pods name one."""

from collections.abc import Iterable
from typing import NamedTuple

from tonnage.objects.gangs import (
    COSCHEDULING_GROUP,
    SCHEDULING_GROUP,
    AnyPodGroup,
    CoschedulingPodGroup,
    WorkloadPodGroup,
)
from tonnage.service.wanted_kinds import WantedKinds
from tonnage.snapshot.snapshot import PodRecord

_KINDS: dict[str, type[AnyPodGroup]] = {
    SCHEDULING_GROUP: WorkloadPodGroup,
    COSCHEDULING_GROUP: CoschedulingPodGroup,
}


class KnownPodGroups(NamedTuple):
    """The PodGroups there are. Of an API group that is `unread` nothing can be known: its pods go
    one by one, and `problems` say why where that is no matter of course. Of those `not_synced` more
    is known in a moment."""

    groups: tuple[AnyPodGroup, ...] = ()
    unread: frozenset[str] = frozenset()
    not_synced: frozenset[str] = frozenset()
    problems: tuple[str, ...] = ()


def known(kinds: WantedKinds, pods: Iterable[PodRecord]) -> KnownPodGroups:
    """What is known of the PodGroups that these pods name."""
    named = {record.gang.api_group for record in pods if record.gang is not None}
    groups: list[AnyPodGroup] = []
    unread, not_synced, problems = set(), set(), []
    for api_group in sorted(named & _KINDS.keys()):
        cache = kinds.cache(_KINDS[api_group])
        if cache.obstacle is not None:
            unread.add(api_group)
            if cache.obstacle.forbidden:
                problems.append(f"{cache.obstacle.right}: pods of gangs are decided on one by one")
        elif cache.synced:
            groups += cache
        else:
            not_synced.add(api_group)
    return KnownPodGroups(tuple(groups), frozenset(unread), frozenset(not_synced), tuple(problems))
