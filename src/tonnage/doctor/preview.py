"""Who would be affected if a driver opted in: asked before anyone flips the switch."""

from tonnage.doctor.evidence import Evidence
from tonnage.errors import InputError
from tonnage.groups import drivers
from tonnage.objects import volumes
from tonnage.objects.meta import Record
from tonnage.objects.scenarios import API_VERSION
from tonnage.objects.storage import CSIDriver, CSINode, StorageClass
from tonnage.rules import pipeline
from tonnage.scaleup import decision
from tonnage.snapshot.snapshot import PodRecord, Snapshot


class AffectedPod(Record, frozen=True, kw_only=True):
    """A waiting pod, with the number of nodes it fits on today and would fit on then."""

    pod: str
    fits_now: int
    fits_then: int


class OptInPreview(Record, frozen=True, kw_only=True, omit_defaults=False):
    """What opting in would change.

    `nodes` lack the driver, or have no CSINode at all, and would take no pod with its volumes.
    `waiting` are pods that would fit on fewer nodes; `running` pods are on such nodes already:
    they stay, and could not come back. `groups` could not grow for such pods.
    """

    api_version: str = API_VERSION
    kind: str = "OptInPreview"
    driver: str
    opted_in_already: bool
    nodes: tuple[str, ...]
    nodes_in_all: int
    waiting: tuple[AffectedPod, ...]
    running: tuple[str, ...]
    groups: tuple[str, ...]


def opting_in(evidence: Evidence, driver: str) -> OptInPreview:
    """Compare the cluster as it is with the one in which the driver opted in and is heeded."""
    known = {one.metadata.name for one in evidence.of(CSIDriver)}
    named = known.union(
        (one.provisioner for one in evidence.of(StorageClass)),
        (
            entry.name
            for csinode in evidence.inputs.csinodes.values()
            for entry in csinode.spec.drivers
        ),
    )
    if driver not in named:
        have = ", ".join(sorted(named)) or "none"
        raise InputError(f"no driver {driver!r} in the cluster; there are: {have}")
    snapshot = evidence.snapshot
    lacking = [
        name
        for name in evidence.inputs.nodes
        if driver not in drivers.by_name(evidence.inputs.csinodes.get(name))
    ]
    users = [record for record in snapshot.pods.values() if _uses(snapshot, record, driver)]
    bare = set(lacking)
    waiting = sorted((user for user in users if user.pending), key=lambda one: one.order)
    return OptInPreview(
        driver=driver,
        opted_in_already=any(one.metadata.name == driver for one in evidence.opted_in),
        nodes=tuple(lacking),
        nodes_in_all=len(evidence.inputs.nodes),
        waiting=tuple(_affected(evidence, waiting, bare)),
        running=tuple(user.key for user in users if user.node_name in bare),
        groups=tuple(
            group.id
            for group in evidence.inputs.groups
            if driver not in drivers.by_name(_csinode(evidence, group.id))
        ),
    )


def _affected(evidence: Evidence, waiting: list[PodRecord], bare: set[str]) -> list[AffectedPod]:
    """Opting in takes nodes without the driver away from a pod and changes nothing else."""
    found = []
    rows = [record.row for record in evidence.snapshot.ordered_nodes() if record.name in bare]
    features = decision.as_decided(evidence.inputs.features, evidence.inputs.options)
    for record in waiting:
        fits = pipeline.evaluate(evidence.snapshot, record, features).fits
        now = int(fits.sum())
        lost = int(fits[rows].sum())
        if lost:
            found.append(AffectedPod(pod=record.key, fits_now=now, fits_then=now - lost))
    return found


def _uses(snapshot: Snapshot, record: PodRecord, driver: str) -> bool:
    if not record.volumes:
        return False
    placed = bool(record.node_name)
    slots = volumes.slots(record.meta, record.volumes, snapshot.storage, placed=placed)
    return any(use.driver == driver for use in (*slots.uses, *slots.migrated))


def _csinode(evidence: Evidence, group: str) -> CSINode | None:
    template = evidence.templates.get(group)
    return template.csinode if template is not None else None
