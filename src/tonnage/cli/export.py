"""`tonnage export`: a cluster as one file, for bug reports and replay."""

import time
from typing import TYPE_CHECKING

import click

from tonnage.cli import cluster_access, cluster_source, console, progress_line
from tonnage.errors import system_errors
from tonnage.objects.timestamps import rfc3339

if TYPE_CHECKING:
    from tonnage.files import Loaded
    from tonnage.objects.kinds import KubeObject

UNNAMED = "cluster"
TELLING_OPTIONS = ("priorities", "grpcExpanderUrl", "grpcExpanderCert")


@click.command()
@click.argument("target", metavar="FILE")
@cluster_source.filename_option
@cluster_access.options
@cluster_source.node_groups_option("NodeGroups to write with it, so that plans can be replayed")
@click.option(
    "--anonymise",
    is_flag=True,
    help="Replace names, values of labels and handles of volumes by codes; verdicts and plans stay "
    "the same.",
)
@click.option(
    "--names",
    metavar="FILE",
    help="With --anonymise: write which name became which here, to keep for yourself.",
)
@click.option(
    "--name",
    metavar="NAME",
    help="Name of the Scenario.  [default: that of the input, or the context]",
)
@cluster_source.lenient_option
def export(
    target: str,
    filenames: tuple[str, ...],
    live: cluster_access.ClusterChoice,
    node_groups: tuple[str, ...],
    anonymise: bool,
    names: str | None,
    name: str | None,
    lenient: bool,
) -> None:
    """Write a cluster as one Scenario, for bug reports and replay.

    FILE gets one line of JSON, compressed if its name ends in .gz; - is standard output. Only what
    Tonnage reads is in it: no images, environments, commands or secrets.

    \b
    Examples:
      tonnage export cluster.json.gz --context production --node-groups groups.yaml
      tonnage export report.json.gz --anonymise --names names.json
      tonnage export report.json -f cluster.json --anonymise
      tonnage plan -f cluster.json.gz --now 2026-01-31T12:00:00Z
    """
    from tonnage.files import scenario_writer

    if names and not anonymise:
        raise click.UsageError("--names goes with --anonymise")
    # Before reading, which takes a while: what comes into being meanwhile is young, not unborn.
    now = rfc3339(time.time())
    taken_at = "" if filenames else now
    loaded = cluster_source.read(
        filenames, live, lenient=lenient, beside=node_groups, workloads=True
    )
    called = name or ("" if anonymise else loaded.name) or UNNAMED
    if anonymise:
        with progress_line.shown("renaming"):
            loaded = _anonymised(loaded, names)
    with progress_line.shown("writing"):
        scenario_writer.write(target, loaded, name=called, taken_at=taken_at)
    if target != scenario_writer.STANDARD_OUTPUT:
        when = f", taken at {taken_at}: plan it with --now {taken_at}" if taken_at else ""
        console.note(f"{target}: {len(loaded.objects):,} objects{when}")


def _anonymised(loaded: "Loaded", names: str | None) -> "Loaded":
    import msgspec

    from tonnage.files.anonymiser import Anonymiser

    renaming = Anonymiser(loaded.objects)
    renamed = [renaming.renamed(one) for one in loaded.objects]
    if names:
        _write_names(names, loaded.objects, renamed)
    scenario = loaded.scenario
    telling = [one for one in TELLING_OPTIONS if scenario is not None and one in scenario.options]
    if scenario is not None and telling:
        console.warn(f"left out, because they name things: options {', '.join(telling)}")
        options = {key: one for key, one in scenario.options.items() if key not in telling}
        scenario = msgspec.structs.replace(scenario, options=options)
    return msgspec.structs.replace(loaded, objects=renamed, scenario=scenario)


def _write_names(path: str, before: "list[KubeObject]", after: "list[KubeObject]") -> None:
    import msgspec

    from tonnage.objects import kinds

    table: dict[str, dict[str, str]] = {}
    for one, other in zip(before, after, strict=True):
        table.setdefault(kinds.of(one).kind, {})[one.metadata.key] = other.metadata.key
    with system_errors(f"{path}: cannot be written"), open(path, "wb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(table), indent=2) + b"\n")
