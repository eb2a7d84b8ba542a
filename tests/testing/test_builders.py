"""Builders give what their keywords say, and nothing else gets in the way."""

from tonnage.objects.storage import BIND_COMPLETED_ANNOTATION
from tonnage.objects.volume_sources import CinderSource, VolumeSource
from tonnage.testing import builders
from tonnage.testing.reference import ReferenceCluster, verdicts


def test_a_plain_pod_fits_a_plain_node() -> None:
    cluster = ReferenceCluster([builders.node("n1"), builders.pod("web")])

    assert [verdict.code for verdict in verdicts(cluster, cluster.pending()[0])] == ["Success"]


def test_a_pod_on_a_node_is_running_and_others_are_pending() -> None:
    assert builders.pod("web", on="n1").status.phase == "Running"
    assert builders.pod("web").status.phase == "Pending"


def test_requests_are_cpu_memory_and_whatever_else_is_named() -> None:
    pod = builders.pod("web", cpu="100m", memory="1Gi", requests={"example.com/gpu": 1})

    assert pod.spec.containers[0].resources.requests == {
        "cpu": "100m",
        "memory": "1Gi",
        "example.com/gpu": 1,
    }


def test_volumes_come_in_the_order_claims_ephemeral_others() -> None:
    pod = builders.pod("web", volumes=[VolumeSource(name="c")], ephemeral=["b"], pvcs=["a"])

    assert [volume.name for volume in pod.spec.volumes] == ["a", "b", "c"]


def test_a_claim_with_a_volume_is_bound() -> None:
    claim = builders.pvc("data", volume="pv-1")

    assert claim.fully_bound
    assert claim.status.phase == "Bound"


def test_a_prebound_claim_only_names_its_volume() -> None:
    claim = builders.pvc("data", volume="pv-1", bound=False)

    assert claim.spec.volume_name == "pv-1"
    assert BIND_COMPLETED_ANNOTATION not in claim.metadata.annotations


def test_an_owned_claim_is_controlled_by_its_pod() -> None:
    pod = builders.pod("web", ephemeral=["scratch"])
    claim = builders.pvc("web-scratch", owner=pod)

    assert claim.metadata.controller is not None
    assert claim.metadata.controller.uid == pod.metadata.uid


def test_a_volume_is_known_to_its_driver_by_its_name() -> None:
    volume = builders.pv("pv-1", driver="ebs.csi.aws.com")

    assert volume.spec.csi is not None
    assert volume.spec.csi.volume_handle == "pv-1"


def test_a_volume_takes_an_in_tree_source() -> None:
    source = VolumeSource(name="ignored", cinder=CinderSource(volume_id="v"))
    volume = builders.pv("pv-1", source=source)

    assert volume.spec.cinder == CinderSource(volume_id="v")
    assert volume.spec.name == ""


def test_a_driver_without_a_number_has_no_limit() -> None:
    unlimited, none_at_all = builders.csinode("n1", {"a": None, "b": 0}).spec.drivers

    assert unlimited.limit is None
    assert none_at_all.limit == 0
