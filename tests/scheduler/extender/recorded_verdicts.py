"""Recorded verdicts of kube-scheduler beside the extender's, with what its other filters allow."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tonnage.files import batches
from tonnage.rules import features, registry
from tonnage.rules.features import Features
from tonnage.rules.framework import Ask, Code, PreFilter, Rejection
from tonnage.scheduler.extender import node_verdicts
from tonnage.snapshot.reservations import Reservations
from tonnage.snapshot.snapshot import PodRecord, Snapshot

LIMITS = "NodeVolumeLimits"


class Case(NamedTuple):
    snapshot: Snapshot
    features: Features
    verdicts: dict[str, dict[str, Any]]
    """By pod and node."""


def cases(folder: Path) -> Iterator[Case]:
    with (
        gzip.open(folder / "verdicts.scenarios.jsonl.gz") as scenarios,
        gzip.open(folder / "verdicts.expected.jsonl.gz") as answers,
    ):
        for scenario, answer in zip(scenarios, answers, strict=True):
            loaded = batches.decode_scenario(scenario)
            assert loaded.scenario is not None
            asked = features.of_version(
                loaded.scenario.kubernetes_version, loaded.scenario.feature_gates
            )
            verdicts: dict[str, dict[str, Any]] = {}
            for one in json.loads(answer)["verdicts"]:
                verdicts.setdefault(one["pod"], {})[one["node"]] = one
            yield Case(Snapshot.of(loaded.objects, version=asked.version), asked, verdicts)


def allowed_by_extender(case: Case, pod: PodRecord) -> set[str]:
    found = node_verdicts.judge(
        Ask(case.snapshot, pod, case.features),
        list(case.snapshot.nodes),
        reservations=Reservations(),
        registering={},
        fresh_since=0.0,
    )
    told = {*found.passing, *found.failed, *found.unresolvable}
    assert told == set(case.snapshot.nodes)
    return set(found.passing)


def allowed_by_kube_scheduler(case: Case, pod: PodRecord) -> set[str]:
    return {node for node, one in case.verdicts[pod.key].items() if one["code"] == "Success"}


def allowed_by_recorded_others(case: Case, pod: PodRecord) -> set[str]:
    """Nodes on which no filter but that of the limits failed, asked on its own."""
    return {
        node
        for node, one in case.verdicts[pod.key].items()
        if one["code"] == "Success" or one.get("all", {"": ""}).keys() == {LIMITS}
    }


def allowed_by_modelled_others(case: Case, pod: PodRecord) -> set[str]:
    ask = Ask(case.snapshot, pod, case.features)
    passes = np.ones(ask.size, dtype=np.bool_)
    only = set(case.snapshot.nodes)
    for one in registry.kube_scheduler(case.features):
        outcome = one.pre_filter(ask)
        if isinstance(outcome, Rejection):
            return set()
        if isinstance(outcome, PreFilter) and one.name != LIMITS:
            passes &= outcome.results().codes == Code.SUCCESS
            only &= outcome.only if outcome.only is not None else only
    return {name for name in only if passes[case.snapshot.nodes[name].row]}


def differences(folder: Path, others: Any) -> tuple[int, list[str]]:
    """How many pods were compared, and those that differ."""
    count, differing = 0, []
    for number, case in enumerate(cases(folder)):
        for pod in case.snapshot.pending_pods():
            if pod.pod_class.gates:
                continue
            count += 1
            together = allowed_by_extender(case, pod) & others(case, pod)
            if together != allowed_by_kube_scheduler(case, pod):
                differing.append(f"{number} {pod.key}")
    return count, differing
