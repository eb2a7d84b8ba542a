"""Scenarios with the recorded answers of cluster-autoscaler 1.37, and how ours are held to them."""

import gzip
import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from tests.scaleup.replay import missed, violations
from tonnage.files import batches
from tonnage.groups import options as settings
from tonnage.groups.inputs import Inputs
from tonnage.groups.options import Options
from tonnage.objects.kinds import KubeObject
from tonnage.rules import features
from tonnage.rules.features import Features
from tonnage.scaleup import decision
from tonnage.scaleup.plan import GroupDelta, Plan

NOW = 1_800_000_000.0
CHOSEN = Path(__file__).parent.parent / "data" / "oracle"


# Scenarios in which upstream did better, of all that are recorded. They may become fewer, not more.

BELOW_THE_LUCKIEST = frozenset({"scaleup-262"})
BELOW_THE_WHOLE_RUN = frozenset({"scaleup-262"})
DEARER_THAN_THE_WHOLE_RUN = frozenset[str]()
NOT_ITS_ONLY_ANSWER = frozenset({"scaleup-2"})
"""Upstream always answers the same, and our first step has fewer pods or more nodes."""


class Case(NamedTuple):
    """A recorded scenario: what was asked, and what upstream answered in several runs."""

    name: str
    objects: list[KubeObject]
    options: Options
    features: Features
    expected: dict[str, Any]

    def decide(self) -> Plan:
        return decision.decide(
            Inputs.of_objects(self.objects, options=self.options, features=self.features, now=NOW)
        ).plan

    @property
    def outcomes(self) -> list[dict[str, Any]]:
        """What upstream came to, every time it did not give up."""
        return [one for one in self.expected["outcomes"] if not one.get("error")]


def cases(folder: Path, part: slice = slice(None)) -> list[Case]:
    """The recorded scenarios of a folder, or a part of them."""
    scenarios = _lines(folder / "plans.scenarios.jsonl.gz")[part]
    answers = _lines(folder / "plans.expected.jsonl.gz")[part]
    return [_case(*both) for both in zip(scenarios, answers, strict=True)]


def count(folder: Path) -> int:
    return len(_lines(folder / "plans.expected.jsonl.gz"))


@cache
def _lines(path: Path) -> list[bytes]:
    with gzip.open(path) as file:
        return file.readlines()


def helped(plan: Plan) -> int:
    """Pods the plan finds a place for."""
    return len(plan.fit_on_existing) + sum(len(step.pods) for step in plan.steps)


def bought(plan: Plan) -> int:
    return sum(one.delta for one in plan.scale_ups)


def first_step_holds(case: Case, plan: Plan) -> bool:
    """Whether the first step is one of upstream's, or helps no fewer pods with no more nodes."""
    first = plan.steps[0] if plan.steps else None
    ours = _pairs(first.scale_ups if first is not None else ())
    theirs = [_theirs(one) for one in case.outcomes]
    pods = len(first.pods) if first is not None else 0
    return ours in theirs or (
        pods >= max(one["triggered"] for one in case.outcomes)
        and sum(ours.values()) <= min(sum(one.values()) for one in theirs)
    )


def has_one_answer(case: Case) -> bool:
    return len({tuple(sorted(_theirs(one).items())) for one in case.outcomes}) == 1


def helped_by_upstream(case: Case) -> list[int]:
    return [one["schedulableOnExisting"] + one["triggered"] for one in case.outcomes]


class WholeRun(NamedTuple):
    """What upstream's loop came to, run until it bought nothing more."""

    pods: int
    nodes: int


def whole_run(case: Case) -> WholeRun | None:
    found = case.expected.get("fixpoint")
    if not found:
        return None
    return WholeRun(found["podsHelped"] + found["podsOnExisting"], found["nodesBought"])


def broken_promises(case: Case, plan: Plan) -> list[object]:
    """What the plan places wrong, and whom it leaves out for no reason."""
    asked = {"options": case.options, "features": case.features, "now": NOW}
    return [
        *violations(case.objects, plan, **asked),  # type: ignore[arg-type]
        *missed(case.objects, plan, **asked),  # type: ignore[arg-type]
    ]


def is_below_the_luckiest(case: Case, plan: Plan) -> bool:
    return helped(plan) < max(helped_by_upstream(case), default=0)


def is_below_the_whole_run(case: Case, plan: Plan) -> bool:
    whole = whole_run(case)
    return whole is not None and helped(plan) < whole.pods


def is_dearer_than_the_whole_run(case: Case, plan: Plan) -> bool:
    whole = whole_run(case)
    return whole is not None and helped(plan) == whole.pods and bought(plan) > whole.nodes


def _case(scenario: bytes, answer: bytes) -> Case:
    loaded = batches.decode_scenario(scenario)
    expected = json.loads(answer)
    assert loaded.scenario is not None
    assert loaded.name == expected["scenario"]
    return Case(
        loaded.name,
        loaded.objects,
        settings.of(loaded.scenario.options),
        features.of_version(loaded.scenario.kubernetes_version, loaded.scenario.feature_gates),
        expected,
    )


def _pairs(scale_ups: Iterable[GroupDelta]) -> dict[str, int]:
    return {one.group: one.delta for one in scale_ups if one.delta}


def _theirs(outcome: dict[str, Any]) -> dict[str, int]:
    return {one["group"]: one["delta"] for one in outcome["scaleUps"] or () if one["delta"]}
