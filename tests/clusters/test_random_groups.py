"""Random scenarios of plans: the same seed, the same scenario; and a bit of everything."""

from collections import Counter

import msgspec

from tests.clusters.random_groups import UPSTREAM, random_scenario
from tonnage.groups import options
from tonnage.objects.nodes import Node
from tonnage.objects.pods import Pod
from tonnage.objects.scenarios import NodeGroup
from tonnage.objects.workloads import DaemonSet

SCENARIOS = [random_scenario(seed) for seed in range(120)]


def test_a_seed_is_all_there_is_to_a_scenario() -> None:
    assert random_scenario(7) == random_scenario(7)


def test_seeds_differ() -> None:
    assert len({msgspec.json.encode(one) for one in SCENARIOS}) == len(SCENARIOS)


def test_options_are_valid() -> None:
    assert {options.of(one.options).compatibility for one in SCENARIOS} == {"none", UPSTREAM}


def test_names_are_given_once() -> None:
    for scenario in SCENARIOS:
        names = Counter(
            (type(one).__name__, one.metadata.namespace, one.metadata.name)
            for one in scenario.objects
        )
        assert max(names.values()) == 1


def test_there_is_a_bit_of_everything() -> None:
    seen: Counter[str] = Counter()
    for scenario in SCENARIOS:
        seen["balanced"] += bool(scenario.options["balanceSimilarNodeGroups"])
        seen["not aware"] += not scenario.options["csiAware"]
        for one in scenario.objects:
            seen[type(one).__name__] += 1
            match one:
                case Pod() if not one.spec.node_name:
                    seen["waiting"] += 1
                    seen["spread"] += bool(one.spec.topology_spread_constraints)
                    seen["affine"] += one.spec.affinity is not None
                    seen["with claims"] += bool(one.spec.volumes)
                    seen["with ports"] += any(box.ports for box in one.spec.containers)
                case NodeGroup():
                    seen["whole"] += one.spec.scaling == "zeroOrMax"
                    seen["from zero"] += not one.spec.nodes
                    seen["on its way"] += one.spec.target_size is not None
                    seen["overridden"] += bool(one.spec.limits)
                case Node():
                    seen["young"] += one.metadata.creation_timestamp is not None

    assert [name for name in EXPECTED if not seen[name]] == []


EXPECTED = (
    *("balanced", "not aware", "waiting", "spread", "affine", "with claims", "with ports"),
    *("whole", "from zero", "on its way", "overridden", "young"),
    *(DaemonSet.__name__, NodeGroup.__name__),
)
