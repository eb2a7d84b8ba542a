import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from tests.cluster.apiserver import ApiServer, answer, status, until
from tonnage.cluster.lease import Hooks, LeaderLease, LeadershipLost, Timing
from tonnage.errors import ClusterError, InputError
from tonnage.testing.clock import VirtualClock

LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/tonnage"


def candidate(
    server: ApiServer, clock: VirtualClock, identity: str, *, hooks: Hooks | None = None
) -> LeaderLease:
    return LeaderLease(
        server.client(clock),
        name="tonnage",
        namespace="kube-system",
        identity=identity,
        clock=clock,
        rng=random.Random(identity),
        hooks=hooks,
    )


async def forever() -> None:
    await asyncio.Event().wait()


@asynccontextmanager
async def leading(lease: LeaderLease) -> AsyncIterator["asyncio.Future[None]"]:
    """A candidate that leads for as long as it can."""
    task = asyncio.ensure_future(lease.lead(forever))
    try:
        yield task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError, LeadershipLost):
            await task


def holder(server: ApiServer) -> str:
    spec: dict[str, str] = server.objects[LEASE]["spec"]
    return spec["holderIdentity"]


async def test_the_first_candidate_leads_at_once(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        lease = candidate(server, clock, "a")
        async with leading(lease):
            await until(lease.leading, clock=clock, within=1)
            assert holder(server) == "a"


async def test_a_leader_that_renews_goes_on_leading(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        lease = candidate(server, clock, "a")
        async with leading(lease):
            await clock.sleep(600)
            assert lease.leading()
            assert server.objects[LEASE]["spec"]["leaseTransitions"] == 0


async def test_a_renewal_keeps_the_time_of_acquisition(clock: VirtualClock) -> None:
    async with ApiServer() as server, leading(candidate(server, clock, "a")):
        await clock.sleep(61)
        spec = server.objects[LEASE]["spec"]
        assert spec["acquireTime"] == "2030-01-01T00:00:00.000000Z"
        assert spec["renewTime"] > "2030-01-01T00:00:58"


async def test_of_two_candidates_one_leads(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        first, second = candidate(server, clock, "a"), candidate(server, clock, "b")
        async with leading(first), leading(second):
            for _ in range(60):
                await clock.sleep(1)
                assert first.leading() != second.leading()


async def test_a_lease_given_back_is_taken_at_the_next_try(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        first, second = candidate(server, clock, "a"), candidate(server, clock, "b")
        leader = asyncio.ensure_future(first.lead(lambda: clock.sleep(30)))
        await until(first.leading, clock=clock)
        async with leading(second):
            await leader
            left = clock.monotonic()
            await until(second.leading, clock=clock)
            assert clock.monotonic() - left < 2 * 2.2 + 1


async def test_a_crashed_leader_is_followed_when_its_lease_has_expired(
    clock: VirtualClock,
) -> None:
    async with ApiServer() as server:
        first, second = candidate(server, clock, "a"), candidate(server, clock, "b")
        async with leading(first):
            await clock.sleep(1)
            lease = server.objects[LEASE]
            crashed_holder = {**lease["spec"], "holderIdentity": "someone who crashed"}
            server.put(LEASE.rpartition("/")[0], {**lease, "spec": crashed_holder})
        crashed = clock.monotonic()
        async with leading(second):
            await until(second.leading, clock=clock)
            assert 15 <= clock.monotonic() - crashed <= 15 + 2 * 4.4
            assert second.term == 1


async def test_the_wall_clock_plays_no_part(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        first, second = candidate(server, clock, "a"), candidate(server, clock, "b")
        async with leading(first):
            await clock.sleep(1)
            async with leading(second):
                for step in (86_400, -200_000):
                    clock.step(step)
                    await clock.sleep(60)
                    assert (first.leading(), second.leading()) == (True, False)


async def test_a_leader_before_a_frozen_server_stops_before_anyone_may_start(
    clock: VirtualClock,
) -> None:
    async with ApiServer() as server:
        first, second = candidate(server, clock, "a"), candidate(server, clock, "b")
        async with leading(first) as leader:
            await clock.sleep(1)
            async with leading(second):
                await clock.sleep(7.5)
                server.freeze()
                stops = clock.monotonic() + first.time_left()
                assert 0 < first.time_left() <= 10
                await clock.sleep(11)
                assert not first.leading()
                server.thaw()
                await until(second.leading, clock=clock)
                assert clock.monotonic() > stops
                with pytest.raises(LeadershipLost):
                    await leader


async def test_two_candidates_never_lead_together_whatever_the_server_does(
    clock: VirtualClock,
) -> None:
    rng = random.Random(11)
    leaders: list[list[str]] = []

    def renewed(_: float) -> None:
        """Leadership begins with a write, so here an overlap would begin."""
        leaders.append([name for name, lease in both.items() if lease.leading()])

    async with ApiServer() as server:
        hooks = Hooks(renewed=renewed)
        both = {name: candidate(server, clock, name, hooks=hooks) for name in ("a", "b")}

        async def campaign(lease: LeaderLease) -> None:
            while True:
                with suppress(LeadershipLost):
                    await lease.lead(forever)

        campaigns = [asyncio.ensure_future(campaign(lease)) for lease in both.values()]
        for _ in range(150):
            rng.choice([server.freeze, server.thaw, server.thaw])()
            await clock.sleep(rng.uniform(0.1, 8))
        server.thaw()
        for task in campaigns:
            task.cancel()
        await asyncio.gather(*campaigns, return_exceptions=True)
        assert all(len(each) == 1 for each in leaders)
        assert {each[0] for each in leaders} == {"a", "b"}


async def test_losing_the_lease_cancels_the_work_at_the_deadline(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        lease = candidate(server, clock, "a")
        ended: list[tuple[float, bool]] = []

        async def work() -> None:
            try:
                await forever()
            finally:
                ended.append((clock.monotonic(), lease.leading()))

        task = asyncio.ensure_future(lease.lead(work))
        await until(lease.leading, clock=clock)
        server.freeze()
        deadline = clock.monotonic() + lease.time_left()
        with pytest.raises(LeadershipLost, match="not renewed for 10 s"):
            await task
        ((moment, still_leading),) = ended
        assert moment == pytest.approx(deadline)
        assert not still_leading


async def test_a_lease_taken_by_force_ends_the_work_at_the_next_renewal(
    clock: VirtualClock,
) -> None:
    async with ApiServer() as server:
        lease = candidate(server, clock, "a")
        async with leading(lease) as leader:
            await clock.sleep(1)
            taken = server.objects[LEASE]
            forced = {**taken, "spec": {**taken["spec"], "holderIdentity": "b"}}
            server.put(LEASE.rpartition("/")[0], forced)
            with pytest.raises(LeadershipLost, match="b has it"):
                await leader
            assert clock.monotonic() < 4
            assert holder(server) == "b"


async def test_a_lease_deleted_by_hand_is_written_anew_by_its_holder(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        first, second = candidate(server, clock, "a"), candidate(server, clock, "b")
        async with leading(first):
            await clock.sleep(1)
            async with leading(second):
                await clock.sleep(10)
                server.remove(LEASE)
                for _ in range(60):
                    await clock.sleep(0.5)
                    assert (first.leading(), second.leading()) == (True, False)
        assert holder(server) in ("", "b")


async def test_a_lease_deleted_after_its_holder_crashed_is_taken_when_it_would_have_expired(
    clock: VirtualClock,
) -> None:
    async with ApiServer() as server:
        second = candidate(server, clock, "b")
        spec = {"holderIdentity": "someone who crashed", "leaseDurationSeconds": 15}
        lease = {"metadata": {"name": "tonnage", "namespace": "kube-system"}, "spec": spec}
        server.put(LEASE.rpartition("/")[0], lease)
        async with leading(second):
            await clock.sleep(5)
            server.remove(LEASE)
            await until(second.leading, clock=clock)
            assert 15 <= clock.monotonic() <= 15 + 2 * 4.4


async def test_a_lease_emptied_by_hand_is_not_taken_before_its_holder_notices(
    clock: VirtualClock,
) -> None:
    async with ApiServer() as server:
        first, second = candidate(server, clock, "a"), candidate(server, clock, "b")
        async with leading(first):
            await clock.sleep(1)
            async with leading(second):
                await clock.sleep(10)
                held = server.objects[LEASE]
                emptied = {**held, "spec": {**held["spec"], "holderIdentity": ""}}
                server.put(LEASE.rpartition("/")[0], emptied)
                for _ in range(60):
                    await clock.sleep(0.5)
                    assert (first.leading(), second.leading()) == (True, False)


async def test_an_empty_lease_that_was_made_beforehand_is_taken_at_once(
    clock: VirtualClock,
) -> None:
    async with ApiServer() as server:
        lease = {"metadata": {"name": "tonnage", "namespace": "kube-system"}, "spec": {}}
        server.put(LEASE.rpartition("/")[0], lease)
        only = candidate(server, clock, "a")
        async with leading(only):
            await until(only.leading, clock=clock, within=1)


async def test_the_lease_is_given_back_only_after_the_work_has_ended(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        lease = candidate(server, clock, "a")
        seen: list[tuple[str, bool]] = []

        async def work() -> None:
            try:
                await forever()
            finally:
                await clock.sleep(3)
                seen.append((holder(server), lease.leading()))

        task = asyncio.ensure_future(lease.lead(work))
        await until(lease.leading, clock=clock)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        assert seen == [("a", False)]
        assert holder(server) == ""


async def test_work_that_ends_gives_the_lease_back(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        lease = candidate(server, clock, "a")
        await lease.lead(lambda: clock.sleep(5))
        assert (holder(server), lease.leading()) == ("", False)


async def test_the_failure_of_the_work_is_the_failure_of_leading(clock: VirtualClock) -> None:
    async def broken() -> None:
        raise ZeroDivisionError

    async with ApiServer() as server:
        with pytest.raises(ZeroDivisionError):
            await candidate(server, clock, "a").lead(broken)
        assert holder(server) == ""


async def test_a_server_that_errs_now_and_then_costs_no_leadership(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        lease = candidate(server, clock, "a")
        async with leading(lease):
            await clock.sleep(1)
            fail = answer(lambda: status(500, "InternalError"))
            server.script("PUT", LEASE, fail, fail, fail)
            for _ in range(60):
                await clock.sleep(1)
                assert lease.leading()


async def test_metrics_hear_of_every_step(clock: VirtualClock) -> None:
    heard: list[object] = []
    failures: list[ClusterError] = []
    hooks = Hooks(leading=heard.append, leader_seen=heard.append, failed=failures.append)
    async with ApiServer() as server:
        create = answer(lambda: status(500, "InternalError"))
        server.script("GET", LEASE, create)
        await candidate(server, clock, "a", hooks=hooks).lead(lambda: clock.sleep(1))
        assert heard == ["a", True, False, ""]
        assert len(failures) == 1


@pytest.mark.parametrize(
    ("duration", "deadline", "retry"), [(10, 10, 2), (15, 2, 2), (15, 10, 0), (15.5, 10, 2)]
)
def test_times_that_cannot_protect_are_refused(
    duration: float, deadline: float, retry: float
) -> None:
    with pytest.raises(InputError, match="leader election"):
        Timing(lease_duration=duration, renew_deadline=deadline, retry_period=retry)
