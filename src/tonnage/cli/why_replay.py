"""`tonnage why --replay`: a decision made again here, and whether the answer is the same."""

from typing import TYPE_CHECKING, NamedTuple

from tonnage.cli import console
from tonnage.cli.running_autoscaler import RunningAutoscaler, contents, refuse_follower
from tonnage.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tonnage.autoscaler.consolidation.recordings import RecordedConsolidation
    from tonnage.autoscaler.report import LoggedDecision
    from tonnage.consolidation.plan import ConsolidatedNode, ConsolidationPlan
    from tonnage.scaleup.plan import Plan


class DecisionReplay(NamedTuple):
    """Both answers; `doubts` say why they might differ without anything being wrong."""

    time: str
    then: "Plan | ConsolidationPlan"
    now: "Plan | ConsolidationPlan"
    doubts: tuple[str, ...]

    @property
    def is_same(self) -> bool:
        return self.then == self.now


def replay(decisions: "Sequence[LoggedDecision]", *, pod: str) -> DecisionReplay:
    """The newest of the decisions that can be, made again."""
    from tonnage.autoscaler import recordings
    from tonnage.groups.inputs import WrittenInputs

    recorded = [one for one in decisions if one.recording]
    if not recorded:
        why = next((one.not_recorded for one in reversed(decisions) if one.not_recorded), "")
        raise InputError(
            f"no decision about pod {pod!r} can be replayed{f': {why}' if why else ''}"
        )
    newest = recorded[-1]
    inputs, objects = recordings.unpack(newest.recording, WrittenInputs)
    now = recordings.replayed(inputs, objects)
    doubts = []
    if newest.plan.partial:
        doubts.append("the plan of then is partial: time ran out")
    if "grpc" in inputs.options.expander:
        doubts.append("an expander outside chose then, which is not asked now")
    return DecisionReplay(newest.time, newest.plan, now, tuple(doubts))


def document(found: DecisionReplay) -> dict[str, object]:
    import msgspec

    return {
        "time": found.time,
        "same": found.is_same,
        "then": msgspec.to_builtins(found.then),
        "now": msgspec.to_builtins(found.now),
        "doubts": list(found.doubts),
    }


def show(found: DecisionReplay) -> None:
    import msgspec

    console.echo()
    if found.is_same:
        console.echo(f"replayed the decision of {found.time}: the same plan")
        return
    console.echo(f"replayed the decision of {found.time}: another plan")
    for when, plan in (("then", found.then), ("now", found.now)):
        console.echo(f"  {when}: {_summary(plan)}")
    differing = [
        field.encode_name
        for field in msgspec.structs.fields(found.then)
        if getattr(found.then, field.name) != getattr(found.now, field.name)
    ]
    console.echo(f"  differing: {', '.join(differing)}")
    for doubt in found.doubts:
        console.echo(f"  {doubt}")


def _summary(plan: "Plan | ConsolidationPlan") -> str:
    from tonnage.consolidation.plan import ConsolidationPlan

    if isinstance(plan, ConsolidationPlan):
        bought = sum(len(one.nodes) for one in plan.buys)
        going = len(plan.going)
        return f"{going} go, {bought} bought, {len(plan.moves)} moves, saves {plan.saves_per_hour}"
    told = ", ".join(f"{one.group} +{one.delta}" for one in plan.scale_ups) or "nothing bought"
    return f"{told}; {len(plan.all_on_existing)} fit, {len(plan.not_helped)} left out"


PATH = "/debug/recorded-consolidations"


def replay_node(
    name: str, files: tuple[str, ...], asked: RunningAutoscaler, *, form: console.Format
) -> bool:
    """Make the newest decision that knows the node again; whether the answer is the same.

    `files` are what the autoscaler answered at its debug address.
    """
    import msgspec

    decisions: list[RecordedConsolidation] = []
    for file in files:
        decisions += _decoded(contents(file), file)
    if not files:
        where, data = asked.document(PATH)
        decisions = _decoded(data, where)
        if not decisions and where.startswith("http"):
            refuse_follower(where.removesuffix(PATH))
    newest, node = _newest(name, decisions)
    found = _again(newest)
    if form in ("json", "yaml"):
        console.print_document(
            "Why",
            form=form,
            node=name,
            time=newest.time,
            decision=msgspec.to_builtins(node),
            replay=document(found),
        )
        return found.is_same
    told = f"goes in wave {node.wave}" if node.goes else f"stays, {node.code}"
    console.echo(f"{name}: consolidation: {told}")
    show(found)
    return found.is_same


def _newest(
    name: str, decisions: "list[RecordedConsolidation]"
) -> "tuple[RecordedConsolidation, ConsolidatedNode]":
    known = [(one, node) for one in decisions for node in one.plan.nodes if node.node == name]
    recorded = [pair for pair in known if pair[0].recording]
    if recorded:
        return recorded[-1]
    if not decisions:
        raise InputError(
            f"node {name}: consolidation has decided nothing yet: consolidation.enabled and"
            " scaleDownEnabled in the configuration turn it on"
        )
    if not known:
        raise InputError(f"node {name}: no decision of consolidation knows it")
    why = next((one.not_recorded for one, _ in reversed(known) if one.not_recorded), "")
    raise InputError(f"no decision about node {name} can be replayed{f': {why}' if why else ''}")


def _again(newest: "RecordedConsolidation") -> DecisionReplay:
    from tonnage.autoscaler.consolidation import recordings

    doubts = []
    if newest.plan.partial:
        doubts.append("the plan of then is partial: time ran out")
    now = recordings.replayed(newest.recording)
    return DecisionReplay(newest.time, newest.plan, now, tuple(doubts))


def _decoded(data: bytes, where: str) -> "list[RecordedConsolidation]":
    import msgspec

    from tonnage.autoscaler.consolidation.recordings import RecordedConsolidation

    try:
        return msgspec.json.decode(data, type=list[RecordedConsolidation])
    except msgspec.DecodeError as error:
        raise InputError(f"{where}: not decisions of consolidation: {error}") from None
