"""`tonnage why node/NAME`: whether a node goes, since when it could, and what keeps it."""

from typing import TYPE_CHECKING

from tonnage.cli import console
from tonnage.cli.running_autoscaler import RunningAutoscaler
from tonnage.errors import InputError
from tonnage.objects.phrases import alternatives

if TYPE_CHECKING:
    from tonnage.autoscaler.consolidation.report import ConsolidationDocument
    from tonnage.autoscaler.scaledown.report import NodeReport

PREFIX = "node/"
_PATH = "/debug/scale-down"


def why(name: str, asked: RunningAutoscaler, *, form: console.Format) -> None:
    """Ask the autoscaler that leads about a node, and print what it says."""
    import msgspec

    from tonnage.autoscaler.scaledown.report import ScaleDownDocument

    where, told = asked.told(_PATH, ScaleDownDocument, "nodes")
    found = next((one for one in told.nodes if one.decision.node == name), None)
    if found is None and not told.enabled:
        raise InputError(
            f"node {name}: nodes are not given back: scaleDownEnabled is false in the configuration"
        )
    if found is None:
        known = [one.decision.node for one in told.nodes]
        held = f"; nothing was decided: {told.held}" if told.held else ""
        raise InputError(f"{where}: no node {name!r}; {alternatives(name, known)}{held}")
    if form in ("json", "yaml"):
        console.print_document(
            "Why", form=form, node=name, time=told.time, held=told.held, coolDown=told.cool_down,
            decision=msgspec.to_builtins(found.decision),
            removal=msgspec.to_builtins(found.removal),
        )  # fmt: skip
        return
    console.echo(f"{name}: {_headline(found, told.outside_windows)}")
    console.echo()
    lines = [*_lines(found, told.held), *_consolidation(name, told.consolidation)]
    console.print_table(["", ""], [[key, value] for key, value in lines if value])


def _headline(found: "NodeReport", closed: tuple[str, ...]) -> str:
    one = found.decision
    if found.removal is not None:
        return f"is going ({found.removal.stage.value}), {found.removal.reason}"
    if one.goes:
        outside = f", once a window is open for {' or '.join(closed)}" if closed else ""
        return f"goes in wave {one.wave}{outside}"
    blamed = f", {one.pod}" if one.pod else ""
    because = f" ({one.pod_reason})" if one.pod_reason else ""
    return f"stays, {one.code}{blamed}{because}"


def _lines(found: "NodeReport", held: str) -> list[tuple[str, str]]:
    one, removal = found.decision, found.removal
    used = one.utilisation
    moves = ", ".join(f"{move.pod} to {move.to}" for move in one.moves)
    return [
        ("group", one.group or ""),
        ("upstream calls it", one.reason or ""),
        ("utilisation", f"{used.resource} {used.value:.0%}" if used is not None else ""),
        ("unneeded since", one.since or ""),
        ("not before", one.until or ""),
        ("says", one.message or ""),
        ("would free it", one.frees or ""),
        ("moves", moves),
        ("saves an hour", one.saves or ""),
        ("removal", f"{removal.stage.value}, {removal.reason}" if removal is not None else ""),
        ("nothing goes", held),
    ]


def _consolidation(name: str, told: "ConsolidationDocument | None") -> list[tuple[str, str]]:
    """What was last decided about replacing the node."""
    found = told.of_node(name) if told is not None else None
    if told is None or not told.enabled or found is None:
        return []
    if told.under_way is not None and name in told.under_way.nodes:
        return [("consolidation", "is being replaced")]
    if found.goes:
        why = f", not yet: {told.held}" if told.held else ""
        return [
            ("consolidation", f"goes in wave {found.wave}, saves {found.saves or '1 node'}{why}")
        ]
    blamed = f", {found.pod}" if found.pod else ""
    until = f", until {found.until}" if found.until else ""
    return [("consolidation", f"stays, {found.code}{blamed}{until}")]


def is_node(text: str) -> bool:
    return text.startswith(PREFIX)
