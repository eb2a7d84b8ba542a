"""`tonnage batch plan` and `scale-down`: what to buy and what can go, for many scenarios."""

import functools
from collections.abc import Mapping
from typing import Any

import click

from tonnage.api import plan_documents
from tonnage.cli import batches, engines, plan_settings
from tonnage.files import Loaded


@click.command()
@click.argument("path", metavar="FILE")
@plan_settings.takes_settings
@batches.lenient_option
@engines.options
def plan(
    path: str, settings: dict[str, object], lenient: bool, chosen: engines.EngineChoice
) -> None:
    """Say which node groups to grow for the pending pods, for each scenario.

    FILE has one Scenario per line, plain or gzip; - is standard input. One line is printed for
    each, in order: {"scenario": NAME, "plan": {...}}. Options of a Scenario are the base; flags
    go before them, for all scenarios alike. Answers are about the given objects alone: nothing is
    assumed beside them.

    \b
    Examples:
      tonnage batch plan scenarios.jsonl.gz > plans.jsonl
      tonnage batch plan scenarios.jsonl --expander least-nodes --time-budget 5
      zcat scenarios.jsonl.gz | head -20 | tonnage batch plan - --lenient
    """
    batches.run(path, functools.partial(plan_of, settings=settings), chosen=chosen, lenient=lenient)


@click.command("scale-down")
@click.argument("path", metavar="FILE")
@plan_settings.takes_settings
@batches.lenient_option
@engines.options
def scale_down(
    path: str, settings: dict[str, object], lenient: bool, chosen: engines.EngineChoice
) -> None:
    """Say which nodes can go, where their pods land, and why the others stay.

    FILE has one Scenario per line, plain or gzip; - is standard input. One line is printed for
    each, in order: {"scenario": NAME, "plan": {...}}. Options of a Scenario are the base; flags
    go before them, for all scenarios alike. Times and delays that nobody gives are 0: a file has
    no past. The option now is the moment of the question.

    \b
    Examples:
      tonnage batch scale-down scenarios.jsonl.gz > scaledown.jsonl
      tonnage batch scale-down scenarios.jsonl --option scaleDownUtilizationThreshold=0.7
    """
    answer = functools.partial(scale_down_of, settings=settings)
    batches.run(path, answer, chosen=chosen, lenient=lenient)


def plan_of(loaded: Loaded, settings: Mapping[str, object]) -> dict[str, Any]:
    """The plan of one scenario."""
    return {"plan": plan_documents.plan(plan_settings.cluster_of(loaded, settings).decide())}


def scale_down_of(loaded: Loaded, settings: Mapping[str, object]) -> dict[str, Any]:
    """The scale-down plan of one scenario."""
    return {"plan": plan_settings.cluster_of(loaded, settings).scale_down()}
