"""The way to the API that can be cut."""

import asyncio
import random

import pytest

from tonnage.clock import virtual
from tonnage.clock.virtual import VirtualClock
from tonnage.cluster.client import Client
from tonnage.cluster.errors import ConnectionFailed
from tonnage.cluster.mirror import Mirror
from tonnage.cluster.transport import HttpRequest
from tonnage.embedded.apiserver import ApiServer, InProcessTransport
from tonnage.objects.nodes import Namespace
from tonnage.simulation.faults import CuttableTransport

NAMESPACES = HttpRequest(method="GET", path="/api/v1/namespaces")


def made() -> tuple[CuttableTransport, VirtualClock]:
    clock = VirtualClock()
    server = ApiServer(clock=clock, rng=random.Random(1))
    return CuttableTransport(InProcessTransport(server)), clock


def test_what_is_not_cut_passes() -> None:
    async def main() -> int:
        way.cut(["pods"], "none")
        return (await way.send(NAMESPACES)).status

    way, clock = made()
    assert virtual.run(main, clock=clock) == 200


def test_what_is_cut_gets_no_answer() -> None:
    async def main() -> None:
        way.cut(["namespaces"], "none")
        await way.send(NAMESPACES)

    way, clock = made()
    with pytest.raises(ConnectionFailed):
        virtual.run(main, clock=clock)


def test_an_empty_answer_has_no_items() -> None:
    async def main() -> bytes:
        way.cut(["*"], "empty")
        return (await way.send(NAMESPACES)).body

    way, clock = made()
    assert b'"items":[]' in virtual.run(main, clock=clock)


@pytest.mark.parametrize("kind", ["namespaces", "*"])
@pytest.mark.parametrize("answers", ["none", "empty"])
def test_a_cache_is_full_again_after_the_cut(kind: str, answers: str) -> None:
    async def main() -> list[int]:
        mirror = Mirror(
            Client(way, clock=clock, rng=random.Random(1)), clock=clock, rng=random.Random(1)
        )
        cache = mirror.add(Namespace)
        way.cut([kind], answers)  # type: ignore[arg-type]
        task = asyncio.ensure_future(mirror.run())
        await clock.sleep(60)
        seen = [len(cache)]
        way.mend([kind])
        await clock.sleep(120)
        seen.append(len(cache))
        task.cancel()
        await asyncio.wait({task})
        return seen

    way, clock = made()
    assert virtual.run(main, clock=clock) == [0, 4]
