"""`tonnage diff`: what one plan does otherwise than another."""

import sys
from typing import TYPE_CHECKING

import click

from tonnage.cli import console
from tonnage.errors import InputError

if TYPE_CHECKING:
    from tonnage.scaleup.plan_diff import PlanDiff


@click.command()
@click.argument("before", metavar="A")
@click.argument("after", metavar="B")
@console.plain_output_option
@click.option(
    "--fail-on",
    "fail_on",
    type=click.Choice(["difference", "purchase", "unhelped", "never"]),
    default="difference",
    show_default=True,
    help="For what the exit code is 1: any difference; more nodes bought, or pods left out; pods "
    "left out that were not; or nothing.",
)
@click.pass_context
def diff(
    ctx: click.Context, before: str, after: str, form: console.PlainFormat, fail_on: str
) -> None:
    """Compare two plans.

    A and B are plans as `tonnage plan -o json` or `-o yaml` prints them; one of them may be -,
    standard input. Says what B buys more or less, which pods it newly helps, no longer helps or
    puts elsewhere, and which limits and warnings changed. Names of new nodes, the order of steps
    and the words of reasons are not compared. The exit code is 0 if the plans are the same, 1 if
    they differ in what --fail-on names, 2 if one cannot be read.

    \b
    Examples:
      tonnage diff yesterday.json today.json
      tonnage plan -f cluster/ -o json | tonnage diff plan.json -
      tonnage diff plan.json with-larger-nodes.json -o json
      tonnage diff main.json branch.json --fail-on unhelped
    """
    from tonnage.cli import diff_table, plan_files
    from tonnage.scaleup import plan_diff

    if before == after == "-":
        raise InputError("A and B are both standard input (-): only one of them can be")
    found = plan_diff.compare(plan_files.read_plan(before), plan_files.read_plan(after))
    if form == "table":
        diff_table.print_diff(found)
    else:
        console.print_record(found, form=form)
    sys.stdout.flush()
    ctx.exit(1 if _fails(found, fail_on) else 0)


def _fails(found: "PlanDiff", fail_on: str) -> bool:
    unhelped = bool(found.no_longer_helped or found.added_not_helped)
    match fail_on:
        case "difference":
            return not found.equal
        case "purchase":
            return unhelped or any(one.after > one.before for one in found.groups)
        case "unhelped":
            return unhelped
    return False
