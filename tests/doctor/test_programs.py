"""Who runs in the cluster is told by image and command line."""

import pytest

from tests.doctor import broken_clusters
from tonnage.doctor import programs


@pytest.mark.parametrize(
    ("line", "image", "name", "aware"),
    [
        (["./cluster-autoscaler"], "x", "cluster-autoscaler", False),
        ([], "registry/autoscaling/cluster-autoscaler:v1.37.0", "cluster-autoscaler", False),
        (
            ["./cluster-autoscaler", "--enable-csi-node-aware-scheduling"],
            "x",
            "cluster-autoscaler",
            True,
        ),
        (["tonnage", "run"], "x", "tonnage run", True),
        (["tonnage", "run", "--enable-csi-node-aware-scheduling=false"], "x", "tonnage run", False),
        (["tonnage", "extender"], "x", "tonnage extender", True),
        ([], "public/karpenter/controller:1.14", "Karpenter", False),
    ],
)
def test_programs_are_recognised(line: list[str], image: str, name: str, aware: bool) -> None:
    deployments = programs.decoded([broken_clusters.deployment(*line, image=image)])
    (program,) = programs.recognised(deployments)
    assert (program.name, program.csi_aware) == (name, aware)


@pytest.mark.parametrize("line", [["nginx"], ["tonnage", "plan"], []])
def test_others_are_not(line: list[str]) -> None:
    assert programs.recognised(programs.decoded([broken_clusters.deployment(*line)])) == []


def test_a_deployment_that_makes_no_sense_is_passed_over() -> None:
    assert programs.decoded([{"kind": "Deployment", "metadata": 3}]) == []
