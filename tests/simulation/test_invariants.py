"""The invariants notice what they are there for, and hold on seeds of random trouble."""

import pytest

from tests.simulation.scenarios import example
from tonnage.clock import virtual
from tonnage.clock.virtual import VirtualClock
from tonnage.simulation import exploring
from tonnage.simulation.ensemble import Ensemble
from tonnage.simulation.invariants import Invariants
from tonnage.simulation.scenario import Tree

DRIVER = "ebs.csi.aws.com"
SEEDS = 24


def standing(*objects: Tree) -> tuple[Ensemble, Invariants]:
    """A cluster in which nobody does anything but the test."""

    async def made() -> tuple[Ensemble, Invariants]:
        ensemble = Ensemble(example("scale-from-zero"), clock=clock)
        invariants = Invariants(ensemble, coming_within=60.0)
        for tree in (*example("scale-from-zero").objects, *objects):
            ensemble.manifests.apply(tree)
        await clock.sleep(60.0)
        return ensemble, invariants

    clock = VirtualClock()
    return virtual.run(made, clock=clock)


def csi_node(limit: int) -> Tree:
    entry = {"name": DRIVER, "nodeID": "n", "allocatable": {"count": limit}}
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": {"name": "n"},
        "spec": {"drivers": [entry]},
    }


def bind_pods(ensemble: Ensemble, count: int) -> None:
    """Pods with a volume each, bound to node n as a scheduler would."""
    for number in range(count):
        name = f"p{number}"
        claim = {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "fast",
            "resources": {"requests": {"storage": "1Gi"}},
        }
        ensemble.manifests.apply(_object("PersistentVolumeClaim", name, claim))
        volume = {"name": "data", "persistentVolumeClaim": {"claimName": name}}
        spec = {"containers": [{"name": "c", "image": "i"}], "volumes": [volume]}
        ensemble.manifests.apply(_object("Pod", name, spec))
        pods = ensemble.server.store.built_in("pods")
        found = pods.get("default", name)
        assert found is not None
        tree = {**found.tree, "spec": {**found.tree["spec"], "nodeName": "n"}}
        ensemble.server.store.put(pods, tree, found)


def _object(kind: str, name: str, spec: Tree) -> Tree:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def test_a_binding_within_the_limit_is_no_violation() -> None:
    ensemble, invariants = standing(csi_node(2))
    bind_pods(ensemble, 2)
    assert invariants.violations == []


def test_a_binding_beyond_the_limit_is_noticed() -> None:
    ensemble, invariants = standing(csi_node(2))
    bind_pods(ensemble, 3)
    assert [one.rule for one in invariants.violations] == ["bound beyond a limit"]


def test_a_binding_where_an_opted_in_driver_is_missing_is_noticed() -> None:
    ensemble, invariants = standing()
    bind_pods(ensemble, 1)
    assert [one.rule for one in invariants.violations] == ["bound where its driver is missing"]


def test_a_purchase_that_nobody_needs_is_noticed() -> None:
    _, invariants = standing()
    invariants.check_purchase("db", 1)
    assert [one.rule for one in invariants.violations] == ["bought what was already coming"]


def test_a_pod_that_is_left_pending_while_a_group_could_grow_is_noticed() -> None:
    ensemble, invariants = standing()
    spec = {"containers": [{"name": "c", "image": "i"}]}
    ensemble.manifests.apply(_object("Pod", "left", spec))
    invariants.at_the_end()
    assert [one.rule for one in invariants.violations] == ["a pod that could be helped is pending"]


@pytest.mark.parametrize("seed", range(SEEDS))
def test_random_trouble_breaks_no_invariant(seed: int) -> None:
    assert exploring.explored(seed).violations == ()


def test_a_seed_says_everything() -> None:
    assert exploring.by_chance(3) == exploring.by_chance(3)


def test_seeds_differ() -> None:
    assert exploring.by_chance(3) != exploring.by_chance(4)
