"""`tonnage replay`: a trace played with other settings, beside what happened."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tonnage.cli import cluster_source, console, durations, simulate
from tonnage.cli.report_files import ReportAdvice
from tonnage.errors import InputError, system_errors

if TYPE_CHECKING:
    from tonnage.report.timeline import Sample, Timeline
    from tonnage.simulation.replay.scenario import ReplaySettings


@click.command()
@click.argument(
    "traces",
    metavar="TRACE...",
    nargs=-1,
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
)
@console.pairs_option(
    "--set",
    "given",
    metavar="NAME=VALUE",
    help="An option of the autoscaler, as expander=price; repeatable.",
)
@console.file_option("--config", help="The autoscaler's configuration, as tonnage run takes it.")
@cluster_source.node_groups_option(
    "NodeGroups instead of the recorded ones: sizes, prices, limits, templates"
)
@console.file_option(
    "--world",
    help="YAML with world, cloud or scheduler as Simulations have them, instead of what was "
    "measured.",
)
@click.option(
    "--kubernetes-version",
    metavar="VERSION",
    default="",
    help="Version of kube-scheduler to play.  [default: the recorded one]",
)
@cluster_source.gates_option
@click.option("--seed", type=int, help="Other chances than the trace's.")
@click.option("--until", type=durations.Duration(least=1.0), help="Play no longer than this.")
@click.option(
    "--alone", is_flag=True, help="Show only the replay, as simulate does, not what happened."
)
@simulate.report_options
def replay(
    traces: tuple[Path, ...],
    given: dict[str, str],
    config: Path | None,
    node_groups: tuple[str, ...],
    world: Path | None,
    kubernetes_version: str,
    feature_gates: dict[str, bool],
    seed: int | None,
    until: float | None,
    alone: bool,
    form: str,
    html_file: Path | None,
) -> None:
    """Play a trace in virtual time with other settings, and compare with what happened.

    What people and their controllers asked for, and what befell machines, is taken from the trace;
    where pods go, which nodes are bought and given back, and where volumes are made is decided
    anew. The trace of a simulation, played with the same settings, gives the same bytes.
    docs/record-replay.md says exactly what is given.

    \b
    Examples:
      tonnage replay day.jsonl.gz
      tonnage replay day.jsonl.gz --set expander=price --node-groups cheaper.yaml --html day.html
      tonnage replay day.jsonl.gz day.2.jsonl.gz --until 6h -o json
      tonnage replay run.jsonl.gz --alone
    """
    simulate.prepare(html_file)
    settings = _settings(given, config, node_groups, world)
    import msgspec

    settings = msgspec.structs.replace(
        settings,
        kubernetes_version=kubernetes_version,
        feature_gates=feature_gates,
        seed=seed,
        until=until,
    )
    advice = ReportAdvice(wanted=html_file is not None)
    simulate.report(_runs(traces, settings, advice, alone=alone), form, html_file, advice)


def _settings(
    given: dict[str, str], config: Path | None, node_groups: tuple[str, ...], world: Path | None
) -> "ReplaySettings":
    from tonnage.cli import record
    from tonnage.simulation import comparison
    from tonnage.simulation.replay.scenario import ReplaySettings

    options: dict[str, Any] = _mapping(config, "--config") if config is not None else {}
    behaviours = _mapping(world, "--world") if world is not None else {}
    unknown = sorted(behaviours.keys() - {"world", "cloud", "scheduler"})
    if unknown:
        raise InputError(f"--world {world}: {unknown[0]}: expected world, cloud or scheduler")
    parts = {name: _prepared(world, name, behaviours.get(name)) for name in ("world", "cloud")}
    scheduler = behaviours.get("scheduler") or {}
    return ReplaySettings(
        options={**options, **comparison.options(given)},
        node_groups=record.read_groups(node_groups),
        world=parts["world"],
        cloud=parts["cloud"],
        scheduler=scheduler,
    )


def _prepared(path: Path | None, name: str, value: Any) -> dict[str, Any]:
    """Fields of a behaviour with their times in seconds, checked as Simulation files are."""
    import msgspec

    from tonnage.embedded.cloud import CloudBehaviour
    from tonnage.embedded.world import WorldBehaviour
    from tonnage.files.yamltext import YamlDocument
    from tonnage.simulation.settings import Where, converted

    if value is None:
        return {}
    document = YamlDocument(value, line=1, lines={}, repeated=None)
    type_: type[msgspec.Struct] = WorldBehaviour if name == "world" else CloudBehaviour
    checked = converted(value, type_, where=Where(str(path), document, (name,)))
    whole: dict[str, Any] = msgspec.to_builtins(checked)
    return {field: whole[field] for field in value}


def _mapping(path: Path, option: str) -> dict[str, Any]:
    from tonnage.files import yamltext

    try:
        with system_errors(f"{option} {path}"):
            documents = list(yamltext.read(path.read_bytes(), first_line=1))
    except yamltext.YamlError as error:
        raise InputError(f"{option} {path}:{error.line}: {error.message}") from None
    value = documents[0].value if len(documents) == 1 else None
    if not isinstance(value, dict):
        raise InputError(f"{option} {path}: expected one document with fields")
    return value


def _runs(
    traces: tuple[Path, ...], settings: "ReplaySettings", advice: ReportAdvice, *, alone: bool
) -> "tuple[Timeline, ...]":
    from tonnage.cli import progress_line
    from tonnage.report import figures
    from tonnage.simulation.replay import scenario
    from tonnage.traces.reader import TraceFiles

    trace = TraceFiles(traces)
    at = -1.0

    def watch(sample: "Sample") -> None:
        nonlocal at
        at = sample.at

    def played() -> str:
        if at < 0:
            return "reading the trace"
        return f"{figures.duration(at)} of {figures.duration(trace.duration)} played"

    with progress_line.shown(played):
        if alone:
            replay = scenario.replayed(trace, settings)
            return (scenario.play(replay, watch=watch, ended=advice.take),)
        return scenario.compared(trace, settings, watch=watch, ended=advice.take)
