"""What cluster-autoscaler 1.37 says of the recorded clusters, we say too."""

from typing import Any

import pytest

from tests.scaledown import recorded
from tests.scaledown.recorded import RecordedScaleDown


@pytest.fixture(scope="module")
def answers() -> list[RecordedScaleDown]:
    return recorded.answers()


@pytest.fixture(scope="module")
def compared(answers: list[RecordedScaleDown]) -> list[RecordedScaleDown]:
    return [one for one in answers if "error" not in one.expected]


def differing(pairs: dict[str, tuple[Any, Any]]) -> dict[str, tuple[Any, Any]]:
    return {key: pair for key, pair in pairs.items() if pair[0] != pair[1]}


def test_every_pod_is_drained_alike(compared: list[RecordedScaleDown]) -> None:
    for one in compared:
        said = {
            pod["pod"]: ":".join(filter(None, (pod["drain"], pod.get("reason"))))
            for pod in one.plan["pods"]
        }
        wanted = one.expected["drain"]
        assert not differing({pod: (wanted[pod], said.get(pod)) for pod in wanted}), one.name


def test_the_same_nodes_are_candidates(compared: list[RecordedScaleDown]) -> None:
    for one in compared:
        found = sorted(name for name, node in one.nodes.items() if node["candidate"])
        assert found == one.expected["candidates"], one.name
        why = {
            name: node["notCandidate"] for name, node in one.nodes.items() if not node["candidate"]
        }
        assert why == one.expected["notCandidates"], one.name


def test_utilisation_is_the_same(compared: list[RecordedScaleDown]) -> None:
    for one in compared:
        for name, wanted in one.expected["utilisation"].items():
            found = one.nodes[name]["utilisation"]
            assert found.keys() == wanted.keys(), one.name
            assert found["resource"] == wanted["resource"], one.name
            for key in ("cpu", "memory", "value"):
                assert found[key] == pytest.approx(wanted[key], abs=1e-9), one.name


def test_a_node_alone_is_judged_alike(compared: list[RecordedScaleDown]) -> None:
    for one in compared:
        for name, wanted in one.expected["alone"].items():
            found = one.nodes[name]["alone"]
            said = {
                key: sorted(found[key]) if isinstance(found[key], list) else found[key]
                for key in wanted
                if key in found
            }
            assert said == wanted, (one.name, name)


def test_no_plan_removes_fewer_nodes(compared: list[RecordedScaleDown]) -> None:
    assert [one.name for one in compared if one.removed < max(one.counts)] == []


def test_there_is_a_plan_where_upstream_gives_up(answers: list[RecordedScaleDown]) -> None:
    given_up = [one for one in answers if "error" in one.expected]
    assert given_up
    assert all(one.plan["nodes"] for one in given_up)
