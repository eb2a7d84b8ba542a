"""Answers for all nodes at once, against answers for each node alone."""

from collections import Counter
from collections.abc import Iterator

import msgspec
from hypothesis import given

from tests.snapshot.histories import cluster_of, lean, seeds
from tonnage.objects.nodes import Node
from tonnage.rules import pipeline, registry
from tonnage.rules.features import Features
from tonnage.rules.framework import Ask, Code, Outcome, Rejection, Rule
from tonnage.rules.pipeline import Verdicts
from tonnage.snapshot import imagined
from tonnage.snapshot.snapshot import PodRecord, Snapshot
from tonnage.testing.builders import node, pod

LOOKING_FAR = ("VolumeRestrictions", "PodTopologySpread", "InterPodAffinity")
"""Rules for which pods on other nodes matter; those are compared with the reference instead."""


def answer(outcome: Outcome, row: int) -> object:
    if outcome is None:
        return "skipped"
    if isinstance(outcome, Rejection):
        return outcome.code, str(outcome.reason)
    results = outcome.results()
    code = Code(int(results.codes[row]))
    return code, [str(one) for one in results.reasons(row)] if code is not Code.SUCCESS else []


def local_rules(gates: Features) -> Iterator[Rule]:
    return (rule for rule in registry.kube_scheduler(gates) if rule.name not in LOOKING_FAR)


@given(seeds)
@lean(60)
def test_a_node_among_others_is_answered_for_as_if_it_were_alone(seed) -> None:
    objects, gates = cluster_of(seed)
    together = Snapshot.of(objects)
    for name in sorted(together.nodes)[:4]:
        alone = Snapshot.of(
            one for one in objects if not isinstance(one, Node) or one.metadata.name == name
        )
        for record in together.pending_pods():
            asks = [
                Ask(snapshot, snapshot.pods[record.key], gates) for snapshot in (together, alone)
            ]
            for rule in local_rules(gates):
                among, by_itself = (
                    answer(rule.pre_filter(ask), ask.snapshot.nodes[name].row) for ask in asks
                )
                assert among == by_itself, (rule.name, record.key, name)


@given(seeds)
@lean(60)
def test_asking_twice_gives_the_same_answer(seed) -> None:
    objects, gates = cluster_of(seed)
    snapshot = Snapshot.of(objects)
    for record in list(snapshot.pending_pods()):
        first, second = (list(pipeline.evaluate(snapshot, record, gates)) for _ in range(2))
        assert first == second


@given(seeds)
@lean(60)
def test_a_template_is_told_what_its_copy_would_be_told(seed) -> None:
    """For rules that look at the node alone, with nothing on it."""
    objects, gates = cluster_of(seed)
    snapshot = Snapshot.of(objects)
    model = snapshot.ordered_nodes()[0].node
    renamed = msgspec.structs.replace(
        model, metadata=msgspec.structs.replace(model.metadata, name="template")
    )
    csinode = snapshot.csinodes.get(model.metadata.name)
    template = imagined.add_template(snapshot, renamed, csinode, [], host_keys=())
    copies = imagined.add_copies(snapshot, template, ["copy"])
    for record in snapshot.pending_pods():
        if record.pin is not None:
            continue
        ask = Ask(snapshot, record, gates)
        for rule in local_rules(gates):
            if rule.name in ("NodeAffinity", "VolumeBinding"):
                continue  # these may name the node
            outcome = rule.pre_filter(ask)
            assert answer(outcome, template.row) == answer(outcome, copies.start)


def test_a_template_is_no_part_of_the_cluster() -> None:
    snapshot = Snapshot.of([node("n1")])
    record = snapshot.record_of(pod("web"))
    imagined.add_template(snapshot, node("template"), None, [])
    found = pipeline.evaluate(snapshot, record, cluster_of(0)[1])

    assert [one.node for one in found] == ["n1"]
    assert found.fits.tolist() == [True, False]
    assert found.summary() == "1/1 nodes are available"


# Refusals and summaries, put together from columns.


def evaluated(seed: int) -> Iterator[tuple[Snapshot, PodRecord, Verdicts]]:
    objects, gates = cluster_of(seed)
    snapshot = Snapshot.of(objects)
    for record in list(snapshot.pending_pods()):
        yield snapshot, record, pipeline.evaluate(snapshot, record, gates)


@given(seeds)
@lean(100)
def test_refusals_say_of_every_row_what_its_verdict_says(seed) -> None:
    for snapshot, _, found in evaluated(seed):
        by_row = {snapshot.nodes[one.node].row: one for one in found}
        refused = []
        for refusal in found.refusals():
            for row in refusal.rows.tolist():
                verdict = by_row[row]
                assert (verdict.phase, verdict.plugin, verdict.code, tuple(verdict.texts)) == (
                    refusal.phase,
                    refusal.plugin,
                    refusal.code,
                    refusal.texts,
                )
                refused.append(row)
        assert sorted(refused) == sorted(
            row for row, verdict in by_row.items() if verdict.code is not Code.SUCCESS
        )


@given(seeds)
@lean(100)
def test_a_summary_counts_what_the_verdicts_say(seed) -> None:
    for _, record, found in evaluated(seed):
        verdicts = list(found)
        codes = {one.code for one in verdicts}
        if record.pod_class.gates or Code.ERROR in codes:
            continue
        if Code.SUCCESS in codes:
            fitting = sum(one.code is Code.SUCCESS for one in verdicts)
            expected = f"{fitting}/{len(verdicts)} nodes are available"
        elif found.rejection is not None:
            expected = f"0/{len(verdicts)} nodes are available: {verdicts[0].texts[0]}."
        else:
            counts = Counter(text for one in verdicts for text in one.texts)
            body = ", ".join(sorted(f"{count} {text}" for text, count in counts.items()))
            expected = f"0/{len(verdicts)} nodes are available: {body}."
        assert found.summary() == expected
