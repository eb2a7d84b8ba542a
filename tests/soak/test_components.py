"""Weeks of churn in virtual time: no table and no descriptor of a component is left behind.

`make soak` plays more of it, and looks at resident memory too.
"""

from tests.autoscaler import harness as autoscaler
from tests.capacity import capacity_objects
from tests.capacity import harness as capacity
from tests.cluster.apiserver import ApiServer
from tests.soak.measure import left_behind
from tonnage.objects.pods import PodAffinityTerm
from tonnage.testing import builders as make
from tonnage.testing.clock import VirtualClock


async def test_run(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        autoscaler.started(server)
        cloud = autoscaler.Cloud(server)

        async def day(number: int) -> None:
            pod, claim, node = f"p{number}", f"c{number}", f"node-{number}"
            labels = {"build": str(number)}
            term = PodAffinityTerm(
                topology_key=make.HOSTNAME, label_selector=make.selecting(labels)
            )
            autoscaler.put_pod(server, pod, cpu="3", claims=[claim], labels=labels, apart=[term])
            autoscaler.put_node(server, clock, node, labels={f"rack-{number}": "yes"})
            await clock.sleep(20)
            server.remove(f"{autoscaler.PODS}/{pod}")
            server.remove(f"{autoscaler.CLAIMS}/{claim}")
            server.remove(f"{autoscaler.NODES}/{node}")
            server.remove(f"{autoscaler.CSINODES}/{node}")
            await clock.sleep(20)

        async with autoscaler.autoscaling(server, cloud, clock) as program:
            assert await left_behind([program], day, clock) == {}


async def test_capacity_templates(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        capacity.started(server)

        async def day(number: int) -> None:
            node, kind = (
                capacity_objects.a_node(f"n{number}", f"m{number}"),
                capacity_objects.a_class(f"fast-{number}"),
            )
            capacity.put(server, capacity.NODES, node)
            capacity.put(server, capacity.CLASSES, kind)
            await clock.sleep(30)
            server.remove(f"{capacity.NODES}/n{number}")
            server.remove(f"{capacity.CLASSES}/fast-{number}")
            await clock.sleep(30)

        async with capacity.controlling(server, clock) as program:
            assert await left_behind([program], day, clock) == {}
