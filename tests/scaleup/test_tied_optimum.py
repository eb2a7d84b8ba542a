"""Plans by least-cost where pods mind each other, against every plan there could be."""

import pytest

from tests.scaleup import replay
from tests.scaleup.every_plan import SmallCluster, every_plan, small_cluster
from tests.seeds import seeds
from tonnage.groups import options
from tonnage.groups.inputs import Inputs
from tonnage.rules import features
from tonnage.scaleup import decision
from tonnage.scaleup.plan import Optimisation, Plan


def planned(cluster: SmallCluster) -> Plan:
    objects = cluster.objects()
    chosen = options.of({"expander": "least-cost", "optimiseSeconds": 5})
    gates = features.of_version()
    inputs = Inputs.of_objects(objects, options=chosen, features=gates, now=0.0)
    plan = decision.decide(inputs).plan
    assert replay.violations(objects, plan, options=chosen, features=gates, now=0.0) == []
    return plan


@pytest.mark.parametrize("seed", range(seeds(30)))
def test_no_plan_is_better_than_the_bound(seed):
    cluster = small_cluster(seed)
    plan = planned(cluster)
    plans = every_plan(cluster)
    if plans is None:
        pytest.skip("too many plans")
    prices = [float(price) for price in cluster.prices]
    left = [one.pod.partition("/")[2].partition("-")[0] for one in plan.not_helped]
    helped = [kind.number - left.count(f"k{number}") for number, kind in enumerate(cluster.kinds)]
    assert sum(helped) <= max(sum(placed) for _, placed in plans)
    if isinstance(plan.optimisation, Optimisation):
        least = min(
            sum(count * price for count, price in zip(bought, prices, strict=True))
            for bought, placed in plans
            if all(count >= wanted for count, wanted in zip(placed, helped, strict=True))
        )
        assert plan.optimisation.bound <= least + 1e-6
