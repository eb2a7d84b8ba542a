"""Whatever the cluster: pods first, every chunk once, and as many nodes as pods would need."""

import random

import pytest

from tests.scaleup.asking import CLASS, EBS, bought, decide, group, stateful
from tests.scaleup.test_headroom import a_node, buffer, template, with_claims
from tests.seeds import seeds
from tonnage.objects.kinds import KubeObject
from tonnage.testing import builders as make


def cluster(dice: random.Random) -> list[KubeObject]:
    """Nodes in part used, pods that wait, and a group that may grow a little or much."""
    slots = dice.randint(4, 12)
    names = [f"n{number}" for number in range(dice.randint(0, 3))]
    objects: list[KubeObject] = [CLASS]
    for name in names:
        objects += a_node(name, slots=slots)
        objects += [
            make.pod(f"busy-{name}-{number}", cpu="1", on=name)
            for number in range(dice.randint(0, 3))
        ]
    coming = dice.randint(0, 2)
    objects.append(
        group(
            "g",
            slots={EBS: slots},
            nodes=names,
            target=len(names) + coming,
            most=len(names) + coming + dice.choice((0, 1, 2, 50)),
        )
    )
    return [*objects, *stateful("db", dice.randint(0, 12), cpu="100m")]


@pytest.mark.parametrize("seed", range(seeds(40)))
def test_kept_room_changes_nothing_for_pods_and_adds_up(seed: int) -> None:
    dice = random.Random(f"headroom {seed}")
    objects = cluster(dice)
    claims, chunks = dice.randint(0, 3), dice.randint(0, 9)
    kept: list[KubeObject] = [
        template(cpu="200m", volumes=with_claims(claims)),
        buffer(chunks=chunks),
    ]
    without, plan = decide(objects), decide(objects, kept)

    assert plan.fit_on_existing == without.fit_on_existing
    assert plan.not_helped == without.not_helped
    assert [step.pods for step in plan.steps if step.pods] == [step.pods for step in without.steps]
    if not chunks:
        assert bought(plan) == bought(without)
        return
    (room,) = plan.kept_rooms
    assert room.kept + room.bought + room.missing == room.chunks == chunks
    assert sum(one.chunks for one in room.nodes) == room.kept + room.bought


@pytest.mark.parametrize("seed", range(seeds(20)))
def test_chunks_need_as_many_nodes_as_pods_like_them(seed: int) -> None:
    dice = random.Random(f"like pods {seed}")
    slots, chunks = dice.randint(3, 12), dice.randint(1, 15)
    objects: list[KubeObject] = [CLASS, group("g", slots={EBS: slots})]
    kept = decide(objects, template(volumes=with_claims(1)), buffer(chunks=chunks))
    pods = decide(objects, stateful("db", chunks, cpu="100m"))

    assert bought(kept) == bought(pods)
