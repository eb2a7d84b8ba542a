"""One rule, asked about one pod on one node, and its answer in a line that tables can hold.

`fits`, `skipped`, or the code's initials and the reasons: `U: node(s) had no available disk`.
A pod that is refused before any node is looked at is `before any node, UU: ...`.
"""

from collections.abc import Iterable, Mapping

from tonnage.objects.pods import Pod
from tonnage.rules import features, pipeline
from tonnage.rules.causes import Reason
from tonnage.rules.features import Features
from tonnage.rules.framework import Ask, Code, PreFilter, Rejection, Rule
from tonnage.rules.pipeline import Verdict, Verdicts
from tonnage.snapshot.limits import LimitReader, from_csinode
from tonnage.snapshot.snapshot import Snapshot

FITS = "fits"
SKIPPED = "skipped"
NEWEST = features.of_version()
INITIALS = {Code.ERROR: "E", Code.UNSCHEDULABLE: "U", Code.UNRESOLVABLE: "UU"}


def answer(
    rule: Rule,
    pod: Pod,
    objects: Iterable[object],
    *,
    node: str = "n1",
    of: Features = NEWEST,
    limit_reader: LimitReader = from_csinode,
) -> str:
    """What the rule alone says, whatever other rules would have said before it."""
    ask = _ask(pod, objects, of=of, limit_reader=limit_reader)
    outcome = rule.pre_filter(ask)
    if outcome is None:
        return SKIPPED
    if isinstance(outcome, Rejection):
        return f"before any node, {INITIALS[outcome.code]}: {outcome.reason}"
    code, reasons = _at(outcome, ask, node)
    if code is Code.SUCCESS:
        return FITS
    return f"{INITIALS[code]}: {'; '.join(map(str, reasons))}"


def reasons(
    rule: Rule,
    pod: Pod,
    objects: Iterable[object],
    *,
    node: str = "n1",
    of: Features = NEWEST,
    limit_reader: LimitReader = from_csinode,
) -> tuple[Reason, ...]:
    """Causes and facts of the rule's refusal."""
    ask = _ask(pod, objects, of=of, limit_reader=limit_reader)
    outcome = rule.pre_filter(ask)
    if isinstance(outcome, Rejection):
        return (outcome.reason,)
    assert outcome is not None, "the rule has nothing to say about the pod"
    code, found = _at(outcome, ask, node)
    assert code is not Code.SUCCESS, "the pod fits"
    return found


def verdicts(pod: Pod, objects: Iterable[object], *, of: Features = NEWEST) -> Verdicts:
    """What all rules come to."""
    snapshot = Snapshot.of((*objects, pod), version=of.version)
    return pipeline.evaluate(snapshot, snapshot.pods[_key(pod)], of)


def verdict(
    pod: Pod, objects: Iterable[object], *, node: str = "n1", of: Features = NEWEST
) -> Verdict:
    return verdicts(pod, objects, of=of).on(node)


def version(text: str, gates: Mapping[str, bool] | None = None) -> Features:
    return features.of_version(text, gates)


def _ask(pod: Pod, objects: Iterable[object], *, of: Features, limit_reader: LimitReader) -> Ask:
    snapshot = Snapshot.of(objects, version=of.version, limit_reader=limit_reader)
    return Ask(snapshot, snapshot.record_of(pod), of)


def _at(started: PreFilter, ask: Ask, node: str) -> tuple[Code, tuple[Reason, ...]]:
    results = started.results()
    row = ask.snapshot.nodes[node].row
    code = Code(int(results.codes[row]))
    return code, results.reasons(row) if code is not Code.SUCCESS else ()


def _key(pod: Pod) -> str:
    return f"{pod.metadata.namespace}/{pod.metadata.name}"
