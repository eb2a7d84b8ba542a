"""Whatever comes in whatever order, booked room is there for the pods that it is booked for."""

import random

import pytest

from tests.scheduler.bookings import booked, taking, template
from tests.scheduler.harness import a_pod, scheduling
from tests.seeds import seeds
from tonnage.testing.clock import VirtualClock


@pytest.mark.parametrize("seed", range(seeds(4)))
async def test_all_pods_of_a_request_find_their_room(clock: VirtualClock, seed: int) -> None:
    dice = random.Random(f"booked {seed}")
    size = dice.randint(1, 3)
    rooms = [dice.randint(size, 8) for _ in range(dice.randint(1, 5))]
    count = dice.randint(1, sum(room // size for room in rooms))
    others = [dice.randint(1, 4) for _ in range(8)]
    async with scheduling(clock, provisioningRequests=True) as cluster:
        for number, room in enumerate(rooms):
            await cluster.node(f"n{number}", cpu=str(room))
        await cluster.add(template(str(size)), booked(clock, count))
        await clock.sleep(1)
        came = 0
        for number, cpu in enumerate(others):
            await cluster.pod(f"web-{number}", cpu=str(cpu))
            if dice.random() < 0.5 and came < count:
                await cluster.add(taking(a_pod(f"job-{came}", cpu=str(size))))
                came += 1
            await clock.sleep(dice.choice((0.0, 2.0)))
        for number in range(came, count):
            await cluster.add(taking(a_pod(f"job-{number}", cpu=str(size))))
        found = await cluster.bound(*(f"job-{number}" for number in range(count)))
        assert len(found) == count
