"""Random clusters: the same seed, the same cluster; and a bit of everything over many seeds."""

import subprocess
import sys
from collections import Counter

import msgspec

from tests.clusters import random_cluster
from tonnage.objects.nodes import Node
from tonnage.testing.reference import ReferenceCluster, verdicts

SEEDS = range(150)

ENCODE = (
    "import msgspec, hashlib; from tests.clusters import random_cluster; "
    "print(hashlib.sha256(msgspec.json.encode(random_cluster(7))).hexdigest())"
)


def test_a_seed_is_all_there_is_to_a_cluster() -> None:
    assert random_cluster(7) == random_cluster(7)


def test_the_order_of_sets_does_not_show() -> None:
    digests = {
        subprocess.run(
            [sys.executable, "-c", ENCODE],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }

    assert len(digests) == 1


def test_seeds_differ() -> None:
    assert len({msgspec.json.encode(random_cluster(seed)) for seed in SEEDS}) == len(SEEDS)


def test_clusters_are_small() -> None:
    sizes = {sum(isinstance(item, Node) for item in random_cluster(seed).objects) for seed in SEEDS}

    assert min(sizes) == 2
    assert max(sizes) == 12


def test_every_plugin_has_something_to_refuse_and_much_fits() -> None:
    found: Counter[tuple[str, str, str]] = Counter()
    for seed in SEEDS:
        sample = random_cluster(seed)
        cluster = ReferenceCluster(sample.objects, gates=sample.gates)
        for pod in cluster.pending():
            found.update((v.phase, v.plugin, v.code) for v in verdicts(cluster, pod))

    assert {plugin for phase, plugin, _ in found if phase == "Filter"} == {
        "NodeUnschedulable",
        "TaintToleration",
        "NodeAffinity",
        "NodePorts",
        "NodeResourcesFit",
        "VolumeRestrictions",
        "NodeVolumeLimits",
        "VolumeBinding",
        "VolumeZone",
        "PodTopologySpread",
        "InterPodAffinity",
        "NodeDeclaredFeatures",
    }
    assert {plugin for phase, plugin, _ in found if phase in ("PreEnqueue", "PreFilter")} == {
        "SchedulingGates",
        "NodeAffinity",
        "VolumeRestrictions",
        "VolumeBinding",
        "VolumeZone",
        "PodTopologySpread",
        "InterPodAffinity",
    }
    assert {code for _, _, code in found} == {
        "Success",
        "Unschedulable",
        "UnschedulableAndUnresolvable",
        "Error",
    }
    assert found["", "", "Success"] > found.total() / 6
