"""`tools/parity` tells chance from difference, with a `compare` of the test's own."""

import json
import runpy
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

PARITY = Path(__file__).parent.parent.parent / "tools" / "parity"

COMPARE = """
import json, sys
wanted, found = ([json.loads(line) for line in open(path)] for path in sys.argv[2:])
plans = {one["scenario"]: one["plan"] for one in found}
wrong = False
for one in wanted:
    plan = plans[one["scenario"]]
    nodes = {node["node"]: node for node in plan["nodes"]}
    said = [("drain", one["drain"], plan["drain"])]
    for what in ("utilisation", "alone"):
        said += [(what, want, nodes[node][what]) for node, want in one[what].items()]
    for what, want, got in said:
        if want != got:
            wrong = True
            print(f"1 of 1 {what} differ   e.g. something")
print("the same: something")
sys.exit(1 if wrong else 0)
"""
"""Judges answers as the real one does, of less."""

CLUSTER = """
import json, sys
for line in sys.stdin:
    scenario = json.loads(line)
    objects = scenario["spec"]["objects"]
    pods = {one["metadata"]["name"]: one for one in objects if one["kind"] == "Pod"}
    told = {"scenario": scenario["metadata"]["name"]}
    if sys.argv[2] == "verdicts":
        told["verdicts"] = [
            {"pod": f"default/{pod}", "node": node, "code": "Success" if node in "ab" else "No"}
            for pod in pods
            for node in "abc"
        ]
    else:
        on = [one["spec"].get("nodeName") for one in pods.values()]
        told["plan"] = {
            "drain": "DrainOk",
            "nodes": [
                {
                    "node": node,
                    "utilisation": {"cpu": 0.1 + 0.25 * on.count(node), "memory": 0.5},
                    "alone": {"removable": node not in on},
                }
                for node in "abc"
            ],
        }
    print(json.dumps(told))
"""
"""A cluster of three nodes, of which two have room for pods; each takes a quarter of its node."""


def recorded(*nodes: str, drain: str = "DrainOk", pods_at: str = "") -> dict[str, Any]:
    """What was recorded with pods on these nodes, and perhaps said to be on others."""
    return {
        "drain": drain,
        "utilisation": {n: {"cpu": 0.1 + 0.25 * nodes.count(n), "memory": 0.5} for n in "abc"},
        "alone": {n: {"removable": n not in (pods_at or nodes)} for n in "abc"},
    }


@pytest.fixture
def is_chance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., bool]:
    """Asked of a cluster with two pending pods, and of one with a pod that has a node."""
    (tmp_path / "compare").write_text(COMPARE)
    tonnage = tmp_path / "tonnage"
    tonnage.write_text(f"#!{sys.executable}{CLUSTER}")
    tonnage.chmod(0o755)
    monkeypatch.syspath_prepend(str(PARITY.parent))
    parity = runpy.run_path(str(PARITY))
    parity["ask"].__globals__["TONNAGE"] = tonnage

    def write(name: str, trees: Iterable[Any]) -> Path:
        path = tmp_path / name
        path.write_text("".join(f"{json.dumps(one)}\n" for one in trees))
        return path

    def scenario(name: str, *specs: Any) -> dict[str, Any]:
        pods = [
            {"kind": "Pod", "metadata": {"name": f"{name}-{number}"}, "spec": spec}
            for number, spec in enumerate(specs)
        ]
        nodes = [{"kind": "Node", "metadata": {"name": node}} for node in "abc"]
        return {"metadata": {"name": name}, "spec": {"objects": [*nodes, *pods]}}

    def asked(*, pending: dict[str, Any], settled: dict[str, Any]) -> bool:
        scenarios = [scenario("pending", {}, {}), scenario("settled", {"nodeName": "c"})]
        wanted = [{"scenario": "pending", **pending}, {"scenario": "settled", **settled}]
        return bool(
            parity["is_chance"](
                tmp_path,
                write("scenarios", scenarios),
                write("expected", wanted),
                write("answers", parity["ask"]("scale-down", scenarios)),
                scratch=tmp_path,
            )
        )

    return asked


@pytest.mark.parametrize("nodes", ["", "a", "b", "ab", "aa"])
def test_pending_pods_can_be_anywhere_with_room(
    is_chance: Callable[..., bool], capsys: pytest.CaptureFixture[str], nodes: str
) -> None:
    assert is_chance(pending=recorded(*nodes), settled=recorded("c"))
    assert "nodes are as recorded: found for 1." in capsys.readouterr().out


@pytest.mark.parametrize(
    "pending",
    [
        pytest.param(recorded("c"), id="a node without room"),
        pytest.param(recorded("a", "a", "a"), id="more pods than there are"),
        pytest.param(recorded("a", pods_at="b"), id="not in one place"),
    ],
)
def test_what_no_place_explains_is_a_difference(
    is_chance: Callable[..., bool],
    capsys: pytest.CaptureFixture[str],
    pending: dict[str, Any],
) -> None:
    assert not is_chance(pending=pending, settled=recorded("c"))
    assert "nodes are as recorded: found for 0." in capsys.readouterr().out


@pytest.mark.parametrize("settled", [recorded("a"), recorded("c", pods_at="a")])
def test_elsewhere_nothing_may_differ(
    is_chance: Callable[..., bool], settled: dict[str, Any]
) -> None:
    assert not is_chance(pending=recorded("a"), settled=settled)


def test_what_has_nothing_to_do_with_places_may_not_differ_either(
    is_chance: Callable[..., bool],
) -> None:
    assert not is_chance(pending=recorded("a", drain="BlockDrain"), settled=recorded("c"))
