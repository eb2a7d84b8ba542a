"""From the command line and a Sweep file to everything that a sweep needs."""

import time
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from tonnage import files
from tonnage.cli import cluster_source
from tonnage.cli.cluster_access import AS_KUBECTL, ClusterChoice
from tonnage.cli.engines import EngineChoice
from tonnage.errors import InputError
from tonnage.files import Loaded, ScenarioOptions
from tonnage.objects.kinds import KubeObject
from tonnage.objects.scenarios import NodeGroup
from tonnage.sweep import definition, results, variants
from tonnage.sweep.bundle import SweepBundle, SweptCluster
from tonnage.sweep.definition import Ask, Definition, ReadSweep, SweepSpec
from tonnage.sweep.variants import ListedVariant

_UNNAMED = "cluster"


class SweepOptions(NamedTuple):
    """The command line."""

    sweep_file: str | None
    filenames: tuple[str, ...]
    batch: str | None
    node_groups: tuple[str, ...]
    live: ClusterChoice
    lenient: bool
    ask: Ask | None
    vary: tuple[str, ...]
    settings: dict[str, object]
    now: float | None
    results_file: Path | None
    resume: bool
    html_file: Path | None
    parquet_file: str | None
    whole_answers: bool
    form: str
    chosen: EngineChoice
    render_job: bool
    gathered: tuple[str, ...]
    image: str | None
    parts: int | None
    parallelism: int | None
    job_name: str
    namespace: str
    claim: str
    write_bundle: Path | None
    bundle: str | None
    part: int | None


def bundle_of(given: SweepOptions) -> SweepBundle:
    """Read all that the sweep names; nothing is read after this."""
    read = definition.read(given.sweep_file) if given.sweep_file is not None else None
    spec = read.spec if read is not None else SweepSpec()
    ask: Ask = given.ask or spec.ask
    named = _clusters(given, read, ask)
    settings = {**spec.options, **given.settings}
    clusters = tuple(_with_settings(one, settings) for _, one in named)
    listed = tuple(ListedVariant(one.name, one.changes) for one in spec.variants)
    made = Definition(
        name=read.name if read is not None else _name(named),
        ask=ask,
        clusters=tuple(name for name, _ in named),
        grid=(*spec.grid, *given.vary),
        listed=listed,
        now=_now(given),
        whole_answers=given.whole_answers,
    )
    folder = read.folder if read is not None else Path()
    return SweepBundle(made, clusters, _added(made, folder, lenient=given.lenient))


def _now(given: SweepOptions) -> float:
    """Results that are taken up again are about the moment they began with."""
    resumed = given.results_file if given.resume else None
    before = results.now_of(resumed) if resumed is not None else None
    if given.now is not None:
        return given.now
    return time.time() if before is None else before


def _name(named: list[tuple[str, SweptCluster]]) -> str:
    return named[0][0] if len(named) == 1 else "sweep"


def _clusters(
    given: SweepOptions, read: ReadSweep | None, ask: Ask
) -> list[tuple[str, SweptCluster]]:
    if ask == "explore":
        return [("explorer", None)]
    listed = read.spec.clusters if read is not None else ()
    if ask == "simulate":
        from tonnage.simulation import scenario_files

        paths = [str(read.folder / path) for one in listed for path in one.files] if read else []
        found = [scenario_files.read(path) for path in (*paths, *given.filenames)]
        if not found:
            raise InputError("expected files with a Simulation: -f FILE")
        return _uniquely([(one.name, one) for one in found])
    named: list[tuple[str, SweptCluster]] = []
    if read is not None:
        for one in listed:
            paths = [str(read.folder / path) for path in one.files]
            loaded = _read(given, tuple(paths))
            named.append((one.name or loaded.name or Path(paths[0]).name, loaded))
    if given.batch is not None:
        for number, line in files.read_lines(given.batch):
            loaded = files.decode_scenario(line, where=f"{given.batch}: line {number}")
            named.append((loaded.name or f"line {number}", _checked(loaded)))
    if given.filenames or not named:
        loaded = _read(given, given.filenames)
        default = Path(given.filenames[0]).name if given.filenames else given.live.context
        named.append((loaded.name or default or _UNNAMED, loaded))
    return _uniquely(named)


def _read(given: SweepOptions, filenames: tuple[str, ...]) -> Loaded:
    loaded = cluster_source.read(
        filenames,
        given.live if not filenames else AS_KUBECTL,
        lenient=given.lenient,
        beside=given.node_groups,
        workloads=True,
    )
    return _checked(loaded)


def _checked(loaded: Loaded) -> Loaded:
    if not any(isinstance(one, NodeGroup) for one in loaded.objects):
        raise InputError(
            f"{loaded.name or 'the cluster'}: no NodeGroup in the input, so there is nothing to buy"
            " or to give back: give --node-groups FILE, which tonnage groups discover writes"
        )
    return loaded


def _uniquely(named: list[tuple[str, SweptCluster]]) -> list[tuple[str, SweptCluster]]:
    """Results name their cluster, so no two have the same name."""
    seen: dict[str, int] = {}
    found = []
    for name, cluster in named:
        seen[name] = seen.get(name, 0) + 1
        found.append((name if seen[name] == 1 else f"{name} ({seen[name]})", cluster))
    return found


def _with_settings(cluster: SweptCluster, settings: dict[str, Any]) -> SweptCluster:
    if not settings or cluster is None:
        return cluster
    if isinstance(cluster, Loaded):
        scenario = cluster.scenario or ScenarioOptions()
        changed = msgspec.structs.replace(scenario, options={**scenario.options, **settings})
        return msgspec.structs.replace(cluster, scenario=changed)
    from tonnage.simulation import comparison

    return comparison.with_options(cluster, settings)


def _added(made: Definition, folder: Path, *, lenient: bool) -> dict[str, tuple[KubeObject, ...]]:
    """The objects of every file that pods are added from, by the path that names it."""
    axes = variants.axes(made.grid)
    changes = [axis.change(value) for axis in axes for value in axis.values]
    changes += [change for one in made.listed for change in one.changes]
    found: dict[str, tuple[KubeObject, ...]] = {}
    for change in changes:
        name, _, path = change.partition("=")
        if name == "add-pods" and path not in found:
            loaded = files.load([folder / path], lenient=lenient, expand=False)
            cluster_source.tell(loaded)
            found[path] = tuple(loaded.objects)
    return found
