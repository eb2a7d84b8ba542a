"""`--node-groups FILE`: what is in it that is no NodeGroup."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tonnage.cli.app import program

EXAMPLE = str(Path(__file__).parent.parent.parent / "examples" / "two-databases")
GROUP = """
apiVersion: tonnage.dev/v1alpha1
kind: NodeGroup
metadata: {name: big}
spec: {maxSize: 3, nodeSelector: {matchLabels: {pool: bigg}}}
"""


def plan(tmp_path: Path, groups: str) -> Result:
    (tmp_path / "groups.yaml").write_text(groups)
    arguments = ["plan", "-f", EXAMPLE, "--node-groups", str(tmp_path / "groups.yaml")]
    return CliRunner().invoke(program, arguments)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("null", "found no object"),
        ("# nothing yet", "found no object"),
        ("{apiVersion: v1, kind: ConfigMap, metadata: {name: x}}", "found 1 ConfigMap"),
        ("{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: x}}", "1 NodePool.karp"),
        ("{apiVersion: v1, kind: Node, metadata: {name: x}}", "found 1 Node"),
    ],
)
def test_a_file_without_a_node_group_is_refused_with_what_it_holds(
    tmp_path: Path, text: str, found: str
) -> None:
    result = plan(tmp_path, text)
    assert result.exit_code == 2
    assert "expected a NodeGroup (apiVersion: tonnage.dev/v1alpha1)" in result.stderr
    assert found in result.stderr


def test_what_is_not_read_of_it_is_named(tmp_path: Path) -> None:
    pool = "---\n{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: x}}"
    result = plan(tmp_path, GROUP + pool)
    assert "not read, being no NodeGroup: 1 NodePool.karpenter.sh" in result.stderr


def test_a_selector_that_matches_no_node_is_named(tmp_path: Path) -> None:
    result = plan(tmp_path, GROUP)
    assert "NodeGroup big: no node matches its nodeSelector (pool=bigg)" in result.stderr


def test_a_file_of_manifests_that_holds_null_is_named(tmp_path: Path) -> None:
    (tmp_path / "empty.json").write_text("null")
    result = CliRunner().invoke(program, ["slots", "-f", str(tmp_path / "empty.json")])
    assert "empty.json: no objects, only null" in result.stderr
