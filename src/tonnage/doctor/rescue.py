"""Pods that hang in ContainerCreating because their node cannot attach all their volumes.

Nobody moves them by themselves: to the scheduler they have a node, to the kubelet they wait for a
volume. Evicted, they are scheduled again, by what knows better this time.
"""

from collections.abc import Callable, Iterable, Sequence

import msgspec

from tonnage.cluster import errors
from tonnage.cluster.client import Client
from tonnage.doctor.evidence import Evidence
from tonnage.errors import ClusterError
from tonnage.objects import timestamps
from tonnage.objects.meta import Record
from tonnage.objects.pods import Pod
from tonnage.objects.storage import PersistentVolumeClaim
from tonnage.snapshot.slots import UNLIMITED
from tonnage.snapshot.snapshot import PodRecord

AFTER = 120.0
"""Seconds a pod may take to start before it counts as stuck: attaching takes a while anyway."""


class Stuck(Record, frozen=True, kw_only=True):
    """A pod that waits for a slot. `surplus` says that its node has too many without it gone.

    `claimed_at` is when the youngest of its claims was made; the pod with the oldest one is the
    last to be evicted, because it was there first.
    """

    pod: str
    node: str
    driver: str
    volumes: int
    waited: float
    claimed_at: float
    surplus: bool = False


def find(evidence: Evidence, *, after: float = AFTER) -> list[Stuck]:
    """Node by node, the ones to evict first at the top."""
    snapshot = evidence.snapshot
    attached = {
        (attachment.spec.node_name, attachment.spec.source.persistent_volume_name)
        for attachment in snapshot.attachments.values()
        if attachment.status.attached
    }
    claims = {
        (one.metadata.namespace, one.metadata.name): one
        for one in evidence.of(PersistentVolumeClaim)
    }
    pods = {one.metadata.key: one for one in evidence.of(Pod)}
    found: list[Stuck] = []
    for node in snapshot.ordered_nodes():
        for driver in snapshot.slots.drivers():
            limit = int(driver.limit.data[node.row])
            over = int(driver.used.data[node.row] + driver.idle_attachments.data[node.row]) - limit
            if limit == UNLIMITED or over <= 0:
                continue
            waiting = [
                one
                for record in snapshot.pods_on(node.name)
                if (one := _stuck(pods[record.key], record, driver.name, evidence.now, claims))
                and one.waited >= after
                and not _all_attached(record, node.name, attached, claims)
            ]
            found.extend(_marked(waiting, over))
    return found


async def evict(
    client: Client,
    stuck: Iterable[Stuck],
    pods: Sequence[Pod],
    *,
    budget: int,
    tell: Callable[[str], None],
) -> int:
    """Evict those of the surplus, no more than the budget; how many went."""
    by_key = {pod.metadata.key: pod for pod in pods}
    gone = 0
    for one in stuck:
        if not one.surplus or gone >= budget:
            continue
        try:
            await client.evict(by_key[one.pod])
        except errors.NotFound:
            continue
        except errors.TooManyRequests:
            tell(f"{one.pod}: a disruption budget does not allow it now")
        except ClusterError as error:
            tell(f"{one.pod}: not evicted: {error}")
        else:
            tell(f"{one.pod}: evicted from {one.node}")
            gone += 1
    return gone


def _stuck(
    pod: Pod,
    record: PodRecord,
    driver: str,
    now: float,
    claims: dict[tuple[str, str], PersistentVolumeClaim],
) -> Stuck | None:
    """The pod if it has not started and has volumes of the driver."""
    volumes = sum(use.driver == driver for use in (*record.slots.uses, *record.slots.migrated))
    if pod.status.phase not in ("", "Pending") or record.terminating or not volumes:
        return None
    made = [
        timestamps.parse(claim.metadata.creation_timestamp)
        for claim in _claims_of(record, claims)
        if claim.metadata.creation_timestamp
    ]
    since = pod.status.start_time or pod.metadata.creation_timestamp
    return Stuck(
        pod=record.key,
        node=record.node_name,
        driver=driver,
        volumes=volumes,
        waited=now - timestamps.parse(since) if since else float("inf"),
        claimed_at=max(made, default=0.0),
    )


def _marked(waiting: list[Stuck], over: int) -> list[Stuck]:
    """Youngest claim first; as many as bring the node down to its limit are surplus."""
    ordered = sorted(waiting, key=lambda one: (-one.claimed_at, one.pod))
    marked = []
    for one in ordered:
        marked.append(msgspec.structs.replace(one, surplus=over > 0))
        over -= one.volumes
    return marked


def _claims_of(
    record: PodRecord, claims: dict[tuple[str, str], PersistentVolumeClaim]
) -> list[PersistentVolumeClaim]:
    names = [volume.claim for volume in record.volumes if volume.claim]
    return [
        found for name in names if (found := claims.get((record.meta.namespace, name))) is not None
    ]


def _all_attached(
    record: PodRecord,
    node: str,
    attached: set[tuple[str, str | None]],
    claims: dict[tuple[str, str], PersistentVolumeClaim],
) -> bool:
    """Then it does not wait for a slot, but for something else."""
    volumes = [claim.spec.volume_name for claim in _claims_of(record, claims)]
    return bool(volumes) and all((node, volume) in attached for volume in volumes)
