"""Every command line of README and docs runs from the tree, or is listed here with the reason."""

import gzip
import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import yaml
from click.testing import CliRunner

from tests.cli.embeddedserver import EmbeddedCluster, embedded_cluster
from tests.cli.test_why import LEFT_OUT, decided
from tests.docs import blocks, other_tools, services
from tests.docs.blocks import REPOSITORY, Line
from tests.e2e.crds import cluster_api
from tonnage import api
from tonnage.autoscaler.state import State
from tonnage.cli.app import program
from tonnage.files import scenario_writer
from tonnage.groups.limit_lessons import Lesson
from tonnage.groups.memory import TemplateMemory

LONG = {
    "tonnage simulate examples/simulations/registration-race.yaml": (
        "plays for half a minute; tests/simulation/test_examples.py plays it"
    ),
    "tonnage simulate examples/simulations/consolidation.yaml": (
        "plays for a minute; tests/simulation/test_consolidation.py plays it"
    ),
    "tonnage simulate examples/simulations/ordered-start.yaml": (
        "plays for half a minute; tests/simulation/test_look_ahead.py plays the start of it"
    ),
    "tonnage simulate --explore 200": "plays for many minutes; tests/simulation explores 24 seeds",
    "tonnage simulate examples/simulations/a-day.yaml": (
        "plays a day, in half a minute; tests/simulation/test_examples.py plays its first hour"
    ),
    "tonnage demo": "plays for 45 seconds; tests/e2e/test_demo.py runs it",
}

_LEADER = "asks an autoscaler that runs: tests/e2e/test_why_leader.py has one"

_DAY = "needs a day of a cluster: tests/traces/test_recorder.py records and replays a moment"

LISTED = {
    "tonnage record day.jsonl.gz --for 24h --node-groups groups.yaml": _DAY,
    "tonnage replay day.jsonl.gz": _DAY,
    "tonnage replay day.jsonl.gz --set expander=price --set scaleDownEnabled=true"
    " --html day.html": _DAY,
    "tonnage replay day.jsonl.gz --node-groups larger.yaml --until 6h -o json": _DAY,
    "tonnage replay day.jsonl.gz --set expander=price --node-groups cheaper.yaml"
    " --html day.html": _DAY,
    "tonnage why shop/orders-3 --context production": _LEADER,
    "tonnage why shop/orders-3 --replay": _LEADER,
    "tonnage why shop/orders-3": _LEADER,
    "tonnage why node/worker-7": _LEADER,
    "tonnage why node/worker-7 --replay": _LEADER,
    "tonnage migrate --from karpenter --instance-types types.json --write moving/": (
        "needs NodePools of Karpenter; tests/migration has some"
    ),
    "tonnage run --dry-run --config moving/config.yaml --provider aws"
    " --node-group-auto-discovery ...": "asks an account of the reader's: tests/providers/aws",
    "tonnage sweep -f cluster/ --vary seed=0..9999 --engine tls://scheduler:8786 --tls-ca ca.pem"
    " --tls-certificate cert.pem --tls-key key.pem": (
        "needs a Dask cluster; tests/engine/test_dask_cluster.py has one"
    ),
    "tonnage sweep --gather logs.jsonl --results results.jsonl --html sweep.html": (
        "reads the logs of a Job; tests/sweep/test_job.py plays one"
    ),
    "tonnage compare-decisions": "asks two autoscalers that run",
    "tonnage compare-decisions --decisions decisions.jsonl": "asks an autoscaler that runs",
}
"""Lines of ours that are not run, and why."""

SHOWN = frozenset({"docs/cli.md"})
"""Pages whose `console` blocks tests/cli/test_documentation.py runs and compares."""

MAY_FAIL = ("diff", "doctor", "rescue")
"""Commands whose exit code 1 is an answer."""

OTHERS = (*other_tools.PROGRAMS, *other_tools.RUN)
LINES = [one for one in blocks.lines() if one.program not in OTHERS]


DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    """The example behind an API, with what an autoscaler has left there."""
    directory = tmp_path_factory.mktemp("cluster")
    with embedded_cluster(directory) as running:
        for tree in _objects():
            _create(running, tree)
        lesson = Lesson(
            instance_type="t4g.xlarge", driver="ebs.csi.aws.com", kind="limit", count=25,
            node="n1", seen=0.0,
        )  # fmt: skip
        state = State(memory=TemplateMemory(lessons=(lesson,)))
        running.create(
            "/api/v1/namespaces/kube-system/configmaps",
            {
                "metadata": {"name": "tonnage-state"},
                "data": {"state": msgspec.json.encode(state).decode()},
            },
        )
        for definition in cluster_api.definitions(("v1beta2",)):
            running.create(DEFINITIONS, definition)
        running.create("/api/v1/namespaces", {"metadata": {"name": "tonnage-system"}})
        running.create("/api/v1/nodes", {"metadata": {"name": "worker-1"}})
        driver = {"name": "ebs.csi.aws.com", "nodeID": "worker-1", "topologyKeys": []}
        csi_node = {"metadata": {"name": "worker-1"}, "spec": {"drivers": [driver]}}
        running.create("/apis/storage.k8s.io/v1/csinodes", csi_node)
        config = yaml.safe_load(Path(running.kubeconfig).read_text())
        context = config["contexts"][0]["context"]
        for name in ("production", "management"):
            config["contexts"].append({"name": name, "context": context})
        Path(running.kubeconfig).write_text(yaml.safe_dump(config))
        yield running


@pytest.fixture
def place(cluster: EmbeddedCluster, tmp_path: Path) -> Path:
    """A folder with the files that the documentation speaks of."""
    here = tmp_path
    golden = REPOSITORY / "tests" / "migration" / "golden"
    for name in ("examples", "deploy", "docs"):
        (here / name).symlink_to(REPOSITORY / name)
    example = REPOSITORY / "examples" / "two-databases"
    shutil.copy(example / "groups.yaml", here / "groups.yaml")
    shutil.copytree(example, here / "cluster")
    shutil.copy(golden / "eks-discovery" / "input.yaml", here / "cluster-autoscaler.yaml")
    shutil.copy(golden / "karpenter-general" / "instance-types.json", here / "types.json")
    tutorial = (REPOSITORY / "docs" / "tutorials" / "kind.md").read_text()
    block = tutorial.partition("```yaml\n")[2].partition("```")[0]
    (here / "kind-groups.yaml").write_text(block)
    (here / "launch.yaml").write_text(
        "{apiVersion: apps/v1, kind: Deployment, metadata: {name: launch, namespace: shop},"
        " spec: {replicas: 2, template: {spec: {containers: [{name: c}]}}}}"
    )
    decision = msgspec.structs.replace(
        decided(LEFT_OUT),
        plan=msgspec.structs.replace(
            LEFT_OUT,
            not_helped=(msgspec.structs.replace(LEFT_OUT.not_helped[0], pod="shop/orders-3"),),
        ),
    )
    for name in ("decisions.jsonl", "decisions.jsonl.1"):
        (here / name).write_bytes(msgspec.json.encode(decision) + b"\n")
    (here / ".kube").mkdir()
    for name in (".kube/config", "management.yaml"):
        shutil.copy(cluster.kubeconfig, here / name)
    for name in ("autoscaler.yaml", "scheduler.yaml"):
        (here / name).write_text("{}")
    written = invoke(["export", "cluster.json", "-f", "cluster"], here, cluster)
    assert written == (0, "")
    (here / "scenarios.jsonl.gz").write_bytes(gzip.compress((here / "cluster.json").read_bytes()))
    (here / "cluster" / "more.yaml").write_text(
        "{apiVersion: policy/v1, kind: PodDisruptionBudget,"
        " metadata: {name: web, namespace: shop}, spec: {minAvailable: 1}}\n---\n"
        "{apiVersion: v1, kind: Node, metadata: {name: node-7}}\n"
    )
    return here


@pytest.mark.parametrize("page", sorted({one.page for one in LINES}))
def test_the_lines_of_the_page_run(page: str, place: Path, cluster: EmbeddedCluster) -> None:
    # In the order of the page: a line may read what one before it has written.
    with services.Background(place) as beside:
        for line in LINES:
            if line.page == page:
                _run(line, place, cluster, beside)


def _run(line: Line, place: Path, cluster: EmbeddedCluster, beside: services.Background) -> None:
    plain = " | ".join(" ".join(stage) for stage in line.stages)
    if plain in LISTED or any(plain.startswith(one) for one in LONG):
        return
    if line.page in SHOWN and line.text.startswith("tonnage") and _is_shown(line):
        return
    if line.program == "python":
        beside.start(line.stages[0][1:])
        return
    if line.program == "echo":
        (place / line.target).write_text(beside.where(line.stages[0][1]))
        return
    output = ""
    for stage in line.stages:
        assert stage[0] == "tonnage", f"{line.text}: neither run nor listed"
        words = list(stage[1:])
        if services.serves(words):
            environment = {"KUBECONFIG": cluster.kubeconfig, "HOME": str(place)}
            services.start_and_stop(words, directory=place, environment=environment)
            return
        code, output = invoke(words, place, cluster, stdin=output)
        may_end = code == 0 or (code == 1 and words[0] in MAY_FAIL)
        assert may_end, f"{line.text}: {output}"
    if line.target:
        (place / line.target).write_text(output)


def test_nothing_is_listed_that_is_not_there() -> None:
    there = {" | ".join(" ".join(stage) for stage in one.stages) for one in blocks.lines()}
    assert {one for one in LISTED if one not in there} == set()
    assert {one.program for one in blocks.lines()} >= set(other_tools.PROGRAMS)
    assert {blocks.command(one.text) for one in blocks.lines()} >= set(other_tools.LINES)


def test_no_command_hides_in_an_indented_block() -> None:
    hidden = re.compile(r"^ {4}(?:tonnage|kubectl|helm) ", re.MULTILINE)
    fenced = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
    for page in blocks.PAGES:
        assert not hidden.search(fenced.sub("", page.read_text())), f"{page}: use ```sh"


def _is_shown(line: Line) -> bool:
    return f"$ {line.text}\n" in (REPOSITORY / line.page).read_text()


def invoke(
    words: list[str], place: Path, cluster: EmbeddedCluster, *, stdin: str = ""
) -> tuple[int, str]:
    before = Path.cwd()
    os.chdir(place)
    try:
        environment = {"KUBECONFIG": cluster.kubeconfig, "HOME": str(place)}
        given = [re.sub(r"^~(?=/)", str(place), word) for word in words]
        result = CliRunner().invoke(program, given, env=environment, input=stdin)
    finally:
        os.chdir(before)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout if result.exit_code == 0 else result.output


def _objects() -> Iterator[dict[str, object]]:
    """The example as a server has it: pods, not workloads; and nodes of a managed group."""
    loaded = api.read(REPOSITORY / "examples" / "two-databases")
    trees = [msgspec.json.decode(scenario_writer.manifest(one)) for one in loaded.objects]
    yield from (tree for tree in trees if tree["kind"] == "Namespace")
    for tree in trees:
        if tree["kind"] in ("NodeGroup", "StatefulSet", "Namespace"):
            continue
        if tree["kind"] == "Node":
            labels = tree["metadata"]["labels"]
            labels["eks.amazonaws.com/nodegroup"] = labels["pool"]
        tree["metadata"].pop("ownerReferences", None)
        yield tree
    golden = REPOSITORY / "tests" / "migration" / "golden" / "eks-discovery" / "input.yaml"
    for tree in yaml.safe_load_all(golden.read_text()):
        if tree and tree["kind"] == "Deployment":
            labels = {"app": "cluster-autoscaler"}
            tree["spec"]["selector"] = {"matchLabels": labels}
            tree["spec"]["template"].setdefault("metadata", {})["labels"] = labels
            yield tree


def _create(cluster: EmbeddedCluster, tree: dict[str, object]) -> None:
    from tonnage.simulation.manifests import Manifests

    Manifests(cluster.server).apply(json.loads(json.dumps(tree)))
