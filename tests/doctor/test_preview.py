"""What opting in would change is told before anyone does it."""

import pytest

from tests.doctor import broken_clusters
from tests.doctor.broken_clusters import EBS
from tonnage.doctor import preview
from tonnage.errors import InputError
from tonnage.objects.kinds import KubeObject
from tonnage.testing import builders


def cluster(*more: KubeObject) -> list[KubeObject]:
    """n1 has the driver, n2 has not; a pod with a claim waits."""
    return [
        broken_clusters.typed("n1"),
        broken_clusters.typed("n2"),
        builders.csinode("n1", {EBS: 25}),
        builders.csinode("n2"),
        builders.csidriver(EBS),
        builders.storage_class("fast", EBS),
        builders.pvc("waits", storage_class="fast"),
        builders.pod("waits", volumes=[builders.claim_volume("waits")]),
        *more,
    ]


def test_nodes_without_the_driver_are_named() -> None:
    assert preview.opting_in(broken_clusters.evidence(*cluster()), EBS).nodes == ("n2",)


def test_a_waiting_pod_loses_the_nodes_without_it() -> None:
    (affected,) = preview.opting_in(broken_clusters.evidence(*cluster()), EBS).waiting
    assert (affected.pod, affected.fits_now, affected.fits_then) == ("default/waits", 2, 1)


def test_a_pod_without_its_volumes_is_not_affected() -> None:
    found = preview.opting_in(broken_clusters.evidence(*cluster(builders.pod("web"))), EBS)
    assert [one.pod for one in found.waiting] == ["default/waits"]


def test_pods_that_run_without_the_driver_could_not_come_back() -> None:
    found = preview.opting_in(
        broken_clusters.evidence(*cluster(*broken_clusters.users("n2", 1))), EBS
    )
    assert found.running == ("default/db-0",)


def test_groups_whose_new_nodes_lack_it_could_not_grow() -> None:
    objects = cluster(
        broken_clusters.group("with", csinode=True), broken_clusters.group("without", csinode=False)
    )
    assert preview.opting_in(broken_clusters.evidence(*objects), EBS).groups == ("without",)


def test_nothing_changes_for_a_driver_that_opted_in() -> None:
    objects = [one for one in cluster() if one != builders.csidriver(EBS)]
    objects.append(builders.csidriver(EBS, opt_in=True))
    found = preview.opting_in(broken_clusters.evidence(*objects), EBS)
    assert (found.opted_in_already, found.waiting) == (True, ())


def test_an_unknown_driver_is_refused_with_those_there_are() -> None:
    with pytest.raises(InputError, match=EBS):
        preview.opting_in(broken_clusters.evidence(*cluster()), "nope")
