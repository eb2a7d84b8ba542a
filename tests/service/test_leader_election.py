"""Who may act, and since when the API server is known."""

import asyncio
import random

import msgspec
import pytest

from tests.cluster.apiserver import ApiServer, answer, status
from tonnage.clock.virtual import VirtualClock
from tonnage.cluster.calls import CallPatience
from tonnage.cluster.client import Client
from tonnage.errors import ClusterError
from tonnage.service.connections import server_version
from tonnage.service.leader_election import LeaderCandidate, Leadership

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
ONCE = CallPatience(attempts=1)


CANDIDATE = LeaderCandidate(identity="me", lease_name="l")


def leadership(
    client: Client, clock: VirtualClock, candidate: LeaderCandidate = CANDIDATE
) -> Leadership:
    return Leadership(client, candidate, clock=clock, rng=random.Random(1))


@pytest.mark.parametrize(
    "candidate",
    [
        msgspec.structs.replace(CANDIDATE, leader_elect=False),
        msgspec.structs.replace(CANDIDATE, dry_run=True),
    ],
    ids=["told not to", "dry run"],
)
async def test_without_an_election_we_lead_and_ask_for_no_lease(
    clock: VirtualClock, candidate: LeaderCandidate
) -> None:
    async with ApiServer() as server:
        alone = leadership(server.client(clock), clock, candidate)
        led: list[bool] = []

        async def work() -> None:
            led.append(alone.leading())

        await alone.act(work)
        assert (led, server.requests) == ([True], [])


async def test_with_an_election_work_is_done_by_who_holds_the_lease(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        elected = leadership(server.client(clock), clock)
        assert not elected.leading()

        async def work() -> None:
            assert elected.leading()
            assert server.objects[f"{LEASES}/l"]["spec"]["holderIdentity"] == "me"

        await elected.act(work)


async def test_a_missing_right_to_the_lease_is_named_until_it_is_given(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        elected = leadership(server.client(clock), clock)
        server.script("GET", f"{LEASES}/l", *[answer(lambda: status(403, "Forbidden"))] * 3)
        told: list[object] = []

        async def work() -> None:
            told.append(elected.document["problem"])

        acting = asyncio.ensure_future(elected.act(work))
        await clock.sleep(3)
        right = "missing right: verb get, kind Lease, group coordination.k8s.io"
        assert elected.refused == f"cannot lead: {right}"
        assert elected.document == {
            "identity": "me", "leads": False, "leader": "", "problem": elected.refused
        }  # fmt: skip
        await acting
        assert told == [""]


async def test_a_lease_that_somebody_else_has_is_no_problem(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        spec = {"holderIdentity": "other", "leaseDurationSeconds": 15}
        server.put(LEASES, {"metadata": {"name": "l", "namespace": "kube-system"}, "spec": spec})
        elected = leadership(server.client(clock), clock)
        acting = asyncio.ensure_future(elected.act(lambda: clock.sleep(0)))
        await clock.sleep(5)
        found = elected.document
        assert (found["leader"], found["leads"], found["problem"]) == ("other", False, "")
        acting.cancel()


async def test_a_patient_shell_waits_for_its_server(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        server.objects["/version"] = {"gitVersion": "v1.37.0"}
        server.script("GET", "/version", answer(lambda: status(403, "Forbidden")))
        client = server.client(clock, patience=ONCE)
        assert await server_version(client, clock=clock) == "v1.37.0"


async def test_an_impatient_one_does_not(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        server.script("GET", "/version", answer(lambda: status(403, "Forbidden")))
        with pytest.raises(ClusterError):
            await server_version(server.client(clock, patience=ONCE), clock=clock, patient=False)
