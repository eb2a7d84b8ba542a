"""A local disk that is pledged beyond what it has is noticed; and no other."""

from tests.simulation.context import LOCAL, OPTED_IN, Stage, played
from tonnage.simulation.checks import disks, pending_pods
from tonnage.simulation.checks.pending_pods import PATIENCE


def test_claims_for_which_the_disk_has_room_are_fine() -> None:
    async def act(stage: Stage) -> None:
        for name in ("a", "b"):
            stage.pod(name, LOCAL)
            stage.send(name, "east-1")

    assert played(act).rules == []


def test_a_claim_too_many_on_its_way_to_a_disk() -> None:
    async def act(stage: Stage) -> None:
        for name in ("a", "b", "c"):
            stage.pod(name, LOCAL)
            stage.send(name, "east-1")

    assert played(act).rules == [disks.PLEDGED_BEYOND]


def test_a_claim_too_many_beside_volumes_that_were_made() -> None:
    async def act(stage: Stage) -> None:
        for name in ("a", "b"):
            stage.pod(name, LOCAL)
            stage.send(name, "east-1")
            stage.provision(name, "east-1")
        stage.pod("c", LOCAL)
        stage.send("c", "east-1")

    assert played(act).rules == [disks.PLEDGED_BEYOND]


def test_a_volume_takes_its_space_once() -> None:
    async def act(stage: Stage) -> None:
        stage.pod("a", LOCAL)
        stage.send("a", "east-1")
        stage.provision("a", "east-1")
        stage.pod("b", LOCAL)
        stage.send("b", "east-1")

    assert played(act).rules == []


def test_a_claim_that_is_sent_elsewhere_frees_its_space() -> None:
    async def act(stage: Stage) -> None:
        for name in ("a", "b"):
            stage.pod(name, LOCAL)
            stage.send(name, "east-1")
        stage.send("b", "west-1")
        stage.pod("c", LOCAL)
        stage.send("c", "east-1")

    assert played(act).rules == []


def test_other_nodes_have_disks_of_their_own() -> None:
    async def act(stage: Stage) -> None:
        for name, node in (("a", "east-1"), ("b", "east-1"), ("c", "west-1")):
            stage.pod(name, LOCAL)
            stage.send(name, node)

    assert played(act).rules == []


def test_drivers_without_disks_have_room_for_everything() -> None:
    async def act(stage: Stage) -> None:
        for number in range(9):
            stage.pod(f"p{number}", OPTED_IN)
            stage.send(f"p{number}", "east-1", driver=OPTED_IN)

    assert disks.PLEDGED_BEYOND not in played(act).rules


def test_a_pod_left_waiting_though_a_disk_has_room() -> None:
    async def act(stage: Stage) -> None:
        stage.csi_node("east-1", local=True)
        stage.pod("a", LOCAL)
        await stage.after(2 * PATIENCE)
        stage.something_happens()

    assert played(act).rules == [pending_pods.HAS_A_PLACE]


def test_a_pod_that_no_disk_has_room_for_may_wait() -> None:
    async def act(stage: Stage) -> None:
        stage.csi_node("east-1", local=True)
        for name in ("a", "b"):
            stage.pod(name, LOCAL)
            stage.send(name, "east-1")
            stage.provision(name, "east-1")
            stage.bind(name, "east-1")
        stage.pod("c", LOCAL)
        await stage.after(2 * PATIENCE)
        stage.something_happens()

    assert played(act).rules == []
