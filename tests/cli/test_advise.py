"""`tonnage advise`: types compared by cost and slots, prices from groups, file and table."""

import json
import re
from pathlib import Path

from click.testing import CliRunner, Result

from tonnage.cli import group_discovery
from tonnage.cli.app import program
from tonnage.objects.labels import INSTANCE_TYPE
from tonnage.objects.meta import ObjectMeta
from tonnage.objects.scenarios import GroupTemplate, NodeGroup, NodeGroupSpec
from tonnage.testing import builders as make

CLUSTER = """
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Node
  metadata:
    name: n1
    labels: {node.kubernetes.io/instance-type: m5.large, kubernetes.io/arch: amd64}
  status:
    capacity: {cpu: "2", memory: 8Gi, pods: 110}
    allocatable: {cpu: 1900m, memory: 7Gi, pods: 110}
- apiVersion: storage.k8s.io/v1
  kind: CSINode
  metadata: {name: n1}
  spec: {drivers: [{name: ebs.csi.aws.com, nodeID: n1, allocatable: {count: 25}}]}
- apiVersion: storage.k8s.io/v1
  kind: StorageClass
  metadata: {name: fast}
  provisioner: ebs.csi.aws.com
  volumeBindingMode: WaitForFirstConsumer
"""
POD = """
- apiVersion: v1
  kind: PersistentVolumeClaim
  metadata: {{name: c{n}, namespace: default}}
  spec:
    storageClassName: fast
    accessModes: [ReadWriteOnce]
    resources: {{requests: {{storage: 1Gi}}}}
  status: {{phase: Pending}}
- apiVersion: v1
  kind: Pod
  metadata: {{name: p{n}, namespace: default}}
  spec:
    containers: [{{name: a, image: x, resources: {{requests: {{cpu: 100m, memory: 100Mi}}}}}}]
    volumes: [{{name: d, persistentVolumeClaim: {{claimName: c{n}}}}}]
"""


def run(tmp_path: Path, *options: str, pods: int = 60) -> Result:
    file = tmp_path / "cluster.yaml"
    file.write_text(CLUSTER + "".join(POD.format(n=n) for n in range(pods)))
    return CliRunner().invoke(program, ["advise", "-f", str(file), "--seconds", "1", *options])


def prices(tmp_path: Path, text: str) -> str:
    file = tmp_path / "prices.yaml"
    file.write_text(text)
    return str(file)


def test_types_are_compared_by_what_the_slots_make_them_cost(tmp_path):
    given = prices(tmp_path, "m5.large: 0.1\nm5.4xlarge: 0.5\n")
    found = json.loads(run(tmp_path, "--prices", given, "-o", "json").stdout)
    assert (found["kind"], found["pods"], found["costNow"]) == ("SizeAdvice", 60, 0.1)
    large = found["types"][0]
    assert large["instanceType"] == "m5.large"
    # 60 volumes on nodes with room for 18 pods of CPU: memory and slots are not what binds.
    assert large["nodes"] == 4
    assert large["pricePerSlot"] == round(0.1 / large["slots"], 6)
    assert found["mixCost"] >= found["bound"] > 0


def test_the_table_names_the_best_mix(tmp_path):
    given = prices(tmp_path, "m5.large: 0.1\n")
    result = run(tmp_path, "--prices", given)
    assert result.exit_code == 0
    assert "60 pods, today on 1 nodes for 0.1 an hour." in result.stdout
    assert "The best mix found: 4 m5.large, for 0.4 an hour" in result.stdout


def test_types_of_other_clouds_and_processors_are_not_offered(tmp_path):
    given = prices(tmp_path, "m5.large: 0.1\nm6g.large: 0.01\nStandard_D4s_v5: 0.01\n")
    found = json.loads(run(tmp_path, "--prices", given, "-o", "json").stdout)
    assert [one["instanceType"] for one in found["types"]] == ["m5.large"]


def test_without_a_file_the_table_of_list_prices_is_used(tmp_path):
    found = json.loads(run(tmp_path, "-o", "json", pods=1).stdout)
    assert {one["source"].partition(",")[0] for one in found["types"]} == {"EC2 list"}


def test_a_file_without_prices_is_one_clear_error(tmp_path):
    for text in ("[]", "m5.large", "m5.large: ["):
        result = run(tmp_path, "--prices", prices(tmp_path, text), pods=1)
        assert result.exit_code == 2
        assert "prices.yaml" in result.output


def test_without_a_price_that_can_be_used_there_is_no_advice(tmp_path):
    result = run(tmp_path, "--prices", prices(tmp_path, "m5.large: 0.1 EUR"), pods=1)
    assert result.exit_code == 0
    assert "prices.yaml:1: m5.large: expected a price of an hour" in result.stderr
    assert "no instance type with a price whose name tells its CPUs and memory" in result.stderr


def test_without_pods_one_line_says_that_there_is_nothing_to_advise_on(tmp_path):
    result = run(tmp_path, pods=0)
    assert result.exit_code == 0
    assert result.stdout == "Nothing to advise on: there are no pods but those of DaemonSets.\n"
    found = json.loads(run(tmp_path, "-o", "json", pods=0).stdout)
    assert found["warnings"] == ["nothing to advise on: there are no pods but those of DaemonSets"]


def test_the_page_has_the_tables_and_nothing_of_the_input_as_html(tmp_path):
    page = tmp_path / "advice.html"
    given = prices(tmp_path, "m5.large: 0.1\nm5.4xlarge: 0.5\n")
    result = run(tmp_path, "--prices", given, "--html", str(page))
    assert result.exit_code == 0
    text = page.read_text()
    assert '<td>m5.large</td><td class="number">0.1</td>' in text
    assert "The best mix found: 4 m5.large, for 0.4 an hour;" in text
    assert "Made by Tonnage" in text


def test_a_page_in_a_folder_that_is_not_there_is_refused_at_once(tmp_path):
    result = run(tmp_path, "--html", str(tmp_path / "none" / "advice.html"))
    assert result.exit_code == 2
    assert "no such folder; expected one that exists" in result.stderr


def test_prices_are_those_of_the_provider_where_it_tells_some(tmp_path, monkeypatch):
    def discovered(_, wanted, **__):
        assert wanted.source == "aws"
        labels = {INSTANCE_TYPE: "m5.large"}
        template = GroupTemplate(node=make.node("t", labels=labels))
        spec = NodeGroupSpec(max_size=9, nodes=("n1",), price_per_hour="0.07", template=template)
        group = NodeGroup(metadata=ObjectMeta(name="g"), spec=spec)
        return group_discovery.Discovered([group_discovery.DiscoveredGroup(group, 1, "provider")])

    monkeypatch.setattr(group_discovery, "discover", discovered)
    config = tmp_path / "aws.yaml"
    config.write_text("prices: {m5.large: 0.09, m5.xlarge: 0.15, m5.2xlarge: 0.9 EUR}\n")
    arguments = ("--provider", "aws", "--cloud-config", str(config), "-o", "json")
    found = json.loads(run(tmp_path, *arguments).stdout)
    assert {(one["instanceType"], one["price"], one["source"]) for one in found["types"]} == {
        ("m5.large", 0.07, "provider aws"),
        ("m5.xlarge", 0.15, "provider aws"),
    }
    assert found["costNow"] == 0.07


def sections(page: Path) -> dict[str, str]:
    """What stands under each heading of a page."""
    parts = re.split(r"<h2>(.*?)</h2>", page.read_text())
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_the_report_of_a_run_has_what_its_last_nodes_would_cost_on_other_types(
    tmp_path: Path,
) -> None:
    file, trace = tmp_path / "run.html", tmp_path / "run.jsonl"
    scenario = "examples/simulations/zone-out-of-stock.yaml"
    command = ["simulate", scenario, "--duration", "10m", "--html", str(file)]
    made = CliRunner().invoke(program, [*command, "--record", str(trace)])
    assert made.exit_code == 0, made.output
    found = sections(file)["Right-sizing"]
    assert "10 pods, on 2 nodes for 1.2 an hour" in found
    assert "<td>m6i.large</td>" in found
    assert found.count("<tr><td>") == 10 + 1, "ten types, and what is stranded in the one group"
    assert '<tr><td>dear</td><td>ebs.csi.aws.com</td><td class="number">15</td>' in found

    again = tmp_path / "again.html"
    made = CliRunner().invoke(program, ["replay", str(trace), "--html", str(again)])
    assert made.exit_code == 0, made.output
    assert sections(again)["Right-sizing: replayed"] == found

    made = CliRunner().invoke(program, [*command, "--compare", "csiAware=false"])
    assert made.exit_code == 0, made.output
    both = sections(file)
    assert both["Right-sizing: csiAware=true"] == found
    assert "Right-sizing: csiAware=false" not in both, "it ends without a node"


def test_a_run_without_prices_and_without_anything_stranded_has_no_such_section(
    tmp_path: Path,
) -> None:
    file = tmp_path / "run.html"
    command = ["simulate", "examples/simulations/gangs.yaml", "--duration", "1m"]
    made = CliRunner().invoke(program, [*command, "--html", str(file)])
    assert made.exit_code == 0, made.output
    assert not [title for title in sections(file) if title.startswith("Right-sizing")]
