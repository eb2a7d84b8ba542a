"""Gangs among the pods that wait: who belongs together, and how many of them have to run at once.

A gang is decided on with all of its pods that have no node, also those that the scheduler has not
refused yet or holds back for the others: whoever asks for one of them asks for all.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import msgspec

from tonnage.groups.inputs import Inputs
from tonnage.objects import gangs
from tonnage.objects.gangs import KUEUE_GROUP, AnyPodGroup, GangName
from tonnage.scaleup import underway
from tonnage.snapshot.snapshot import PodRecord, Snapshot


class Gang(msgspec.Struct, frozen=True):
    """Pods that are of use only together. `members` are to be decided on, in the order they came.

    `minimum` is how many have to run at once, and `running` how many have a node. `problem` says
    why it cannot be decided on, if it cannot.
    """

    name: GangName
    minimum: int
    running: int
    members: tuple[PodRecord, ...]
    problem: str = ""

    @property
    def lacks(self) -> int:
        """How many of the members have to find a place for any of them to run."""
        return max(self.minimum - self.running, 0)


class PendingPods(msgspec.Struct, frozen=True):
    """Pods that wait: those that go one by one, and gangs, the most important and oldest first."""

    single: Sequence[PodRecord]
    gangs: Sequence[Gang] = ()


def sort_out(
    inputs: Inputs,
    pending: Sequence[PodRecord],
    without_node: Iterable[PodRecord],
    *,
    may_count: Callable[[PodRecord], bool],
) -> PendingPods:
    """Find the gangs among pods that wait; upstream knows of none.

    `may_count` says of another member without a node whether it is to be decided on too.
    """
    if inputs.options.as_upstream:
        return PendingPods(pending)
    return of_pods(
        inputs.cluster.snapshot,
        pending,
        without_node,
        pod_groups=inputs.cluster.pod_groups,
        unread=inputs.unread_gangs,
        may_count=may_count,
        now=inputs.now,
    )


def of_pods(
    snapshot: Snapshot,
    pending: Sequence[PodRecord],
    without_node: Iterable[PodRecord],
    *,
    pod_groups: Iterable[AnyPodGroup],
    unread: Collection[str],
    may_count: Callable[[PodRecord], bool],
    now: float,
) -> PendingPods:
    """The same for who has no inputs; groups of API groups that are `unread` are no gangs."""
    asked = {record.gang for record in pending if record.gang is not None}
    asked = {name for name in asked if name.api_group not in unread}
    if not asked:
        return PendingPods(pending)
    keys = {record.key for record in pending}
    members: dict[GangName, list[PodRecord]] = {name: [] for name in asked}
    for record in pending:
        if record.gang in asked:
            members[record.gang].append(record)
    others = [one for one in without_node if one.gang in asked and one.key not in keys]
    bound = {one.holder for one in underway.being_bound(snapshot, others, now=now)}
    running = Counter(one.gang for one in others if one.key in bound)
    running.update(_running(snapshot, asked))
    for record in others:
        if record.gang is not None and record.key not in bound and may_count(record):
            members[record.gang].append(record)
    told = {gangs.name_of(group): group for group in pod_groups}
    found = [
        _gang(name, sorted(some, key=lambda record: record.order), running[name], told)
        for name, some in members.items()
    ]
    whole = [gang for gang in found if gang is not None]
    in_gangs = {gang.name for gang in whole}
    single = [record for record in pending if record.gang not in in_gangs]
    whole.sort(key=lambda gang: (-_priority(gang), gang.members[0].order))
    return PendingPods(single, tuple(whole))


def _gang(
    name: GangName,
    members: list[PodRecord],
    running: int,
    told: Mapping[GangName, AnyPodGroup],
) -> Gang | None:
    """What is asked of the group; nothing if its pods may go one by one."""
    minimum: int | None
    if name.api_group == KUEUE_GROUP:
        sizes = {gangs.kueue_total(record.meta) for record in members}
        minimum = next(iter(sizes)) if len(sizes) == 1 else None
        if minimum is None:
            wrong = f"{gangs.KUEUE_TOTAL_ANNOTATION} is no number that all of its pods agree on"
            return Gang(name, 0, running, tuple(members), wrong)
    elif name not in told:
        return Gang(name, 0, running, tuple(members), f"there is no {name}")
    else:
        minimum = gangs.minimum_of(told[name])
        if minimum is None or minimum == 1:
            return None
        if minimum < 1:
            wrong = f"its minimum is {minimum}, expected a number above 0"
            return Gang(name, 0, running, tuple(members), wrong)
    gang = Gang(name, minimum, running, tuple(members))
    if gang.lacks > len(members):
        count = gang.lacks - len(members)
        lacking = f"it waits for {count} more pod{'s' if count != 1 else ''} to be made"
        return msgspec.structs.replace(gang, problem=lacking)
    return gang if gang.lacks else None


def _running(snapshot: Snapshot, names: set[GangName]) -> Iterable[GangName]:
    """The gang of every pod that has a node and keeps it."""
    return (
        record.gang
        for record in snapshot.pods.values()
        if record.gang in names and record.node_name and not record.terminating
    )


def _priority(gang: Gang) -> int:
    return max(record.pod_class.priority for record in gang.members)
