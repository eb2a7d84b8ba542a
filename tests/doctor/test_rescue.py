"""Pods that hang for want of a slot are found, and evicted youngest first."""

from typing import TypeVar

import msgspec

from tests.doctor import ailing
from tests.doctor.ailing import EBS
from tonnage.doctor import rescue
from tonnage.objects.kinds import KubeObject
from tonnage.objects.pods import Pod
from tonnage.objects.storage import PersistentVolumeClaim
from tonnage.testing import builders

T = TypeVar("T", Pod, PersistentVolumeClaim)


def crowded(limit: int, pods: int, *, phase: str = "Pending") -> list[KubeObject]:
    """More pods than slots; the claim of `db-N` is N hours old."""
    objects: list[KubeObject] = [ailing.typed("n1"), builders.csinode("n1", {EBS: limit})]
    for one in ailing.users("n1", pods, phase=phase):
        if isinstance(one, Pod):
            one = created(one, "2033-05-18T03:00:00Z")
        if isinstance(one, PersistentVolumeClaim):
            hour = 10 - int(one.metadata.name.removeprefix("db-"))
            one = created(one, f"2033-05-17T{hour:02}:00:00Z")
        objects.append(one)
    return objects


def created(one: T, when: str) -> T:
    meta = msgspec.structs.replace(one.metadata, creation_timestamp=when)
    return msgspec.structs.replace(one, metadata=meta)


def surplus(objects: list[KubeObject]) -> list[str]:
    found = rescue.find(ailing.evidence(*objects))
    return [one.pod for one in found if one.surplus]


def test_as_many_as_are_too_many_are_to_go() -> None:
    assert len(surplus(crowded(3, 5))) == 2


def test_the_oldest_claim_goes_last() -> None:
    assert surplus(crowded(1, 3)) == ["default/db-0", "default/db-1"]


def test_a_node_at_its_limit_has_nobody_stuck() -> None:
    assert rescue.find(ailing.evidence(*crowded(3, 3))) == []


def test_a_pod_that_runs_is_not_stuck() -> None:
    assert rescue.find(ailing.evidence(*crowded(1, 3, phase="Running"))) == []


def test_a_pod_gets_its_time_to_start() -> None:
    assert rescue.find(ailing.evidence(*crowded(1, 3)), after=1e6) == []


def test_a_pod_whose_volumes_are_attached_waits_for_something_else() -> None:
    objects = crowded(2, 3)
    objects.append(builders.attachment("db-0", "n1", attacher=EBS))
    assert "default/db-0" not in [one.pod for one in rescue.find(ailing.evidence(*objects))]
