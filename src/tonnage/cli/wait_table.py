"""Pods of a plan that wait for room which is being freed, for people."""

from tonnage.cli import console
from tonnage.objects.phrases import counted, listed
from tonnage.scaleup.plan import Plan


def print_waits(plan: Plan, *, most: int | None) -> None:
    """A line for each pod, the longest wait first; no more than `most`."""
    found = sorted(plan.waiting, key=lambda wait: -wait.seconds)
    if not found:
        return
    console.echo()
    console.print_table(
        ["WAITS", "NODE", "FREE IN", "NEW NODE", "FREED BY"],
        [
            [
                wait.pod,
                wait.node,
                f"{wait.seconds:.0f} s",
                f"{wait.new_node:.0f} s",
                listed(wait.freed_by),
            ]
            for wait in found[:most]
        ],
    )
    if most is not None and len(found) > most:
        console.echo(f"and {counted(len(found) - most)} more; -o wide has them all")
