"""`tonnage simulate`: a whole cluster in virtual time."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tonnage.cli import cluster_source, console, engines, report_files
from tonnage.cli.console import Command
from tonnage.cli.report_files import ReportAdvice
from tonnage.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tonnage.report.timeline import Sample, Timeline
    from tonnage.simulation.explorer import SeedOutcome
    from tonnage.simulation.scenario import Simulation

EXIT_VIOLATED = 1


def report_options(command: Command) -> Command:
    """`--output` and `--html`: what becomes of runs that were played."""
    shown = console.output_as(
        "table", "json", "csv", help="How to print; csv has a row for each sample."
    )
    written = console.file_option(
        "--html",
        "html_file",
        help="Also write a report with charts; it needs no network to be read.",
    )
    return shown(written(command))


def prepare(html_file: Path | None) -> None:
    """What comes before a play, which may take minutes."""
    import logging

    # What the components log is of no use here: their times are not the reader's.
    logging.getLogger("tonnage").addHandler(logging.NullHandler())
    logging.getLogger("tonnage").propagate = False
    report_files.check_folder(html_file)


@click.command()
@click.argument("scenario", required=False, type=click.Path(dir_okay=False), metavar="[SCENARIO]")
@report_options
@console.pairs_option(
    "--compare",
    metavar="NAME=VALUE",
    help="Run a second time with this option of the autoscaler, and show both; repeatable.",
)
@console.pairs_option(
    "--set",
    "given",
    metavar="NAME=VALUE",
    help="An option of the autoscaler, before those of the file; repeatable.",
)
@cluster_source.enforcement_option
@click.option("--seed", type=int, help="Other chances than the file's.")
@click.option("--duration", metavar="TIME", help="Shorter or longer than the file says, as 90m.")
@console.file_option("--record", "trace", help="Also write a trace of the run, for tonnage replay.")
@click.option(
    "--explore",
    metavar="N",
    type=click.IntRange(min=1),
    help="Instead of a scenario: so many random ones, each checked after every change.",
)
@click.option(
    "--explore-seed",
    "first_seed",
    metavar="SEED",
    type=click.IntRange(min=0),
    help="The seed to begin exploring with; alone, only this one is played.",
)
@engines.options
def simulate(
    scenario: str | None,
    form: str,
    html_file: Path | None,
    compare: dict[str, str],
    given: dict[str, str],
    enforce_opt_in: str | None,
    seed: int | None,
    duration: str | None,
    trace: Path | None,
    explore: int | None,
    first_seed: int | None,
    chosen: engines.EngineChoice,
) -> None:
    """Play a scenario in virtual time, and tell what came of it.

    The API server, kubelets, drivers, cloud, scheduler and autoscaler all run in this process, on
    a clock that jumps; a day takes seconds to minutes. The same file and seed give the same
    output. docs/simulation.md has the format of scenarios.

    \b
    Examples:
      tonnage simulate examples/simulations/scale-from-zero.yaml
      tonnage simulate scenario.yaml --compare csiAware=false --html report.html
      tonnage simulate scenario.yaml --record run.jsonl.gz
      tonnage simulate --explore 200
      tonnage simulate --explore 500 --engine dask://scheduler:8786
    """
    if explore is not None or first_seed is not None:
        prepare(None)
        if scenario is not None:
            raise InputError("--explore makes its own scenarios: expected no file beside it")
        _explore(range(first_seed or 0, (first_seed or 0) + (explore or 1)), chosen)
        return
    if scenario is None:
        raise InputError("expected a file with a Simulation, or --explore")
    prepare(html_file)
    if trace is not None and compare:
        raise InputError("--record writes one run: expected no --compare beside it")
    if enforce_opt_in is not None:
        given = {**given, "enforceOptIn": enforce_opt_in}
    simulation = _read(scenario, given, seed, duration)
    advice = ReportAdvice(wanted=html_file is not None)
    report(_runs(simulation, compare, trace, advice), form, html_file, advice)


def _read(
    scenario: str, given: dict[str, str], seed: int | None, duration: str | None
) -> "Simulation":
    from tonnage.simulation import comparison, scenario_files, settings

    simulation = scenario_files.read(scenario)
    if seed is not None:
        simulation = simulation.with_seed(seed)
    if duration is not None:
        seconds = settings.seconds(duration)
        if not seconds:
            raise InputError(f"--duration {duration!r}: expected a duration such as 90m")
        simulation = simulation.with_duration(seconds)
    _refuse_empty(simulation, scenario)
    return comparison.with_options(simulation, comparison.options(given))


def _refuse_empty(simulation: "Simulation", file: str) -> None:
    applied = any(action.apply for action in simulation.spec.script)
    machines = any(group.spec.target_size or group.spec.nodes for group in simulation.groups)
    if not simulation.objects and not applied and not machines:
        raise InputError(
            f"{file}: nothing to play: there is no pod, no node and no workload in its objects, its"
            " files or its script"
        )


def _runs(
    simulation: "Simulation", compare: dict[str, str], trace: Path | None, advice: ReportAdvice
) -> "tuple[Timeline, ...]":
    from tonnage.cli import progress_line
    from tonnage.report import figures
    from tonnage.simulation import comparison, recording, runner

    at = 0.0

    def watch(sample: "Sample") -> None:
        nonlocal at
        at = sample.at

    def played() -> str:
        return f"{figures.duration(at)} of {figures.duration(simulation.spec.duration)} played"

    with progress_line.shown(played):
        if compare:
            return comparison.compare(simulation, compare, watch=watch, ended=advice.take)
        if trace is not None:
            return (recording.recorded(simulation, trace, watch=watch, ended=advice.take),)
        return (runner.simulate(simulation, watch=watch, ended=advice.take),)


def report(
    runs: "tuple[Timeline, ...]", form: str, html_file: Path | None, advice: ReportAdvice
) -> None:
    from tonnage.report import csvtext, figures, page, timeline
    from tonnage.report import text as tables

    if html_file is not None:
        text = page.page(runs, origin=report_files.origin(), advice=advice.found)
        report_files.write(html_file, text, what="The report")
    if form == "json":
        document: Any = runs[0] if len(runs) == 1 else figures.compared(runs)
        console.print_json(timeline.encoded(document))
    elif form == "csv":
        console.print_lines(csvtext.text(runs))
    else:
        console.print_lines(tables.text(runs))


def _explore(seeds: range, chosen: engines.EngineChoice) -> None:
    from tonnage.cli.progress_bar import Progress

    broken = 0
    excused: Counter[str] = Counter()
    progress = Progress(len(seeds), "seeds")
    for outcome in _explored(seeds, chosen):
        progress.advance(1, failed=bool(outcome.violations))
        excused += outcome.excused
        for violation in outcome.violations:
            console.echo(f"seed {outcome.seed}: {violation}")
        if outcome.violations:
            broken += 1
            console.echo(f"again: tonnage simulate --explore-seed {outcome.seed}")
    progress.finish()
    console.echo(f"seeds played: {len(seeds)}; with violations: {broken}")
    for reason, times in excused.most_common():
        console.echo(f"excused: {times:6} {reason}")
    if broken:
        raise click.exceptions.Exit(EXIT_VIOLATED)


def _explored(seeds: range, chosen: engines.EngineChoice) -> "Iterator[SeedOutcome]":
    from tonnage import engine
    from tonnage.simulation import explorer

    if chosen.is_here or (chosen.is_local and len(seeds) == 1):
        yield from explorer.explore(seeds)
        return
    task = engine.FunctionTask(explorer.explored)
    with chosen.opened() as workers:
        yield from engine.ordered(workers, task, iter(seeds))
