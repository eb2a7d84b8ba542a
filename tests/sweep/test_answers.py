"""What is said of a variant is what the commands say of a cluster that is changed so."""

import json
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from tests.cli.conftest import Written
from tests.cli.planning import cluster, databases, document
from tests.cli.planning import run as plan
from tests.scaleup.groups import DRIVER, group, owned_by
from tests.sweep.sweeping import NOW, results, run
from tonnage.cli.app import program
from tonnage.objects import kinds
from tonnage.objects.kinds import KubeObject
from tonnage.testing import builders as make

REPOSITORY = Path(__file__).parent.parent.parent

RUNNING: list[KubeObject] = [
    make.node("n1"),
    make.csinode("n1", {DRIVER: 5}),
    make.pod("web", on="n1", owner=owned_by("ReplicaSet")),
]


def a_cluster() -> list[KubeObject]:
    """Pods that wait, two groups with prices, and one node that is there."""
    dear = group("dear", slots={DRIVER: 20}, price="3", most=4)
    return [*cluster(dear, pods=30), *RUNNING, group("old", nodes=["n1"], template=False)]


CHANGES = [
    [f"limit={DRIVER}:12"],
    ["max-size=g:2"],
    ["price=dear:0.1"],
    ["replicas=default/db-0:7"],
    ["remove-node=n1"],
    [f"opt-in={DRIVER}"],
    [f"limit={DRIVER}:9", "remove-node=n1", "max-size=g:1", "price=g:9", "min-size=dear:1"],
]


@pytest.mark.parametrize("changes", CHANGES, ids=lambda changes: " ".join(changes))
def test_a_plan_is_that_of_the_same_what_ifs(written: Written, changes: list[str]) -> None:
    file = written(*a_cluster())
    given = [f"--what-if={one}" for one in changes]
    expected = document(plan("-f", file, "-o", "json", NOW, *given))
    (found,) = results("-f", file, "--whole-answers", *(f"--vary={one}" for one in changes))
    assert found["plan"] == expected


def test_what_is_kept_between_variants_changes_no_answer(written: Written) -> None:
    file = written(*a_cluster())
    grid = ["--vary=max-size=g:0..3", "--vary=price=dear:0.1,9", f"--vary=limit={DRIVER}:4,12"]
    together = results("-f", file, "--whole-answers", *grid)
    assert len(together) == 16
    for one in together[::3]:
        alone = [f"--vary={label}:{value:g}" for label, value in one["values"].items()]
        (found,) = results("-f", file, "--whole-answers", *alone)
        assert found["plan"] == one["plan"]


def test_the_seed_of_a_random_choice_is_varied(written: Written) -> None:
    file = written(*cluster(group("h", slots={DRIVER: 5}, price="0.5")))
    found = results("-f", file, "--expander=random", "--vary=seed=0..9")
    assert {tuple(one["bought"]) for one in found} == {("g",), ("h",)}


def test_options_are_varied(written: Written) -> None:
    file = written(*a_cluster())
    found = results("-f", file, "--vary=option=maxNodesTotal:2,0")
    assert [one["figures"]["nodesBought"] for one in found] == [1, 2]


def test_a_variant_that_cannot_be_made_is_one_error_and_the_others_go_on(
    written: Written,
) -> None:
    found = results("-f", written(*a_cluster()), "--vary=remove-node=n1,n9", code=3)
    assert [one.get("error", "") for one in found] == [
        "",
        "what-if remove-node=n9: no such node in the input; there is 1: n1",
    ]
    assert found[1]["variant"] == "remove-node=n9"


def test_pods_of_files_are_added(written: Written) -> None:
    more = written(*databases(5, name="new"), name="more.json")
    found = results("-f", written(*cluster()), f"--vary=add-pods=-,{more}")
    assert [one["figures"]["nodesBought"] for one in found] == [3, 4]


def test_what_can_go_is_asked(written: Written) -> None:
    nodes = [make.node("n1"), make.node("n2"), group("g", nodes=["n1", "n2"], price="0.5")]
    found = results(
        "-f", written(*nodes), "--ask=scale-down", "--vary=min-size=g:0..2", "--vary=price=g:0.5,2"
    )
    gone = [one["figures"]["nodesRemoved"] for one in found]
    assert gone == [2, 2, 1, 1, 0, 0]
    assert [one["figures"]["savesPerHour"] for one in found[:2]] == [1.0, 4.0]


def test_many_clusters_are_asked_alike(tmp_path: Path) -> None:
    batch = tmp_path / "batch.jsonl"
    batch.write_bytes(
        b"".join(
            msgspec.json.encode(
                {
                    "apiVersion": "tonnage.dev/v1alpha1",
                    "kind": "Scenario",
                    "metadata": {"name": name},
                    "spec": {"objects": [_manifest(one) for one in cluster(pods=pods)]},
                }
            )
            + b"\n"
            for name, pods in (("small", 5), ("large", 15))
        )
    )
    found = results(f"--batch={batch}", f"--vary=limit={DRIVER}:5,15")
    assert [(one["cluster"], one["figures"]["nodesBought"]) for one in found] == [
        ("small", 1),
        ("small", 1),
        ("large", 3),
        ("large", 1),
    ]


def _manifest(one: KubeObject) -> dict[str, object]:
    row = kinds.of(one)
    return {"apiVersion": row.api_version, "kind": row.kind, **msgspec.to_builtins(one)}


SIMULATION = str(REPOSITORY / "examples" / "simulations" / "scale-from-one.yaml")


def test_simulations_are_played_with_other_seeds_and_options() -> None:
    found = results("--ask=simulate", "-f", SIMULATION, "--vary=seed=7", "--vary=duration=2m,6m")
    assert [one["values"] for one in found] == [
        {"duration": "2m", "seed": 7},
        {"duration": "6m", "seed": 7},
    ]
    alone = CliRunner().invoke(
        program, ["simulate", SIMULATION, "--seed=7", "--duration=6m", "-o", "json"]
    )
    summary = json.loads(alone.stdout)["summary"]
    assert summary["podsRan"] > 0
    assert {key: found[1]["figures"][key] for key in ("podsRan", "nodesBought", "cost")} == {
        key: summary[key] for key in ("podsRan", "nodesBought", "cost")
    }


def test_a_file_says_what_is_asked(written: Written, tmp_path: Path) -> None:
    written(*a_cluster())
    sweep = {
        "apiVersion": "tonnage.dev/v1alpha1",
        "kind": "Sweep",
        "metadata": {"name": "sale"},
        "spec": {
            "clusters": [{"name": "shop", "files": ["cluster.json"]}],
            "grid": ["max-size=g:1..2"],
            "variants": [
                {"name": "more", "changes": ["replicas=default/db-0:40"]},
                {"name": "now"},
            ],
            "options": {"expander": "least-nodes"},
        },
    }
    (tmp_path / "sweep.yaml").write_text(json.dumps(sweep))
    found = results(str(tmp_path / "sweep.yaml"))
    assert [one["variant"] for one in found] == [
        "more, max-size=g:1", "more, max-size=g:2", "now, max-size=g:1", "now, max-size=g:2",
    ]  # fmt: skip
    assert {one["cluster"] for one in found} == {"shop"}


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"grid": ["nonsense=1"]}, "vary nonsense=1: expected one of"),
        ({"question": "plan"}, "question"),
        ({"ask": "guess"}, "guess"),
    ],
)
def test_a_file_that_makes_no_sense_is_one_line_and_code_2(
    tmp_path: Path, spec: dict[str, object], told: str
) -> None:
    sweep = {"apiVersion": "tonnage.dev/v1alpha1", "kind": "Sweep", "spec": spec}
    (tmp_path / "sweep.yaml").write_text(json.dumps(sweep))
    (tmp_path / "empty.json").write_text(json.dumps({"kind": "NodeGroup"}))
    result = run(str(tmp_path / "sweep.yaml"), "-f", str(REPOSITORY / "examples" / "two-databases"))
    assert (result.exit_code, len(result.stderr.splitlines())) == (2, 1)
    assert told in result.stderr
