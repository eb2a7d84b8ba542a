"""Local storage, counted from the API."""

from tests.embedded.embedded_cluster import DRIVER, Cluster
from tests.simulation.scenarios import played
from tonnage.embedded.apiserver.store import Collection, Occurrence
from tonnage.embedded.world import DriverBehaviour, WorldBehaviour
from tonnage.report.timeline import StorageUse
from tonnage.simulation.disks import DiskLedger
from tonnage.testing.clock import VirtualClock

GIB = 2**30
ZONES = {"n1": "a", "n2": "a", "n3": "b"}


def zonal_disks() -> tuple[Cluster, DiskLedger]:
    """Three nodes in two zones; those of a zone share a disk."""
    shared = DriverBehaviour(name=DRIVER, capacity="100Gi", topology={"zone": "zone"})
    world = WorldBehaviour(drivers=(shared,))
    cluster = Cluster(VirtualClock(), world)
    ledger = DiskLedger(cluster.server.store, world)

    def note(collection: Collection, change: Occurrence) -> None:
        if collection.kind.plural == "persistentvolumes":
            ledger.volume_changed(change.before, change.after)

    cluster.server.store.observers.append(note)
    for name, zone in ZONES.items():
        cluster.node(name, labels={"zone": zone})
    return cluster, ledger


def volume(cluster: Cluster, name: str, size: str, *, zone: str) -> None:
    expression = {"key": "zone", "operator": "In", "values": [zone]}
    spec = {
        "capacity": {"storage": size},
        "accessModes": ["ReadWriteOnce"],
        "csi": {"driver": DRIVER, "volumeHandle": name},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}},
    }
    cluster.put("persistentvolumes", name, spec=spec)


def storage(used: int, total: int) -> tuple[StorageUse, ...]:
    return (StorageUse(driver=DRIVER, used_bytes=used * GIB, total_bytes=total * GIB),)


def test_a_disk_that_nodes_share_is_counted_once() -> None:
    cluster, ledger = zonal_disks()
    volume(cluster, "v1", "60Gi", zone="a")
    volume(cluster, "v2", "10Gi", zone="b")
    assert ledger.totals({name: [DRIVER] for name in ZONES}) == storage(70, 200)


def test_a_volume_that_is_gone_takes_nothing() -> None:
    cluster, ledger = zonal_disks()
    volume(cluster, "v1", "60Gi", zone="a")
    cluster.delete("persistentvolumes", "v1")
    assert ledger.totals({name: [DRIVER] for name in ZONES}) == storage(0, 200)


def test_only_nodes_on_which_the_driver_is_registered_count() -> None:
    cluster, ledger = zonal_disks()
    volume(cluster, "v1", "60Gi", zone="a")
    assert ledger.totals({"n1": [], "n2": ["other"], "n3": [DRIVER]}) == storage(0, 100)


def test_samples_tell_how_local_storage_comes_and_is_used() -> None:
    samples = played("local-capacity").timeline().samples
    first, last = samples[0].local_storage, samples[-1].storage_of("local.example.com")
    assert first == ()
    assert (last.used_bytes, last.total_bytes) == (600 * GIB, 800 * GIB)


def test_samples_of_drivers_without_a_capacity_have_no_local_storage() -> None:
    samples = played("scale-from-zero").timeline().samples
    assert {one.local_storage for one in samples} == {()}
