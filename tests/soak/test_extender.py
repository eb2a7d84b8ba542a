"""Weeks of churn for the extender: drivers, classes, nodes, and pods that are asked about."""

from typing import Any

from tests.cluster.apiserver import until
from tests.scheduler.extender.harness import Stage, a_node, extending, question
from tests.soak.measure import left_behind
from tonnage.testing import builders as make
from tonnage.testing.clock import VirtualClock

STANDING = [f"n{number}" for number in range(10)]
SETTLED = 310.0
"""Seconds: longer than nodes count as new, and than reservations last."""


def pods_of(day: int) -> list[list[Any]]:
    """Pods with a claim of a class of this day, each after its claim."""
    found = []
    for fate in ("arrives", "follows", "lingers", "vanishes"):
        name = f"{fate}-{day}"
        pod = make.pod(name, pvcs=[name], labels={f"app-{day}": fate}, cpu=f"{day % 50 + 1}m")
        found.append([make.pvc(name, storage_class=f"fast-{day}"), pod])
    return found


async def play(stage: Stage, day: int) -> None:
    """A day of 40 seconds: pods are asked about, go somewhere or nowhere, and are gone."""
    driver = f"csi-{day}.example.com"
    kinds = [
        make.csidriver(driver),
        make.storage_class(f"fast-{day}", driver),
        make.node(f"node-{day}", labels={f"rack-{day}": "yes"}),
        make.csinode(f"node-{day}", {driver: 4}),
    ]
    await put(stage, *kinds)
    names = [*STANDING, f"node-{day}"]
    pods = pods_of(day)
    for claim, pod in pods:
        await put(stage, claim, pod)
        assert (await stage.filter(pod, *names)).nodes == names
        await stage.scores(pod, *names)
    stranger = make.pod(f"stranger-{day}", pvcs=[f"c-{day}"])
    _, answer = await stage.post("/v1/filter", question(stranger, names))
    assert answer["Error"]
    arrives, follows = f"arrives-{day}", f"follows-{day}"
    await put(
        stage,
        make.pod(arrives, pvcs=[arrives], on="n0"),
        make.pvc(follows, storage_class=f"fast-{day}", selected_node=f"node-{day}"),
    )
    held = stage.program.reservations
    await until(lambda: len(held) == len(pods) - 1, clock=stage.clock)
    await stage.clock.sleep(35)
    for claim, pod in pods:
        await stage.delete(pod)
        await stage.delete(claim)
    for one in kinds:
        await stage.delete(one)
    await stage.clock.sleep(5)


async def put(stage: Stage, *objects: Any) -> None:
    """Create or change objects, and wait until all of them are known."""
    await stage.put(*objects)

    def known(one: Any) -> bool:
        meta = one.metadata
        cache = stage.program.standing.cache(type(one))
        return cache.get(meta.name, namespace=meta.namespace) is not None

    await until(lambda: all(map(known, objects)), clock=stage.clock)


async def test_extender(clock: VirtualClock) -> None:
    nodes = [one for name in STANDING for one in a_node(name)]
    async with extending(clock, *nodes) as stage:
        found = await left_behind(
            [stage.program], lambda number: play(stage, number), clock, settled=SETTLED
        )
        assert found == {}
