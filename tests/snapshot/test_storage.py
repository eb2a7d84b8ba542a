"""Storage by name, and the indexes over it: what a rebuild would say, after any change."""

from collections.abc import Iterable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.snapshot.histories import lean
from tonnage.objects.storage import CLASS_ANNOTATION, PersistentVolume
from tonnage.rules import features, pipeline
from tonnage.snapshot.snapshot import Snapshot
from tonnage.snapshot.storage import StorageState, limit_of
from tonnage.testing.builders import capacity, node, nodes_with, pod, pv, pvc, storage_class

DRIVER = "csi.example"


@pytest.mark.parametrize(
    ("free", "largest", "limit"),
    [
        pytest.param("5Gi", None, 5 * 1024**3, id="the free space"),
        pytest.param("5Gi", "1Gi", 1024**3, id="the largest volume, if that is said"),
        pytest.param("5Gi", "0", 0, id="no volume at all, if that is said"),
        pytest.param(None, None, None, id="nothing, if nothing is said"),
        pytest.param("1500m", None, 2, id="fractions are rounded up"),
    ],
)
def test_a_capacity_promises_so_much(free, largest, limit) -> None:
    assert limit_of(capacity("c", "local", free=free, largest=largest)) == limit


def test_volumes_reserved_for_a_claim_are_found_by_its_name() -> None:
    claim = pvc("data", storage_class="local")
    reserved, free = pv("a", driver=DRIVER, claim=claim), pv("b", driver=DRIVER)
    storage = StorageState()
    storage.put_volume(reserved)
    storage.put_volume(free)

    assert storage.reserved_for("default", "data") == (reserved,)
    assert storage.reserved_for("other", "data") == ()


def test_a_volume_that_is_released_is_reserved_for_nobody() -> None:
    claim = pvc("data", storage_class="local")
    storage = StorageState()
    storage.put_volume(pv("a", driver=DRIVER, claim=claim))
    storage.put_volume(pv("a", driver=DRIVER, phase="Released"))

    assert storage.reserved_for("default", "data") == ()


def test_a_capacity_that_changes_its_class_is_found_under_the_new_one() -> None:
    storage = StorageState()
    storage.put_capacity(capacity("c", "old", free="1Gi"))
    storage.put_capacity(capacity("c", "new", free="1Gi"))

    assert [one.metadata.name for one in storage.capacities_of("new")] == ["c"]
    assert list(storage.capacities_of("old")) == []
    assert storage.capacity_index("old").others == []


def test_an_index_of_capacities_follows_changes() -> None:
    storage = StorageState()
    storage.put_capacity(capacity("c", "local", free="1Gi", topology={"rack": "r1"}))
    before = storage.capacity_index("local").by_label["rack"].get("r1")
    storage.put_capacity(capacity("c", "local", free="2Gi", topology={"rack": "r1"}))
    after = storage.capacity_index("local").by_label["rack"].get("r1")
    storage.drop_capacity("default", "c")

    assert (before, after) == (1024**3, 2 * 1024**3)
    assert storage.capacity_index("local").by_label == {}


def test_an_index_that_was_asked_for_too_early_knows_what_came_later() -> None:
    storage = StorageState()
    before = storage.capacity_index("local").others
    storage.put_capacity(capacity("c", "local", free="1Gi"))

    assert (before, len(storage.capacity_index("local").others)) == ([], 1)


def test_a_capacity_is_named_by_its_namespace_too() -> None:
    storage = StorageState()
    for namespace in ("a", "b"):
        storage.put_capacity(capacity("c", "local", free="1Gi", namespace=namespace))
    storage.drop_capacity("a", "c")

    assert [one.metadata.namespace for one in storage.capacities_of("local")] == ["b"]


# Volumes that are free to take, arranged for the claims that ask.

RACKS = ("r1", "r2", "r3")
NODES = [node(f"n{number}", labels={"rack": rack}) for number, rack in enumerate(RACKS)]
STATIC = storage_class("static", "kubernetes.io/no-provisioner")

volumes = st.lists(
    st.tuples(
        st.integers(1, 4),
        st.sampled_from([(), ("r1",), ("r2",), ("r1", "r2"), ("r3", "r3")]),
        st.sampled_from(["fast", "slow"]),
        st.sampled_from([("ReadWriteOnce",), ("ReadWriteOnce", "ReadWriteMany")]),
    ),
    max_size=7,
)


def made(
    found: Iterable[tuple[int, tuple[str, ...], str, tuple[str, ...]]],
) -> list[PersistentVolume]:
    """Volumes of different sizes: which of two equal ones is taken is nobody's business."""
    return [
        pv(
            f"pv-{number}",
            driver=DRIVER,
            storage_class="static",
            size=f"{size}{number:03}Mi",
            labels={"kind": kind},
            access_modes=modes,
            node_affinity=nodes_with("rack", *racks) if racks else None,
        )
        for number, (size, racks, kind, modes) in enumerate(found)
    ]


@given(volumes, st.lists(st.integers(0, 13), max_size=12))
@lean(150)
def test_volumes_that_come_and_go_leave_the_same_choice_as_a_rebuild(found, script) -> None:
    """In between somebody asks, so that arrangements are kept and changed."""
    pool = made(found)
    wanted = [pvc(f"claim-{n}", storage_class="static", size=f"{n}000Mi") for n in (1, 2)]
    asking = pod("web", pvcs=["claim-1", "claim-2"])
    base = [*NODES, STATIC, *wanted, asking]
    snapshot = Snapshot.of([*base, *pool])
    left = {one.metadata.name: one for one in pool}
    for number in script:
        if pool:
            one = pool[number % len(pool)]
            if number % 2 and one.metadata.name in left:
                snapshot.apply("DELETED", one)
                del left[one.metadata.name]
            else:
                changed = number % 3 == 0
                now = relabelled(one) if changed else one
                snapshot.apply("MODIFIED", now)
                left[one.metadata.name] = now
        pipeline.evaluate(snapshot, snapshot.pods["default/web"], features.of_version())
    rebuilt = Snapshot.of([*base, *left.values()])
    lived, fresh = (
        pipeline.evaluate(one, one.pods["default/web"], features.of_version()).fits.tolist()
        for one in (snapshot, rebuilt)
    )

    assert lived == fresh


def relabelled(one: PersistentVolume) -> PersistentVolume:
    """The same volume, of another class."""
    meta = msgspec.structs.replace(one.metadata, annotations={CLASS_ANNOTATION: "other"})
    return msgspec.structs.replace(one, metadata=meta)
