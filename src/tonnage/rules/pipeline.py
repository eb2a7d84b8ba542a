"""All rules over all nodes, in kube-scheduler's order, and the verdicts they come to."""

from collections import Counter
from collections.abc import Collection, Iterator
from functools import cached_property

import msgspec
import numpy as np

from tonnage.objects import complexity
from tonnage.objects.meta import Record
from tonnage.rules import registry
from tonnage.rules.causes import Cause, Reason
from tonnage.rules.features import Features
from tonnage.rules.framework import Ask, Code, Codes, NodeResults, PreFilter, Rejection
from tonnage.snapshot.rows import Bools, Ints, distinct
from tonnage.snapshot.snapshot import PodRecord, Snapshot

DEVICES_NOT_MODELLED = (
    "the pod has resource claims (DynamicResources), which are not modelled:"
    " a node shown as fitting may still be refused"
)


_CODES = tuple(Code)
# Comparing a column with a member of an enumeration takes five times as long.
_SUCCESS, _ERROR = int(Code.SUCCESS), int(Code.ERROR)


class Verdict(Record, frozen=True, kw_only=True):
    """What became of one pod on one node."""

    pod: str
    node: str
    phase: str | None = None
    plugin: str | None = None
    code: Code = Code.SUCCESS
    reasons: tuple[Reason, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def texts(self) -> list[str]:
        """The reasons as kube-scheduler words them; errors say where they came from."""
        if self.code is not Code.ERROR:
            return [str(reason) for reason in self.reasons]
        where = (
            f'running PreFilter plugin "{self.plugin}"'
            if self.phase == "PreFilter"
            else f'running "{self.plugin}" filter plugin'
        )
        return [f"{where}: {reason}" for reason in self.reasons]


class Refusal(msgspec.Struct, frozen=True):
    """Nodes refused in the same words, by their rows."""

    phase: str | None
    plugin: str | None
    code: Code
    texts: tuple[str, ...]
    rows: Ints


class Verdicts:
    """The verdicts of one pod on every node: columns, with words for a row on request."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self.codes: Codes = np.zeros(ask.size, dtype=np.int8)
        self._refused_by = np.full(ask.size, -1, dtype=np.int16)
        self._results: list[tuple[str, str, NodeResults]] = []
        self.rejection: tuple[str, str, Rejection] | None = None
        self.asked: frozenset[str] = frozenset()

    @property
    def fits(self) -> Bools:
        """Rows the pod fits on."""
        mask: Bools = (self.codes == _SUCCESS) & self._alive
        return mask

    @property
    def _alive(self) -> Bools:
        return self._ask.snapshot.table.alive.data[: len(self.codes)]

    def refuse_all(self, phase: str, plugin: str, rejection: Rejection) -> None:
        self.codes[:] = rejection.code
        self.rejection = (phase, plugin, rejection)

    def add(self, phase: str, plugin: str, results: NodeResults) -> None:
        """Take a filter's answer for the rows no filter has refused yet."""
        if not results.codes.any():
            return
        fresh = (self.codes == _SUCCESS) & (results.codes != _SUCCESS)
        if fresh.any():
            self.codes[fresh] = results.codes[fresh]
            self._refused_by[fresh] = len(self._results)
            self._results.append((phase, plugin, results))

    def replace(self, row: int, verdict: Verdict) -> None:
        """Let a refusal found another way stand for a row."""
        codes = np.zeros(len(self.codes), dtype=np.int8)
        codes[row] = self.codes[row] = verdict.code
        self._refused_by[row] = len(self._results)
        results = NodeResults(codes, lambda _: verdict.reasons)
        self._results.append((verdict.phase or "", verdict.plugin or "", results))

    def on(self, node_name: str) -> Verdict:
        """The verdict on one node."""
        return self._verdict(node_name, self._ask.snapshot.nodes[node_name].row)

    def at(self, row: int, name: str) -> Verdict:
        """The verdict on a row that may be a template's, under a name of the caller's."""
        return self._verdict(name, row)

    def refused_by(self, plugins: Collection[str]) -> Bools:
        """Rows that one of these plugins was the first to refuse."""
        if self.rejection is not None:
            return np.full(len(self.codes), self.rejection[1] in plugins)
        named = [plugin in plugins for _, plugin, _ in self._results]
        # The last stands for rows that nobody has refused.
        mask: Bools = np.array([*named, False])[self._refused_by]
        return mask

    def refusals(self) -> list[Refusal]:
        """All refused nodes with all reasons, one entry for all nodes refused in the same words."""
        refused = self._alive & (self.codes != _SUCCESS)
        groups = list(self._alike(refused))
        refusals = []
        for rows in groups:
            sample = self._verdict("", int(rows[0]))
            refusals.append(
                Refusal(sample.phase, sample.plugin, sample.code, tuple(sample.texts), rows)
            )
        return refusals

    def _alike(self, refused: Bools) -> Iterator[Ints]:
        """Rows in groups that are refused in the same words; an error is a group of its own."""
        if self.rejection is not None:
            if refused.any():
                yield np.flatnonzero(refused)
            return
        errors = np.flatnonzero(refused & (self.codes == _ERROR))
        yield from errors[:, np.newaxis]
        for number, (_, _, results) in enumerate(self._results):
            rows = np.flatnonzero(refused & (self._refused_by == number))
            rows = rows[self.codes[rows] != _ERROR]
            words = results.kinds()[rows] * len(Code) + self.codes[rows]
            for one in distinct(words):
                yield rows[words == one]

    def __iter__(self) -> Iterator[Verdict]:
        for node in self._ask.snapshot.ordered_nodes():
            yield self._verdict(node.name, node.row)

    @cached_property
    def _about_pod(self) -> tuple[str, tuple[str, ...]]:
        """What stands in the verdict on every node: the pod, and what to know about it."""
        return self._ask.pod.key, tuple(_warnings(self._ask))

    def _verdict(self, node: str, row: int) -> Verdict:
        pod, warnings = self._about_pod
        code = _CODES[self.codes[row]]
        if code is Code.SUCCESS:
            return Verdict(pod=pod, node=node, warnings=warnings)
        if self.rejection is not None:
            phase, plugin, rejection = self.rejection
            reasons: tuple[Reason, ...] = (rejection.reason,)
        else:
            phase, plugin, results = self._results[self._refused_by[row]]
            reasons = results.reasons(row)
        return Verdict(
            pod=pod,
            node=node,
            phase=phase,
            plugin=plugin,
            code=code,
            reasons=reasons,
            warnings=warnings,
        )

    def summary(self) -> str:
        """One line as kube-scheduler reports it, without what preemption would add."""
        if self.rejection is not None and self.rejection[0] == "PreEnqueue":
            return "Scheduling is blocked due to non-empty scheduling gates"
        total = int(self._alive.sum())
        if not total:
            return "no nodes available to schedule pods"
        if (self._alive & (self.codes == _ERROR)).any():
            return next(verdict.texts[0] for verdict in self if verdict.code is Code.ERROR)
        fitting = int(self.fits.sum())
        if fitting:
            return f"{fitting}/{total} nodes are available"
        refusals = self.refusals()
        if self.rejection is not None:
            body = refusals[0].texts[0]
        else:
            counts: Counter[str] = Counter()
            for refusal in refusals:
                for text in refusal.texts:
                    counts[text] += len(refusal.rows)
            body = ", ".join(sorted(f"{count} {text}" for text, count in counts.items()))
        return f"0/{total} nodes are available: {body}."


def _warnings(ask: Ask) -> Iterator[str]:
    if ask.pod_class.wants_devices:
        yield DEVICES_NOT_MODELLED
    if ask.pod.complexity > complexity.MOST:
        yield (
            f"the pod has {ask.pod.complexity:,} rules, terms, values and volumes, more than"
            f" {complexity.MOST:,}: the autoscaler decides on it last and alone"
        )


def evaluate(snapshot: Snapshot, pod: PodRecord, features: Features) -> Verdicts:
    """Ask every rule about a pod on the cluster as it is.

    Where preemption has promised room to other pods that are at least as important, the pod
    must fit beside them as well as without them.
    """
    verdicts = _ask_filters(snapshot, pod, features)
    if verdicts.rejection is None:
        for name, verdict in _beside(snapshot, pod, features, verdicts.asked).items():
            if verdict.code is not Code.SUCCESS:
                verdicts.replace(snapshot.nodes[name].row, verdict)
    return verdicts


def crowded_out(snapshot: Snapshot, pod: PodRecord, features: Features) -> dict[str, Verdict]:
    """Nodes on which the pod fits, and would not beside the pods that they are promised to."""
    if not snapshot.nominated_pods:
        return {}
    alone = _ask_filters(snapshot, pod, features)
    return {
        name: verdict
        for name, verdict in _beside(snapshot, pod, features, alone.asked).items()
        if verdict.code is not Code.SUCCESS and alone.on(name).code is Code.SUCCESS
    }


def _beside(
    snapshot: Snapshot, pod: PodRecord, features: Features, asked: frozenset[str]
) -> dict[str, Verdict]:
    """The verdicts on nodes with the pods on them that they are promised to, by node.

    Filters that had nothing to do with the pod without them are not asked, as upstream has it.
    """
    promised = _promised(snapshot, pod)
    if any(_matters_elsewhere(other, pod) for pods in promised.values() for other in pods):
        apart = [{name: pods} for name, pods in promised.items()]
    else:
        # What is on one node is nothing to another: all may be asked about at once.
        apart = [promised] if promised else []
    found: dict[str, Verdict] = {}
    for together in apart:
        with snapshot.trial():
            for name, pods in together.items():
                for other in pods:
                    snapshot.place(other, name)
            verdicts = _ask_filters(snapshot, pod, features, only=asked)
            found.update({name: verdicts.on(name) for name in together})
    return found


def _promised(snapshot: Snapshot, pod: PodRecord) -> dict[str, list[PodRecord]]:
    """Pods at least as important that nodes are promised to, by node in the order they came."""
    found = {
        name: [
            other
            for other in pods.values()
            if other.pod_class.priority >= pod.pod_class.priority and other.key != pod.key
        ]
        for name, pods in snapshot.nominated_pods.items()
        if name in snapshot.nodes
    }
    names = sorted(filter(found.get, found), key=lambda name: snapshot.nodes[name].order)
    return {name: found[name] for name in names}


def _matters_elsewhere(other: PodRecord, pod: PodRecord) -> bool:
    """Whether one of two pods may be refused a node because of where the other is."""
    for pod_class in (other.pod_class, pod.pod_class):
        if pod_class.affinity or pod_class.anti_affinity or pod_class.spread:
            return True
    claims = {volume.claim for volume in other.volumes if volume.claim}
    return any(volume.claim in claims for volume in pod.volumes)


def _ask_filters(
    snapshot: Snapshot, pod: PodRecord, features: Features, *, only: frozenset[str] | None = None
) -> Verdicts:
    ask = Ask(snapshot, pod, features)
    verdicts = Verdicts(ask)
    if ask.pod_class.gates:
        gates = " ".join(ask.pod_class.gates)
        rejection = Rejection(Code.UNRESOLVABLE, Cause.SCHEDULING_GATED, gates=gates)
        verdicts.refuse_all("PreEnqueue", "SchedulingGates", rejection)
        return verdicts
    started = _pre_filter(ask, verdicts)
    if only is not None:
        started = [(name, one) for name, one in started if name in only]
    verdicts.asked = frozenset(name for name, _ in started)
    for name, one in started:
        if not verdicts.codes.all():
            verdicts.add("Filter", name, one.results())
    return verdicts


def _pre_filter(ask: Ask, verdicts: Verdicts) -> list[tuple[str, PreFilter]]:
    """Let every rule look at the pod; what is left are the rules worth running."""
    started: list[tuple[str, PreFilter]] = []
    narrowing: list[str] = []
    only: set[str] | None = None
    for one in registry.rules(ask.features):
        outcome = one.pre_filter(ask)
        if isinstance(outcome, Rejection):
            verdicts.refuse_all("PreFilter", one.name, outcome)
            return []
        if outcome is None:
            continue
        started.append((one.name, outcome))
        if outcome.only is not None:
            narrowing.append(one.name)
            only = outcome.only if only is None else only & outcome.only
            if not only:
                disjoint = Rejection(
                    Code.UNRESOLVABLE, Cause.NODE_SETS_DISJOINT, plugins=" ".join(sorted(narrowing))
                )
                verdicts.refuse_all("PreFilter", one.name, disjoint)
                return []
    if only is not None:
        _narrow(ask, verdicts, only, sorted(narrowing))
    return started


def _narrow(ask: Ask, verdicts: Verdicts, only: set[str], plugins: list[str]) -> None:
    passes = np.zeros(ask.size, dtype=np.bool_)
    passes[[node.row for name in only if (node := ask.snapshot.nodes.get(name))]] = True
    reason = (Reason(Cause.OUTSIDE_NODE_SET, {"plugins": " ".join(plugins)}),)
    verdicts.add(
        "PreFilter", plugins[-1], NodeResults.passing(passes, Code.UNRESOLVABLE, lambda _: reason)
    )
