"""Plans by least-cost against every plan there could be, on small clusters with volumes."""

import random

import pytest

from tests.optimise import brute_force
from tests.seeds import seeds
from tonnage.groups import options
from tonnage.groups.inputs import Inputs
from tonnage.objects.kinds import KubeObject
from tonnage.objects.meta import ObjectMeta
from tonnage.objects.scenarios import GroupTemplate, NodeGroup, NodeGroupSpec
from tonnage.optimise.problem import BinType, ItemClass, PackingProblem
from tonnage.rules import features
from tonnage.scaleup import decision
from tonnage.scaleup.plan import Optimisation
from tonnage.testing import builders

DRIVER = "ebs.csi.aws.com"
ANY = 99


def small_cluster(seed: int) -> tuple[list[KubeObject], PackingProblem]:
    """Up to three kinds of pods, three groups and a node with room, and the same in numbers."""
    rng = random.Random(seed)
    objects: list[KubeObject] = [builders.storage_class("fast", provisioner=DRIVER)]
    items, bins = [], []
    for kind in range(rng.randint(1, 3)):
        cpu, volumes, number = rng.randint(1, 5), rng.randint(0, 3), rng.randint(1, 3)
        items.append(ItemClass(f"k{kind}", number, (cpu, volumes)))
        for member in range(number):
            claims = [f"k{kind}-{member}-{volume}" for volume in range(volumes)]
            objects += [builders.pvc(one, storage_class="fast", bound=False) for one in claims]
            objects.append(builders.pod(f"k{kind}-{member}", cpu=cpu, pvcs=claims))
    for number in range(rng.randint(1, 3)):
        cpu, slots, most = rng.randint(4, 12), rng.randint(2, 6), rng.choice((1, 2, 9))
        price = rng.choice(("0.1", "0.2", "0.25", "0.4", "0.5"))
        bins.append(BinType(f"g{number}", (cpu, slots), float(price), (ANY,) * len(items), most))
        template = GroupTemplate(
            node=builders.node("t", cpu=cpu), csi_node=builders.csinode("t", {DRIVER: slots})
        )
        spec = NodeGroupSpec(max_size=most, price_per_hour=price, template=template)
        objects.append(NodeGroup(metadata=ObjectMeta(name=f"g{number}"), spec=spec))
    if rng.random() < 0.5:
        cpu, slots = rng.randint(1, 6), rng.randint(0, 3)
        objects += [builders.node("there", cpu=cpu), builders.csinode("there", {DRIVER: slots})]
        bins.append(BinType("there", (cpu, slots), 0.0, (ANY,) * len(items), 1))
    return objects, PackingProblem(items, bins)


@pytest.mark.parametrize("seed", range(seeds(40)))
def test_small_clusters_cost_the_least_there_is(seed):
    objects, numbers = small_cluster(seed)
    chosen = options.of({"expander": "least-cost", "optimiseSeconds": 5})
    inputs = Inputs.of_objects(objects, options=chosen, features=features.of_version(), now=0.0)
    plan = decision.decide(inputs).plan
    left, price = brute_force.least(numbers)
    prices = {one.name: one.price for one in numbers.bins}
    assert len(plan.not_helped) == left
    cost = sum(one.delta * prices[one.group] for one in plan.scale_ups)
    assert cost == pytest.approx(price)
    if isinstance(plan.optimisation, Optimisation):
        assert plan.optimisation.bound <= price + 1e-6
