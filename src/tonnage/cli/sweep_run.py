"""What `tonnage sweep` does: run, render a Job, gather its results, and tell what came of it."""

import importlib.metadata
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import msgspec
import yaml

from tonnage.cli import console, progress_line, report_files, sweep_input
from tonnage.cli.progress_bar import Progress
from tonnage.cli.sweep_input import SweepOptions
from tonnage.engine import tasks
from tonnage.errors import InputError, system_errors
from tonnage.files import sources
from tonnage.objects.phrases import counted
from tonnage.sweep import bundle as bundles
from tonnage.sweep import job, page, results, summary, work
from tonnage.sweep.answers import PreparedSweep
from tonnage.sweep.bundle import SweepBundle
from tonnage.sweep.page import number, shown
from tonnage.sweep.results import KnownResults, Result, ResultFile, ResultHead
from tonnage.sweep.summary import SHOWN, SweepSummary

EXIT_MISSING = 1
EXIT_VIOLATED = 1
EXIT_FAILED_VARIANTS = 3
_PARTS = 8


def run(given: SweepOptions) -> int:
    """Do what was asked for; the exit code."""
    if given.parquet_file is not None:
        results.available()
    report_files.check_folder(given.html_file)
    report_files.check_folder(given.results_file, "--results")
    if given.gathered:
        return _gather(given)
    if given.resume and given.results_file is None:
        raise InputError("--resume goes with --results FILE, which has what was done before")
    bundle = _bundle(given)
    if given.write_bundle is not None:
        return _write_bundle(given.write_bundle, bundle)
    if given.render_job:
        return _render_job(given, bundle)
    version = importlib.metadata.version("tonnage")
    digest = bundles.digest([version.encode(), *bundle.lines()])
    try:
        return _run(given, bundle, digest=digest, version=version)
    finally:
        tasks.forget(digest)


def _bundle(given: SweepOptions) -> SweepBundle:
    if given.bundle is not None:
        if given.sweep_file or given.filenames or given.vary or given.batch:
            raise InputError("--bundle has everything: expected no file and no --vary beside it")
        name = "standard input" if given.bundle == sources.STDIN else given.bundle
        path = None if given.bundle == sources.STDIN else Path(given.bundle)
        return bundles.unpacked(_read(name, path), name=name)
    with progress_line.shown("reading"):
        return sweep_input.bundle_of(given)


def _run(given: SweepOptions, bundle: SweepBundle, *, digest: str, version: str) -> int:
    task = work.SweepTask(bundle, digest=digest)
    prepared = tasks.prepared(task)
    everything = range(len(prepared.space))
    part = _part(given)
    positions: Sequence[int] = everything
    if part is not None:
        positions = job.part_of(len(everything), *part)
    head = ResultHead(
        sweep=bundle.definition.name,
        ask=bundle.definition.ask,
        digest=digest,
        variants=len(everything),
        version=version,
        now=bundle.definition.now,
        part=part,
    )
    found: dict[int, Result] = {}
    with ExitStack() as stack:
        file = None
        if given.results_file is not None:
            file = stack.enter_context(ResultFile(given.results_file, head, resume=given.resume))
            found.update(file.known)
        if given.form == "jsonl":
            _print_lines([head.line()])
            _print_lines(one.line() for one in found.values())
        left = [one for one in positions if one not in found]
        if found:
            console.note(f"{len(found):,} of {len(positions):,} variants are done already")
        progress = Progress(len(positions), "variants", done=len(found))
        for piece in _answers(given, task, prepared, left):
            if file is not None:
                file.add(piece)
            if given.form == "jsonl":
                _print_lines(one.line() for one in piece)
            found.update((one.position, one) for one in piece)
            progress.advance(len(piece), failed=sum(bool(one.error) for one in piece))
        progress.finish()
        if file is not None:
            file.in_order(results.in_order(found))
    known = KnownResults(head, found, 0)
    if part is not None:
        # A part of a Job is done when all its variants have a line, be it an error.
        return 0
    return _told(given, known)


def _answers(
    given: SweepOptions, task: work.SweepTask, prepared: PreparedSweep, left: Sequence[int]
) -> Iterator[list[Result]]:
    if not left:
        return
    if given.chosen.is_here:
        yield from work.run_here(prepared, left)
        return
    with given.chosen.opened() as workers:
        yield from work.run(workers, task, prepared, left)


def _part(given: SweepOptions) -> tuple[int, int] | None:
    if given.bundle is None or given.parts is None:
        return None
    if given.part is None:
        raise InputError("--parts with --bundle: expected --part K, or JOB_COMPLETION_INDEX set")
    if given.part >= given.parts:
        raise InputError(f"--part {given.part}: expected less than --parts {given.parts}")
    return given.part, given.parts


def _told(given: SweepOptions, known: KnownResults) -> int:
    """Write and print what is to be told of results, and say how it ended."""
    ordered = list(results.in_order(known.results))
    made = summary.of(known.head, ordered)
    if given.parquet_file is not None:
        results.write(given.parquet_file, known.head, ordered)
    if given.html_file is not None:
        text = page.page(made, origin=report_files.origin())
        report_files.write(given.html_file, text, what="The summary")
    if given.form == "json":
        console.print_record(msgspec.to_builtins(made), form="json")
    elif given.form == "table":
        print_summary(made)
    sys.stdout.flush()
    if made.missing:
        console.note(f"ends with code {EXIT_MISSING}: {_missing(known)}")
        return EXIT_MISSING
    if any(one.violations for one in ordered):
        return EXIT_VIOLATED
    if made.failed:
        failed = counted(made.failed, "variant")
        console.note(f"ends with code {EXIT_FAILED_VARIANTS}: {failed} failed")
        return EXIT_FAILED_VARIANTS
    return 0


def _missing(known: KnownResults) -> str:
    absent = results.missing(known)
    shown = ", ".join(map(str, absent[:5]))
    return (
        f"{counted(len(absent), 'variant')} without a result, by number {shown}"
        f"{' ...' if len(absent) > 5 else ''}; --results FILE of what was gathered, and the sweep"
        " again with --resume, does the rest"
    )


def _gather(given: SweepOptions) -> int:
    known = results.gathered(_sources(given.gathered))
    if given.results_file is not None:
        with ResultFile(given.results_file, known.head, resume=False) as file:
            file.in_order(results.in_order(known.results))
    if given.form == "jsonl":
        _print_lines([known.head.line()])
        _print_lines(one.line() for one in results.in_order(known.results))
    return _told(given, known)


def _sources(given: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    for one in given:
        if one == sources.STDIN:
            yield "standard input", _read("standard input", None)
            continue
        path = Path(one)
        paths = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
        if not paths:
            raise InputError(f"{one}: no file *.jsonl in it")
        for file in paths:
            yield str(file), _read(str(file), file)


def _read(name: str, path: Path | None) -> bytes:
    try:
        return sys.stdin.buffer.read() if path is None else path.read_bytes()
    except OSError as error:
        raise InputError(f"{name}: {(error.strerror or str(error)).lower()}") from error


def _write_bundle(path: Path, bundle: SweepBundle) -> int:
    packed = bundles.packed(bundle)
    with system_errors(f"--write-bundle {path}"):
        path.write_bytes(packed)
    console.note(f"{len(bundle.definition.space()):,} variants, {len(packed):,} bytes in {path}")
    return 0


def _render_job(given: SweepOptions, bundle: SweepBundle) -> int:
    parts = min(given.parts or _PARTS, max(len(bundle.definition.space()), 1))
    settings = job.JobSettings(
        name=given.job_name,
        namespace=given.namespace,
        image=given.image or f"tonnage:{importlib.metadata.version('tonnage')}",
        parts=parts,
        parallelism=given.parallelism or parts,
        claim=given.claim,
    )
    made = job.manifests(settings, bundles.packed(bundle))
    console.print_lines(yaml.safe_dump_all(made, sort_keys=False))
    return 0


def _print_lines(lines: Iterable[bytes]) -> None:
    """Lines that are escaped already, each of them at once: a reader may be waiting."""
    sys.stdout.buffer.writelines(lines)
    sys.stdout.buffer.flush()


_MOST_ROWS = 20
_MOST_FAILED = 5


def print_summary(summary: SweepSummary) -> None:
    """What was asked and answered, figures, each axis, the best, and what failed."""
    told = (
        f"{counted(summary.variants, 'variant')} of {summary.sweep}: {summary.answered:,} answered"
    )
    if summary.failed:
        told += f", {summary.failed:,} failed"
    if summary.missing:
        told += f", {summary.missing:,} missing"
    console.echo(f"{told}.")
    rows = [
        (name, number(one.least), number(one.median), number(one.most))
        for name, one in summary.figures.items()
    ]
    console.print_section(("FIGURE", "LEAST", "MEDIAN", "MOST"), rows)
    names = [name for name in SHOWN.get(summary.ask, ()) if name in summary.figures]
    for axis in summary.axes:
        console.echo()
        of_axis = [
            (
                shown(one.value),
                f"{one.variants:,}",
                *(
                    number(one.figures[name].median) if name in one.figures else "-"
                    for name in names
                ),
            )
            for one in axis.values[:_MOST_ROWS]
        ]
        heads = (axis.axis, "VARIANTS", *(f"{name} (median)" for name in names))
        console.print_table(heads, of_axis)
        if len(axis.values) > _MOST_ROWS:
            console.echo(f"and {len(axis.values) - _MOST_ROWS:,} more values")
    title = "WORTH A LOOK" if summary.ask == "explore" else "BEST"
    best = [
        (one.variant, one.cluster, *(number(one.figures.get(name)) for name in names))
        for one in summary.best
    ]
    console.print_section((title, "CLUSTER", *names), best)
    if summary.errors:
        failed = [(one.variant, one.cluster, one.error) for one in summary.errors[:_MOST_FAILED]]
        console.print_section(("FAILED", "CLUSTER", "WHY"), failed)
        if summary.failed > len(failed):
            console.echo(f"and {summary.failed - len(failed):,} more")
