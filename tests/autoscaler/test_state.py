"""What is written down fits into an object of the API."""

import msgspec

from tests.cluster.apiserver import ApiServer
from tonnage.autoscaler.state import State, StateStore
from tonnage.groups.registry import RegistryState, ScaleRequest
from tonnage.testing.clock import VirtualClock


def a_request(at: float, pods: range) -> ScaleRequest:
    names = tuple(f"a-namespace-with-a-long-name/pod-{number:060}" for number in pods)
    return ScaleRequest(increase=9, at=at, deadline=at + 900, target=9, pods=names)


async def test_of_too_many_pods_that_nodes_were_bought_for_the_latest_are_written_down(
    clock: VirtualClock,
) -> None:
    requests = {
        "early": a_request(0, range(9000)),
        "late": a_request(60, range(4000)),
    }
    async with ApiServer() as server:
        store = StateStore(server.client(clock), namespace="kube-system")
        state = State(registry=RegistryState(requests=requests))
        assert await store.save(state)
        assert not await store.save(msgspec.structs.replace(state))
        kept = (await store.load()).registry.requests
    assert {name: len(one.pods) for name, one in kept.items()} == {"early": 1000, "late": 4000}
    assert kept["early"].pods == requests["early"].pods[-1000:]
    assert kept["early"].target == 9
