"""Claims without a volume: read once, and forgotten with every change that may tell otherwise."""

from tonnage.objects.kinds import KubeObject
from tonnage.snapshot.snapshot import Snapshot
from tonnage.snapshot.waiting_claims import ClaimsOfPod, WaitingClaim
from tonnage.testing import builders as make

KEY = ("default", "data")


def snapshot(*objects: KubeObject) -> Snapshot:
    return Snapshot.of([make.storage_class("fast", "ebs.csi.aws.com"), *objects])


def read(held: Snapshot, name: str = "data") -> WaitingClaim | None:
    return held.storage.waiting_claims.get(("default", name))


def kind(held: Snapshot, name: str = "data") -> int:
    found = read(held, name)
    assert found is not None
    return found.kind


def claims_of(held: Snapshot, pod: str) -> ClaimsOfPod | None:
    return held.pods[f"default/{pod}"].waiting_claims(held.storage.waiting_claims)


def test_claims_that_differ_in_their_names_alone_are_of_one_kind() -> None:
    held = snapshot(make.pvc("data", storage_class="fast"), make.pvc("logs", storage_class="fast"))

    assert kind(held) == kind(held, "logs")


def test_claims_of_different_sizes_are_of_different_kinds() -> None:
    held = snapshot(
        make.pvc("data", storage_class="fast"), make.pvc("logs", storage_class="fast", size="2Gi")
    )

    assert kind(held) != kind(held, "logs")


def test_a_claim_that_changes_is_read_again() -> None:
    held = snapshot(make.pvc("data", storage_class="fast"))
    before = kind(held)

    held.put_claim(make.pvc("data", storage_class="fast", size="2Gi"))

    assert kind(held) != before


def test_what_was_read_of_a_claim_holds_no_longer_when_it_changes() -> None:
    held = snapshot(make.pvc("data", storage_class="fast"))
    before = read(held)

    held.put_claim(make.pvc("data", storage_class="fast", selected_node="n1"))

    assert before is not None
    assert not before.holds


def test_a_claim_that_is_given_a_volume_waits_no_more() -> None:
    held = snapshot(make.pvc("data", storage_class="fast"))
    read(held)

    held.put_claim(make.pvc("data", storage_class="fast", volume="pv-1"))

    assert read(held) is None


def test_a_claim_that_goes_is_forgotten() -> None:
    held = snapshot(make.pvc("data", storage_class="fast"))
    read(held)

    held.drop_claim(*KEY)

    assert read(held) is None


def test_a_volume_that_is_set_aside_for_a_claim_makes_it_another_kind() -> None:
    claim = make.pvc("data", storage_class="fast")
    held = snapshot(claim)
    before = kind(held)

    held.put_volume(make.pv("pv-1", storage_class="fast", claim=claim, phase="Available"))
    named = kind(held)
    held.drop_volume("pv-1")

    assert kind(held) == before != named


def test_a_trial_that_is_reverted_leaves_what_is_read_true() -> None:
    held = snapshot(make.pvc("data", storage_class="fast"), make.pvc("logs", storage_class="fast"))
    before = kind(held)

    with held.trial():
        held.put_claim(make.pvc("data", storage_class="fast", size="2Gi"))
        held.drop_claim("default", "logs")
        changed, gone = kind(held), read(held, "logs")

    assert gone is None
    assert changed != before
    assert kind(held) == kind(held, "logs") == before


def test_a_pod_follows_the_changes_of_its_claims() -> None:
    held = snapshot(
        make.pvc("data", storage_class="fast"),
        make.pod("db", pvcs=["data"]),
    )
    first = claims_of(held, "db")
    again = claims_of(held, "db")

    held.put_claim(make.pvc("data", storage_class="fast", volume="pv-1"))

    assert first is not None
    assert again is first
    assert claims_of(held, "db") is None


def test_pods_whose_claims_are_alike_have_the_same() -> None:
    held = snapshot(
        make.pvc("data", storage_class="fast"),
        make.pvc("logs", storage_class="fast"),
        make.pod("db", pvcs=["data"]),
        make.pod("log", pvcs=["logs"]),
    )
    alike = claims_of(held, "db")

    assert alike is not None
    assert alike.classes == {"fast"}
    assert claims_of(held, "log") is alike

    held.put_claim(make.pvc("logs", storage_class="fast", size="2Gi"))

    assert claims_of(held, "db") is alike
    assert claims_of(held, "log") is not alike
