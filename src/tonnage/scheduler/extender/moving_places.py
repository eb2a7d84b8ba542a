"""Places of pods that are moving: kept for them on the nodes that kube-scheduler asks about.

All rules are asked, not only those about volumes: kube-scheduler knows of such a place only once
the pod that it is for is there and nominated.
"""

from collections import Counter
from collections.abc import Callable, Sequence

from tonnage.rules import pipeline
from tonnage.rules.causes import Cause, Reason
from tonnage.rules.framework import Ask
from tonnage.scheduler.extender import node_verdicts
from tonnage.scheduler.extender.node_verdicts import Judgement


def kept(ask: Ask, names: Sequence[str]) -> frozenset[str]:
    """Of these nodes, those on which the pod fits, and would not beside pods that move there.

    Also beside those that preemption has promised it to, as kube-scheduler has it.
    """
    found = pipeline.crowded_out(ask.snapshot, ask.pod, ask.features)
    return frozenset(names) & found.keys() if found else frozenset()


def beside(found: Judgement, kept: frozenset[str]) -> Judgement:
    """What was found of other nodes, and that these are kept."""
    return _refused(found, kept, Reason(Cause.PLACE_KEPT)) if kept else found


def only(found: Judgement, place: str, judge: Callable[[Sequence[str]], Judgement]) -> Judgement:
    """What was found, with the one node that is kept for the pod itself."""
    others = frozenset(found.passing) - {place}
    there = judge([place])._replace(
        failed=found.failed, unresolvable=found.unresolvable, causes=found.causes
    )
    return _refused(there, others, Reason(Cause.PLACE_ELSEWHERE))


def _refused(found: Judgement, names: frozenset[str], reason: Reason) -> Judgement:
    # The scheduler would look for pods to evict there, and those that are moving are not there yet.
    told = dict.fromkeys(sorted(names), node_verdicts.text(reason))
    return found._replace(
        unresolvable={**found.unresolvable, **told},
        causes=dict(Counter(found.causes) + Counter({reason.cause: len(names)})),
    )
