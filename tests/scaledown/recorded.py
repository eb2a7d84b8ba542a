"""Scenarios with the recorded scale-downs of cluster-autoscaler 1.37."""

import gzip
import json
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from tonnage.cli.batches import scale_down_of
from tonnage.files import batches

FOLDER = Path(__file__).parent.parent / "data" / "oracle"


class RecordedScaleDown(NamedTuple):
    """Upstream's answer, and ours as it is printed."""

    name: str
    expected: dict[str, Any]
    plan: dict[str, Any]

    @property
    def nodes(self) -> dict[str, dict[str, Any]]:
        return {node["node"]: node for node in self.plan["nodes"]}

    @property
    def removed(self) -> int:
        return sum(node["action"] != "keep" for node in self.plan["nodes"])

    @property
    def counts(self) -> list[int]:
        """Nodes that upstream's runs removed."""
        return [len(run["empty"]) + len(run["drain"]) for run in self.expected["outcomes"]]


def answers(folder: Path = FOLDER) -> list[RecordedScaleDown]:
    with gzip.open(folder / "scaledown.scenarios.jsonl.gz", "rb") as lines:
        scenarios = [batches.decode_scenario(line) for line in lines]
    with gzip.open(folder / "scaledown.expected.jsonl.gz", "rb") as lines:
        expected = [json.loads(line) for line in lines]
    return [
        RecordedScaleDown(
            one["scenario"],
            one,
            json.loads(msgspec.json.encode(scale_down_of(scenario, {})["plan"])),
        )
        for scenario, one in zip(scenarios, expected, strict=True)
    ]
