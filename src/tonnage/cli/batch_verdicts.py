"""`tonnage batch verdicts`: what kube-scheduler would say, for many scenarios."""

from typing import Any

import click

from tonnage.cli import batches, documents, engines
from tonnage.files import Loaded, ScenarioOptions
from tonnage.rules import features, pipeline
from tonnage.snapshot.snapshot import Snapshot


@click.command()
@click.argument("path", metavar="FILE")
@batches.lenient_option
@engines.options
def verdicts(path: str, lenient: bool, chosen: engines.EngineChoice) -> None:
    """Say what becomes of every pending pod on every node, for each scenario.

    FILE has one Scenario per line, plain or gzip; - is standard input. One line is printed for
    each, in order: {"scenario": NAME, "verdicts": [{"pod", "node", "phase", "plugin", "code",
    "reasons"}]}. A node that fits has the code Success, no phase and no plugin. Answers are
    about the given objects alone: nothing is assumed beside them.

    \b
    Examples:
      tonnage batch verdicts scenarios.jsonl.gz > verdicts.jsonl
      zcat scenarios.jsonl.gz | head -20 | tonnage batch verdicts -
      tonnage batch verdicts scenarios.jsonl --lenient --jobs 1
    """
    batches.run(path, verdicts_of, chosen=chosen, lenient=lenient)


def verdicts_of(loaded: Loaded) -> dict[str, Any]:
    """The verdicts of one scenario, each pending pod alone against the cluster as it is."""
    settings = loaded.scenario or ScenarioOptions()
    asked = features.of_version(settings.kubernetes_version, settings.feature_gates)
    snapshot = Snapshot.of(loaded.objects, version=asked.version)
    pending = sorted(snapshot.pending_pods(), key=lambda record: record.order)
    return {
        "verdicts": [
            documents.verdict(one)
            for record in pending
            for one in pipeline.evaluate(snapshot, record, asked)
        ]
    }
