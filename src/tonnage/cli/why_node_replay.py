"""`tonnage why node/NAME --replay`: a decision of consolidation made again here."""

from typing import TYPE_CHECKING

import click

from tonnage.cli import console, why_replay, why_source
from tonnage.cli.why_replay import DecisionReplay
from tonnage.errors import InputError

if TYPE_CHECKING:
    from tonnage.autoscaler.consolidation.recordings import RecordedConsolidation
    from tonnage.consolidation.plan import ConsolidatedNode

PATH = "/debug/recorded-consolidations"


def replay(
    name: str,
    files: tuple[str, ...],
    *,
    url: str | None,
    kubeconfig: str | None,
    context: str | None,
    namespace: str | None,
    form: console.Format,
) -> bool:
    """Make the newest decision that knows the node again; whether the answer is the same.

    `files` are what the autoscaler answered at its debug address.
    """
    import msgspec

    decisions: list[RecordedConsolidation] = []
    for file in files:
        decisions += _decoded(_read(file), file)
    if not files:
        where, data = why_source.document(
            url, PATH, kubeconfig=kubeconfig, context=context, namespace=namespace
        )
        decisions = _decoded(data, where)
        if not decisions and where.startswith("http"):
            why_source.refuse_follower(where.removesuffix(PATH))
    newest, node = _newest(name, decisions)
    found = _again(newest)
    if form in ("json", "yaml"):
        console.print_document(
            "Why",
            form=form,
            node=name,
            time=newest.time,
            decision=msgspec.to_builtins(node),
            replay=why_replay.document(found),
        )
        return found.is_same
    told = f"goes in wave {node.wave}" if node.goes else f"stays, {node.code}"
    console.echo(f"{name}: consolidation: {told}")
    why_replay.show(found)
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


def _read(file: str) -> bytes:
    try:
        with click.open_file(file, "rb") as stream:
            data: bytes = stream.read()
            return data
    except OSError as error:
        raise InputError(f"{file}: {error.strerror or error}") from None


def _decoded(data: bytes, where: str) -> "list[RecordedConsolidation]":
    import msgspec

    from tonnage.autoscaler.consolidation.recordings import RecordedConsolidation

    try:
        return msgspec.json.decode(data, type=list[RecordedConsolidation])
    except msgspec.DecodeError as error:
        raise InputError(f"{where}: not decisions of consolidation: {error}") from None
