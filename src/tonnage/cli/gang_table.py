"""Gangs of a plan for people: which are helped whole, and why others are not."""

import msgspec

from tonnage.cli import console
from tonnage.objects.phrases import counted, listed
from tonnage.scaleup.plan import GangOutcome, Plan

_NODES = 3


def print_gangs(plan: Plan, *, most: int | None) -> None:
    """A line for each gang, those that are not helped first; no more than `most`."""
    if isinstance(plan.gangs, msgspec.UnsetType):
        return
    found = sorted(plan.gangs, key=lambda gang: gang.helped)
    console.echo()
    console.print_table(
        ["GANG", "MINIMUM", "RUNNING", "PENDING", "OUTCOME"],
        [
            [
                gang.gang,
                str(gang.minimum or "-"),
                str(gang.running),
                str(len(gang.pods)) if gang.nodes is msgspec.UNSET else "-",
                _outcome(gang),
            ]
            for gang in found[:most]
        ],
    )
    if most is not None and len(found) > most:
        console.echo(f"and {counted(len(found) - most, 'more gang')}; -o wide has them all")


def _outcome(gang: GangOutcome) -> str:
    if not gang.helped:
        return gang.reason
    if isinstance(gang.nodes, msgspec.UnsetType):
        return "helped whole"
    return f"room on {listed([one.node for one in gang.nodes], most=_NODES)}"
