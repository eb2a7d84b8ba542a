"""Claims meet existing volumes on all nodes at once, as they would on each node alone."""

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from tonnage.objects.kinds import KubeObject
from tonnage.objects.pods import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from tonnage.objects.storage import PersistentVolume, PersistentVolumeClaim
from tonnage.rules import features, pipeline
from tonnage.snapshot.snapshot import Snapshot
from tonnage.testing import reference
from tonnage.testing.builders import (
    HOSTNAME,
    ZONE,
    node,
    nodes_with,
    pod,
    pv,
    pvc,
    selecting,
    storage_class,
)

NODES = ("n0", "n1", "n2", "n3")
NEWEST = features.of_version()
sizes = st.sampled_from(("1Gi", "2Gi", "2048Mi", "3Gi"))


def in_zone_and_on(zone: str, host: str) -> NodeSelector:
    """An affinity that is more than one label with one of some values."""
    terms = NodeSelectorTerm(
        match_expressions=(
            NodeSelectorRequirement(key=ZONE, operator="In", values=(zone,)),
            NodeSelectorRequirement(key=HOSTNAME, operator="In", values=(host,)),
        )
    )
    return NodeSelector(node_selector_terms=(terms,))


affinities = st.one_of(
    st.none(),
    st.builds(nodes_with, st.just(HOSTNAME), st.sampled_from(NODES)),
    st.builds(nodes_with, st.just(HOSTNAME), st.just("n0"), st.just("n3")),
    st.builds(nodes_with, st.just(ZONE), st.sampled_from(("z0", "z1", "elsewhere"))),
    st.builds(in_zone_and_on, st.sampled_from(("z0", "z1")), st.sampled_from(NODES)),
)
volumes = st.builds(
    pv,
    st.uuids().map(str),
    driver=st.just("local.example"),
    storage_class=st.sampled_from(("local", "local", "other")),
    size=sizes,
    labels=st.sampled_from(({}, {"disk": "fast"})),
    node_affinity=affinities,
    access_modes=st.sampled_from((("ReadWriteOnce",), ("ReadWriteOnce", "ReadOnlyMany"))),
    phase=st.sampled_from(("Available", "Available", "Available", "Released")),
)
claims = st.builds(
    pvc,
    st.sampled_from(("a", "b", "c")),
    storage_class=st.sampled_from(("local", "local", "other")),
    size=sizes,
    selector=st.sampled_from((None, None, selecting({"disk": "fast"}))),
    access_modes=st.sampled_from((("ReadWriteOnce",), ("ReadOnlyMany",))),
)


def cluster() -> list[KubeObject]:
    return [
        *(node(name, zone=f"z{number % 2}") for number, name in enumerate(NODES)),
        storage_class("local", "kubernetes.io/no-provisioner"),
        storage_class("other", "kubernetes.io/no-provisioner"),
    ]


def reserved(volume: PersistentVolume, claim: PersistentVolumeClaim) -> PersistentVolume:
    reference_ = pv("any", claim=claim).spec.claim_ref
    return msgspec.structs.replace(
        volume, spec=msgspec.structs.replace(volume.spec, claim_ref=reference_)
    )


@settings(max_examples=300, deadline=None)
@given(
    st.lists(volumes, max_size=12, unique_by=lambda one: one.metadata.name),
    st.lists(claims, min_size=1, max_size=3, unique_by=lambda one: one.metadata.name),
    st.lists(st.sampled_from(("a", "b", "c")), min_size=1, max_size=4),
    st.booleans(),
)
def test_every_node_gets_what_it_would_get_alone(
    held: list[PersistentVolume],
    wanted: list[PersistentVolumeClaim],
    used: list[str],
    reserve: bool,
) -> None:
    if reserve and held:
        held[0] = reserved(held[0], wanted[0])
    names = {claim.metadata.name for claim in wanted}
    web = pod("web", pvcs=[name for name in used if name in names])
    objects = [*cluster(), *held, *wanted]

    snapshot = Snapshot.of(objects)
    found = pipeline.evaluate(snapshot, snapshot.record_of(web), NEWEST)

    plain = reference.verdicts(reference.ReferenceCluster(objects), web)
    assert {one.node: tuple(one.texts) for one in found} == {one.node: one.reasons for one in plain}


def test_a_volume_that_was_taken_is_passed_over_until_it_is_given_back() -> None:
    volume = pv("disk", driver="local.example", storage_class="local")
    claim = pvc("a", storage_class="local")
    snapshot = Snapshot.of([*cluster(), volume, claim])
    record = snapshot.record_of(pod("web", pvcs=["a"]))
    fits = [pipeline.evaluate(snapshot, record, NEWEST).fits.all()]
    with snapshot.trial():
        snapshot.put_volume(reserved(volume, pvc("somebody-else", storage_class="local")))
        fits.append(pipeline.evaluate(snapshot, record, NEWEST).fits.all())
    fits.append(pipeline.evaluate(snapshot, record, NEWEST).fits.all())

    assert fits == [True, False, True]


def test_a_volume_is_reachable_from_a_node_that_came_after_it() -> None:
    disk = pv("disk", storage_class="local", node_affinity=nodes_with(HOSTNAME, "late"))
    snapshot = Snapshot.of([*cluster(), disk, pvc("a", storage_class="local")])
    record = snapshot.record_of(pod("web", pvcs=["a"]))
    before = pipeline.evaluate(snapshot, record, NEWEST).fits.any()
    snapshot.put_node(node("late"))

    assert not before
    assert pipeline.evaluate(snapshot, record, NEWEST).on("late").texts == []
