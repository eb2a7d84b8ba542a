"""The Python API: `import tonnage`."""

import contextlib
import io
import re
import subprocess
import sys
from pathlib import Path

import pytest

import tonnage
from tests.scaleup.groups import group
from tonnage.objects.kinds import KubeObject
from tonnage.testing import builders as make

REPOSITORY = Path(__file__).parent.parent
EXAMPLE = REPOSITORY / "examples" / "two-databases"
DRIVER = "disk.example.com"


def bound(name: str, node: str) -> list[KubeObject]:
    """A pod on a node with one volume of its own, attached there."""
    claim = make.pvc(f"{name}-data", volume=f"{name}-pv")
    return [
        claim,
        make.pv(f"{name}-pv", driver=DRIVER, claim=claim),
        make.attachment(f"{name}-pv", node, attacher=DRIVER),
        make.pod(name, pvcs=[f"{name}-data"], on=node),
    ]


def two_nodes() -> list[KubeObject]:
    """n1 has room for one volume and has it; n2 has room."""
    return [
        make.node("n1"),
        make.csinode("n1", {DRIVER: 1}),
        make.node("n2"),
        make.csinode("n2", {DRIVER: 1}),
        *bound("db", "n1"),
    ]


@pytest.mark.parametrize("page_of", ["docs/python-api.md", "docs/notebooks.md"])
def test_the_documented_example_prints_what_the_documentation_says(
    monkeypatch: pytest.MonkeyPatch, page_of: str
) -> None:
    monkeypatch.chdir(REPOSITORY)
    page = Path(page_of).read_text()
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (shown,) = re.findall(r"```text\n(.*?)```", page, re.DOTALL)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, page_of, "exec"), {})
    assert printed.getvalue() == shown


def growing() -> list[KubeObject]:
    """Two nodes of a group, which are full, and a pod that waits."""
    claim = make.pvc("new-data", storage_class="fast")
    more: list[KubeObject] = [
        make.storage_class("fast", DRIVER),
        claim,
        make.pod("new", pvcs=["new-data"]),
    ]
    return [*two_nodes(), *bound("other", "n2"), *more, group("g", nodes=["n1", "n2"])]


def test_a_cluster_is_planned_for() -> None:
    (bought,) = tonnage.Cluster(growing()).plan().scale_ups
    assert (bought.group, bought.delta) == ("g", 1)


def test_options_of_a_plan_go_before_those_of_the_cluster() -> None:
    cluster = tonnage.Cluster(growing(), options={"maxNodesTotal": 2})
    assert cluster.plan().scale_ups == ()
    assert cluster.plan({"maxNodesTotal": 3}).scale_ups


def test_a_decision_has_what_it_came_from() -> None:
    made = tonnage.Cluster(growing()).decide(now=0.0)
    assert (list(made.templates.by_group), list(made.readiness.groups)) == (["g"], ["g"])
    assert (list(made.inputs.nodes), made.inputs.now) == (["n1", "n2"], 0.0)


def test_planning_leaves_a_cluster_as_it_was() -> None:
    cluster = tonnage.Cluster(growing())
    before = cluster.explain("new")
    assert cluster.plan(now=0.0) == cluster.plan(now=0.0)
    assert cluster.explain("new") == before


def test_other_objects_are_asked_about_in_the_same_way() -> None:
    cluster = tonnage.Cluster(growing(), options={"maxNodesTotal": 2})
    cluster.explain("new")
    fewer = cluster.with_objects(one for one in growing() if one.metadata.name != "new")
    assert (cluster.pending, fewer.pending) == (("default/new",), ())
    assert fewer.inputs().options.max_nodes_total == 2


@pytest.mark.parametrize("name", tonnage.__all__)
def test_every_name_that_is_promised_is_there(name: str) -> None:
    assert getattr(tonnage, name).__name__ == name
    assert name in dir(tonnage)


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        tonnage.nonsense  # noqa: B018


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = (
        "import sys, tonnage; sys.exit(any(m in sys.modules for m in ('numpy', 'msgspec', 'yaml')))"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_one_path_may_be_given_as_it_is() -> None:
    assert tonnage.load(EXAMPLE).pending == tonnage.load([EXAMPLE]).pending


def test_pending_pods_come_in_the_order_of_the_objects() -> None:
    pods = [make.pod("b"), make.pod("a"), make.pod("c", on="n1"), make.pod("d", deleting=True)]
    assert tonnage.Cluster(pods).pending == ("default/b", "default/a")


def test_fits_names_the_nodes() -> None:
    cluster = tonnage.Cluster([*two_nodes(), make.pod("web", node_selector={make.HOSTNAME: "n2"})])
    assert cluster.explain("web").fits == ("n2",)


def test_a_running_pod_fits_where_it_is_though_the_node_is_full() -> None:
    explanation = tonnage.Cluster(two_nodes()).explain("db")
    assert (explanation.node, explanation.fits) == ("n1", ("n1", "n2"))


def test_an_attachment_of_another_pod_stays_when_a_running_pod_is_asked_for() -> None:
    left_behind: list[KubeObject] = [
        make.pv("old-pv", driver=DRIVER),
        make.attachment("old-pv", "n1", attacher=DRIVER),
    ]
    assert tonnage.Cluster([*two_nodes(), *left_behind]).explain("db").fits == ("n2",)


def test_asking_changes_nothing() -> None:
    cluster = tonnage.Cluster([*two_nodes(), make.pod("web")])
    before = cluster.slots(), cluster.explain("web"), cluster.pending
    cluster.explain("db")
    assert (cluster.slots(), cluster.explain("web"), cluster.pending) == before


def test_objects_are_taken_as_they_are() -> None:
    assert tonnage.Cluster([make.pod("web")]).notes == ()


def test_loading_assumes_namespaces_and_notes_it(tmp_path: Path) -> None:
    (tmp_path / "pod.yaml").write_text(
        "{apiVersion: v1, kind: Pod, metadata: {name: web, namespace: shop}}"
    )
    (note,) = tonnage.load(tmp_path).notes
    assert note.startswith("no Namespace object for shop")


def test_loading_strictly_refuses_a_bad_object(tmp_path: Path) -> None:
    (tmp_path / "pod.yaml").write_text("{apiVersion: v1, kind: Pod, metadata: {name: 7}}")
    with pytest.raises(tonnage.InputError, match=r"pod\.yaml: .*metadata\.name"):
        tonnage.load(tmp_path)


def test_loading_leniently_lists_a_bad_object(tmp_path: Path) -> None:
    (tmp_path / "pod.yaml").write_text("{apiVersion: v1, kind: Pod, metadata: {name: 7}}")
    (problem,) = tonnage.load(tmp_path, lenient=True).problems
    assert "metadata.name" in problem


def test_an_unknown_pod_is_an_input_error_with_near_matches() -> None:
    with pytest.raises(tonnage.InputError, match="near matches: default/db"):
        tonnage.Cluster(two_nodes()).explain("dbs")


def test_an_empty_cluster_says_there_are_no_pods() -> None:
    with pytest.raises(tonnage.InputError, match="there are no pods in the input"):
        tonnage.Cluster([]).explain("db")


def test_slots_of_a_driver_can_be_picked_out() -> None:
    report = tonnage.Cluster([*two_nodes(), make.node("n3"), make.csinode("n3", {"x": 1})]).slots()
    assert [one.node for one in report.only(drivers=[DRIVER]).slots] == ["n1", "n2"]
    assert [one.node for one in report.only(nodes=["n3"]).slots] == ["n3"]


def test_slots_are_added_up_with_what_they_strand() -> None:
    cluster = tonnage.Cluster(
        [
            make.namespace("default"),
            make.node("n1", cpu="4"),
            make.csinode("n1", {DRIVER: 1}),
            *bound("db", "n1"),
        ]
    )
    (share,) = cluster.slots_by("driver", now=0.0).shares
    assert (share.name, share.total.used, share.full_nodes) == (DRIVER, 1, ("n1",))
    assert share.stranded_cpu > 0


def test_slots_by_something_unknown_name_what_there_is() -> None:
    cluster = tonnage.Cluster(two_nodes())
    with pytest.raises(tonnage.InputError, match="'zzz': expected one of group, type, driver"):
        cluster.slots_by("zzz", now=0.0)  # type: ignore[arg-type]


def test_slots_and_plans_turn_into_data_frames() -> None:
    cluster = tonnage.load(EXAMPLE)
    slots = cluster.slots().to_pandas()
    assert list(slots.columns[:4]) == ["node", "driver", "state", "limit"]
    assert slots[slots.free == 0].node.tolist() == ["aks-orders-1", "aks-orders-2"]
    assert sorted(cluster.plan().to_pandas().group) == ["orders-2", "search-3"]


def test_a_what_if_compares_two_plans() -> None:
    found = tonnage.load(EXAMPLE).what_if(limits={"disk.csi.azure.com": 8})
    assert {row["group"]: (row["before"], row["after"]) for row in found.records()} == {
        "orders-2": (1, 0),
        "search-3": (1, 1),
    }
    assert found.to_pandas().after.sum() == 1
    assert not found.difference.equal


def test_records_draw_themselves_and_escape_names() -> None:
    nasty = "<script>x</script>"
    objects: list[KubeObject] = [make.node(nasty), make.csinode(nasty, {DRIVER: 2})]
    drawn = tonnage.Cluster(objects).slots()._repr_html_()
    assert "<script>" not in drawn
    assert "&lt;script&gt;" in drawn
    cluster = tonnage.load(EXAMPLE)
    assert "Buys 2 nodes" in cluster.plan()._repr_html_()
    assert "What if" in cluster.what_if(max_sizes={"orders-2": 1})._repr_html_()
