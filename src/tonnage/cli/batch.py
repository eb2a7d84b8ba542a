"""`tonnage batch`: the same questions asked of many scenarios."""

import click

from tonnage.cli.lazy import LazyCommand, LazyGroup

COMMANDS = {
    "verdicts": LazyCommand(
        "tonnage.cli.batches:verdicts",
        "Say what becomes of every pending pod on every node.",
    ),
    "plan": LazyCommand(
        "tonnage.cli.batches:plan",
        "Say which node groups to grow for the pending pods.",
    ),
    "scale-down": LazyCommand(
        "tonnage.cli.batches:scale_down",
        "Say which nodes can go, and why the others stay.",
    ),
}


@click.group(cls=LazyGroup, lazy=COMMANDS)
def batch() -> None:
    """Answer many scenarios, one line of JSON each.

    A batch is a file of JSON lines, plain or gzip, with one Scenario on each. Answers come in
    the order of the scenarios, as soon as they are there.

    \b
    Examples:
      tonnage batch verdicts scenarios.jsonl.gz > verdicts.jsonl
      tonnage batch plan scenarios.jsonl.gz > plans.jsonl
      tonnage batch scale-down scenarios.jsonl.gz > scaledown.jsonl
    """
