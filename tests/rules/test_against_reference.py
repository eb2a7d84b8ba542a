"""The model against the plain reference, which looks at one node at a time and keeps nothing."""

from collections.abc import Iterable

import msgspec
import pytest

from tests.clusters import RandomCluster, random_cluster
from tonnage.objects.pods import Pod
from tonnage.rules import features, pipeline, registry
from tonnage.rules.features import Features
from tonnage.rules.framework import Ask, Code, Rejection, Rule
from tonnage.snapshot.snapshot import Snapshot
from tonnage.testing.reference import ReferenceCluster, verdicts
from tonnage.testing.reference.outcomes import AttemptError, Stance
from tonnage.testing.reference.pipeline import plugins

MISSING = " CSI driver is not installed on the node"
VERSIONS = ("1.34", "1.35", "1.36", "1.37")
BATCH = 50
REPLICA_LABELS = {
    b'"app"': b'"batch.kubernetes.io/job-name"',
    b'"tier"': b'"apps.kubernetes.io/pod-index"',
}


def in_other_words(made: RandomCluster) -> RandomCluster:
    """The same cluster with labels that tell replicas apart in the place of ordinary ones."""
    objects = []
    for one in made.objects:
        text = msgspec.json.encode(one)
        for plain, own in REPLICA_LABELS.items():
            text = text.replace(plain, own)
        objects.append(msgspec.json.decode(text, type=type(one)))
    return msgspec.structs.replace(made, objects=tuple(objects))


def comparable(texts: Iterable[str]) -> list[str]:
    """Of several missing drivers upstream names any, so which one does not count."""
    return sorted(MISSING if text.endswith(MISSING) else text for text in texts)


def disagreements(made: RandomCluster, kubernetes: str) -> list[object]:
    """Every verdict on every waiting pod where model and reference differ."""
    of = features.of_version(kubernetes, made.gates)
    cluster = ReferenceCluster(made.objects, kubernetes_version=of.version, gates=made.gates)
    snapshot = Snapshot.of(made.objects, version=of.version)
    found: list[object] = []
    for pod in cluster.pending():
        record = snapshot.pods[f"{pod.metadata.namespace}/{pod.metadata.name}"]
        answers = {one.node: one for one in pipeline.evaluate(snapshot, record, of)}
        for expected in verdicts(cluster, pod):
            got = answers[expected.node]
            same = ((got.phase or "", got.plugin or "", str(got.code), comparable(got.texts))) == (
                expected.phase,
                expected.plugin,
                expected.code,
                comparable(expected.reasons),
            )
            if not same:
                found.append((expected, got.plugin, str(got.code), got.texts))
    return found


@pytest.mark.parametrize("batch", range(8))
def test_verdicts_are_those_of_the_reference(batch) -> None:
    for seed in range(batch * BATCH, (batch + 1) * BATCH):
        assert disagreements(random_cluster(seed), "1.37") == [], f"seed {seed}"


@pytest.mark.parametrize("kubernetes", VERSIONS[:-1])
def test_verdicts_of_older_versions_are_those_of_the_reference(kubernetes) -> None:
    for seed in range(1000, 1000 + BATCH):
        assert disagreements(random_cluster(seed), kubernetes) == [], f"seed {seed}"


@pytest.mark.parametrize("batch", range(2))
def test_labels_of_replicas_are_labels_like_any_other_to_selectors(batch) -> None:
    for seed in range(2000 + batch * BATCH, 2000 + (batch + 1) * BATCH):
        assert disagreements(in_other_words(random_cluster(seed)), "1.37") == [], f"seed {seed}"


# Rule by rule: what one rule says is not hidden behind what another says before it.


def by_model(rule: Rule, ask: Ask) -> object:
    outcome = rule.pre_filter(ask)
    if isinstance(outcome, Rejection):
        return str(outcome.code), [str(outcome.reason)]
    results = outcome.results() if outcome is not None else None
    answers = {}
    for name, record in ask.snapshot.nodes.items():
        code = Code(int(results.codes[record.row])) if results is not None else Code.SUCCESS
        texts = results.reasons(record.row) if results is not None and code else ()
        answers[name] = str(code), comparable(map(str, texts))
    only = outcome.only if outcome is not None else None
    return None if only is None else frozenset(only), answers


def by_reference(rule: Rule, cluster: ReferenceCluster, pod: Pod) -> object:
    try:
        stance = plugins(cluster.kubernetes_version)[rule.name](cluster, pod)
    except AttemptError as error:
        return "Error", [str(error)]
    if stance.refusal is not None:
        return stance.refusal.code, list(stance.refusal.reasons)
    return stance.only, {name: _at(stance, cluster, name) for name in cluster.nodes}


def _at(stance: Stance, cluster: ReferenceCluster, name: str) -> tuple[str, list[str]]:
    try:
        refusal = stance.check(cluster.nodes[name]) if stance.check is not None else None
    except AttemptError as error:
        return "Error", [str(error)]
    return ("Success", []) if refusal is None else (refusal.code, comparable(refusal.reasons))


def compare_rule(rule: Rule, made: RandomCluster, of: Features) -> None:
    """Ask about all pods, also those on nodes, as if a second one of them came."""
    cluster = ReferenceCluster(made.objects, kubernetes_version=of.version, gates=made.gates)
    snapshot = Snapshot.of(made.objects, version=of.version)
    for one in made.objects:
        if isinstance(one, Pod):
            spec = msgspec.structs.replace(one.spec, node_name="")
            asking = msgspec.structs.replace(one, spec=spec)
            ask = Ask(snapshot, snapshot.record_of(asking), of)
            if not _is_stopped_before(rule, ask):
                assert by_model(rule, ask) == by_reference(rule, cluster, asking), rule.name


def _is_stopped_before(rule: Rule, ask: Ask) -> bool:
    """Whether a rule before this one refuses the pod as such; the reference relies on that."""
    for earlier in registry.kube_scheduler(ask.features):
        if earlier is rule:
            return False
        if isinstance(earlier.pre_filter(ask), Rejection):
            return True
    raise AssertionError(f"{rule.name} is not among the rules")


@pytest.mark.parametrize("rule", registry.KUBE_SCHEDULER, ids=lambda rule: rule.name)
def test_each_rule_says_what_the_reference_says(rule) -> None:
    for seed in range(3000, 3000 + BATCH):
        made = random_cluster(seed)
        compare_rule(rule, made, features.of_version("1.37", made.gates))
