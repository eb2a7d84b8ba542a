"""`tonnage why`: what the running autoscaler decided about a pod, and what came of it."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import click

from tonnage.cli import cluster_access, console, running_autoscaler, why_node, why_replay, why_room
from tonnage.cli.running_autoscaler import DEFAULT_URL, RunningAutoscaler
from tonnage.errors import InputError
from tonnage.objects.phrases import alternatives

if TYPE_CHECKING:
    from tonnage.autoscaler.report import LoggedDecision
    from tonnage.scaleup.plan import GroupReason, NotHelped

BOUGHT = "bought"
FITS = "fits"
LEFT_OUT = "left out"
WAITS = "waits"

_RECORDED_PATH = "/debug/recorded-decisions"


@click.command()
@click.argument("pod", metavar="POD|KIND/NAME")
@click.option(
    "--url",
    metavar="URL",
    help="The --debug-address of the autoscaler that leads, or where it is forwarded to.  "
    f"[default: {DEFAULT_URL} if something listens there, else the leader by its Lease]",
)
@cluster_access.options
@click.option(
    "--autoscaler-namespace",
    metavar="NAME",
    help="Where the autoscaler runs.  [default: tonnage-system or kube-system, wherever its Lease "
    "is]",
)
@click.option(
    "-f",
    "--file",
    "files",
    metavar="FILE",
    multiple=True,
    help="Ask a decision file instead of the autoscaler; - is standard input; repeatable.",
)
@click.option(
    "-n",
    "--namespace",
    metavar="NAME",
    default="",
    help="Namespace of the pod or the room, if the argument does not say.",
)
@click.option(
    "--replay",
    is_flag=True,
    help="Make the newest decision about the pod, or of consolidation about the node, again, here, "
    "from what it came from, and say whether the answer is the same; exit code 1 if not.",
)
@console.output_option
@click.pass_context
def why(
    ctx: click.Context,
    pod: str,
    url: str | None,
    live: cluster_access.ClusterChoice,
    autoscaler_namespace: str | None,
    files: tuple[str, ...],
    namespace: str,
    replay: bool,
    form: console.Format,
) -> None:
    """Say what the autoscaler decided about a pod, a node or room, and what came of it.

    Reads the last decisions of the running autoscaler, or those in a file that it writes
    (decisionFile of its configuration). The newest decision comes last, and what every node
    group said of the pod in it. Of node/NAME it says whether it is given back, and what keeps it;
    of capacitybuffer/NAME, headroom/DRIVER, provisioningrequest/NAME and podgroup/NAME what room
    there is, on which nodes, and what it waits for.

    Without --url and -f, the replica that leads is found by its Lease, and a port is forwarded to
    it by way of the API server; that takes the right to create pods/portforward.

    \b
    Examples:
      tonnage why shop/orders-3
      tonnage why shop/orders-3 --context production
      tonnage why orders-3 -n shop --url http://127.0.0.1:9000
      tonnage why shop/orders-3 -f decisions.jsonl.1 -f decisions.jsonl -o json
      tonnage why shop/orders-3 --replay
      tonnage why node/worker-7
      tonnage why node/worker-7 --replay
      tonnage why capacitybuffer/shop/db
      tonnage why provisioningrequest/train -n research
    """
    asked = RunningAutoscaler(url, live, autoscaler_namespace)
    if why_room.is_room(pod):
        if files or replay:
            raise InputError(
                "KIND/NAME: only the running autoscaler knows: expected no -f, no --replay"
            )
        why_room.why(pod, asked, space=namespace, form=form)
        return
    if why_node.is_node(pod):
        node = pod.removeprefix(why_node.PREFIX)
        if replay:
            same = why_replay.replay_node(node, files, asked, form=form)
            ctx.exit(0 if same else 1)
        if files:
            raise InputError("node/NAME: only the running autoscaler knows: expected no -f")
        why_node.why(node, asked, form=form)
        return
    path = _RECORDED_PATH if replay else running_autoscaler.PATH
    if files:
        where = ", ".join(files)
        decisions = [one for file in files for one in running_autoscaler.read(file)]
    else:
        where, decisions = asked.decisions(path)
    key = _find(pod, decisions, namespace=namespace, where=where)
    found = [one for decision in decisions for one in _outcomes(key, decision)]
    again = None
    if replay:
        about = [one for one in decisions if key in _pods(one)]
        again = why_replay.replay(about, pod=key)
    if form in ("json", "yaml"):
        extra = {"replay": why_replay.document(again)} if again is not None else {}
        told = list(map(_document, found))
        console.print_document("Why", form=form, pod=key, decisions=told, **extra)
    else:
        _print(key, found, wide=form == "wide")
        if again is not None:
            why_replay.show(again)
    if again is not None and not again.is_same:
        ctx.exit(1)


class PodOutcome(NamedTuple):
    """What one decision meant for one pod; `result` says what became of it."""

    time: str
    outcome: str
    group: str
    node: str
    reason: str
    result: str
    groups: "tuple[GroupReason, ...]"


def _outcomes(pod: str, decision: "LoggedDecision") -> Iterator[PodOutcome]:
    from tonnage.cli import plan_table

    plan = decision.plan
    for one in plan.scale_ups:
        for node in one.nodes:
            if pod in node.pods:
                reason = _reason_for(pod, decision) or "best by the expander"
                yield PodOutcome(
                    decision.time, BOUGHT, one.group, node.name, reason,
                    _result(one.group, decision), (),
                )  # fmt: skip
    for placement in plan.all_on_existing:
        if placement.pod == pod:
            reason = "there is room on a node that is there or coming up"
            yield PodOutcome(decision.time, FITS, "", placement.node, reason, "", ())
    for wait in plan.waiting:
        if wait.pod == pod:
            yield PodOutcome(decision.time, WAITS, "", wait.node, wait.reason, "", ())
    left: NotHelped
    for left in plan.not_helped:
        if left.pod == pod:
            reason = plan_table.why_left_out(left)
            yield PodOutcome(decision.time, LEFT_OUT, "", "", reason, "", left.reasons)


def _reason_for(pod: str, decision: "LoggedDecision") -> str:
    return next((step.reason for step in decision.plan.steps if pod in step.pods), "")


def _result(group: str, decision: "LoggedDecision") -> str:
    """What the provider was asked for the group, and what it said."""
    asked = [one for one in decision.done if one.deed == "increase" and one.group == group]
    if not asked:
        return "not asked for: overtaken by events, or left for a later round"
    failed = next((one.error for one in asked if one.error), "")
    nodes = sum(one.nodes for one in asked if not one.error)
    said = f"{nodes} more nodes asked for" if nodes != 1 else "1 more node asked for"
    if any(one.dry_run for one in asked):
        return f"{said}, if this were no dry run"
    return f"failed: {failed}" if failed else said


def _document(one: PodOutcome) -> dict[str, object]:
    import msgspec

    return {
        "time": one.time,
        "outcome": one.outcome,
        "group": one.group or None,
        "node": one.node or None,
        "reason": one.reason,
        "result": one.result,
        "groups": msgspec.to_builtins(one.groups),
    }


def _to_the_second(time: str) -> str:
    """`2026-01-31T12:00:00Z`, as every other table has it, of the time upstream's way."""
    return f"{time[:10]}T{time[11:19]}Z" if time.endswith("+0000 UTC") else time


def _print(pod: str, found: list[PodOutcome], *, wide: bool) -> None:
    last = found[-1]
    console.echo(f"{pod}: {last.outcome}, {last.reason}")
    # One that is decided again in every round says nothing new.
    told = [
        one
        for one, before in zip(found, [None, *found], strict=False)
        if wide or before is None or one._replace(time=before.time) != before
    ]
    console.print_section(
        ["TIME", "OUTCOME", "GROUP", "NODE", "REASON", "RESULT"],
        [
            [
                _to_the_second(one.time),
                one.outcome,
                one.group or "-",
                one.node or "-",
                one.reason,
                one.result or "-",
            ]
            for one in told
        ],
        alarming=[number for number, one in enumerate(told) if one.result.startswith("failed")],
    )
    if len(told) < len(found):
        console.echo(f"… {len(found)} decisions in all; -o wide has those that repeat")
    console.print_section(
        ["GROUP", "PLUGIN", "CODE", "REASON"],
        [
            [one.group, one.plugin or "-", one.code or "-", ", ".join(one.reasons) or "-"]
            for one in last.groups
        ],
    )


def _find(pod: str, decisions: "Iterable[LoggedDecision]", *, namespace: str, where: str) -> str:
    """`namespace/name` of the pod that is meant."""
    known = {name: None for decision in decisions for name in _pods(decision)}
    if "/" in pod and namespace and not pod.startswith(f"{namespace}/"):
        raise InputError(f"pod {pod!r} is not in namespace {namespace!r}")
    key = f"{namespace}/{pod}" if namespace and "/" not in pod else pod
    found = [one for one in known if key in (one, one.partition("/")[2])]
    if len(found) == 1:
        return found[0]
    if found:
        raise InputError(f"pod {pod!r}: which of {', '.join(sorted(found))}?")
    if not known:
        raise InputError(f"{where}: no decision yet; only the replica that leads has some")
    hint = alternatives(key, known)
    raise InputError(f"{where}: nothing was decided about pod {key!r}; {hint}")


def _pods(decision: "LoggedDecision") -> Iterator[str]:
    plan = decision.plan
    yield from (pod for one in plan.scale_ups for node in one.nodes for pod in node.pods)
    yield from (one.pod for one in plan.all_on_existing)
    yield from (one.pod for one in plan.waiting)
    yield from (one.pod for one in plan.not_helped)
