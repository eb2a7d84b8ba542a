"""`tonnage migrate` on a live cluster, and what it says when there is nothing, or too much."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from tests.cli.embeddedserver import EmbeddedCluster, embedded_cluster
from tests.migration.test_golden import GOLDEN
from tonnage.cli.app import program

DEPLOYMENTS = "/apis/apps/v1/namespaces/kube-system/deployments"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[EmbeddedCluster]:
    with embedded_cluster(tmp_path) as made:
        yield made


def deployment(name: str = "cluster-autoscaler") -> dict[str, object]:
    container = {"name": "c", "image": "cluster-autoscaler:v1.37.0", "args": ["--expander=price"]}
    labels = {"app": name}
    return {
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


def migrate(*arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(program, ["migrate", *arguments], input=stdin)


def test_the_deployment_of_a_live_cluster_is_found(cluster: EmbeddedCluster) -> None:
    cluster.create(DEPLOYMENTS, deployment())
    made = migrate("--kubeconfig", cluster.kubeconfig, "-o", "yaml")
    told = yaml.safe_load(made.stdout)
    assert told["source"] == "Deployment kube-system/cluster-autoscaler"
    assert told["config"]["expander"] == "price"


def test_two_of_them_are_one_too_many(cluster: EmbeddedCluster) -> None:
    cluster.create(DEPLOYMENTS, deployment())
    cluster.create(DEPLOYMENTS, deployment("second"))
    made = migrate("--kubeconfig", cluster.kubeconfig)
    assert made.exit_code == 2
    assert "there are several: Deployment kube-system/cluster-autoscaler" in made.stderr


def test_a_cluster_without_any_says_what_was_expected(cluster: EmbeddedCluster) -> None:
    made = migrate("--kubeconfig", cluster.kubeconfig)
    assert made.exit_code == 2
    assert "nothing to migrate" in made.stderr


def test_of_both_one_must_be_named() -> None:
    both = [
        (GOLDEN / case / "input.yaml").read_text()
        for case in ("eks-discovery", "karpenter-weights")
    ]
    text = "---\n".join(both)
    assert "say which with --from" in migrate("-f", "-", stdin=text).stderr
    made = migrate("-f", "-", "--from", "karpenter", "-o", "yaml", stdin=text)
    assert yaml.safe_load(made.stdout)["program"] == "karpenter"


def test_types_that_are_none_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "types.json"
    file.write_text("[]")
    given = str(GOLDEN / "karpenter-general" / "input.yaml")
    made = migrate("-f", given, "--instance-types", str(file))
    assert made.exit_code == 2
    assert f"{file}: expected the JSON of" in made.stderr


def test_requirements_that_allow_too_many_groups_are_refused() -> None:
    zones = [f"zone-{number}" for number in range(300)]
    text = (GOLDEN / "karpenter-weights" / "input.yaml").read_text()
    pool, node = list(yaml.safe_load_all(text))
    rule = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": zones}
    pool["spec"]["template"]["spec"]["requirements"].append(rule)
    made = migrate("-f", "-", stdin=yaml.safe_dump_all([pool, node]))
    assert made.exit_code == 2
    assert "expected 200 or fewer" in made.stderr


def test_a_requirement_that_is_none_names_pool_and_place() -> None:
    pool = {
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "p"},
        "spec": {"template": {"spec": {"requirements": [{"key": "a"}]}}},
    }  # fmt: skip
    made = migrate("-f", "-", stdin=yaml.safe_dump(pool))
    assert "NodePool p: requirements[0]: expected key, operator and values" in made.stderr
