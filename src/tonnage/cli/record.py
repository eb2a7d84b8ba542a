"""`tonnage record`: what happens in a cluster, written down as a trace."""

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tonnage.cli import cluster_access, cluster_source, console, durations
from tonnage.errors import ClusterError, InputError

if TYPE_CHECKING:
    from tonnage.cluster.calls import CallPatience
    from tonnage.cluster.config import Access
    from tonnage.objects.scenarios import NodeGroup
    from tonnage.traces.recorder import ClusterRecorder

_SIZE = re.compile(r"([1-9][0-9]{0,8})([KMG]B?)")
_UNITS = {"K": 10**3, "M": 10**6, "G": 10**9}


def _bytes(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
    if value is None:
        return None
    found = _SIZE.fullmatch(value)
    if found is None:
        raise click.BadParameter(
            f"{value!r}: expected a size such as 50MB or 1GB", ctx=ctx, param=param
        )
    return int(found[1]) * _UNITS[found[2][0]]


@click.command()
@click.argument("target", metavar="TRACE", type=click.Path(dir_okay=False, path_type=Path))
@cluster_access.options
@click.option(
    "--for",
    "duration",
    type=durations.Duration(least=1.0),
    help="How long to record, such as 24h.  [default: until interrupted]",
)
@cluster_source.node_groups_option("NodeGroups to write with it: prices and sizes for the replay")
@click.option(
    "--anonymise",
    is_flag=True,
    help="Replace names, values of labels and handles of volumes by codes before anything is "
    "written.",
)
@click.option(
    "--rotate",
    metavar="SIZE",
    callback=_bytes,
    help="Go on in another file (TRACE.2, ...) after so many bytes, such as 50MB; each can be "
    "replayed alone.",
)
@click.option("--name", metavar="NAME", help="Name of the trace.  [default: the context]")
def record(
    target: Path,
    live: cluster_access.ClusterChoice,
    duration: float | None,
    node_groups: tuple[str, ...],
    anonymise: bool,
    rotate: int | None,
    name: str | None,
) -> None:
    """Follow a live cluster and write what happens as a trace, for `tonnage replay`.

    TRACE is gzip of JSON lines: all objects that Tonnage reads, then every change as a patch. There
    are no images, environments, commands, messages or secrets in it. It only reads; Ctrl-C ends it,
    and a trace that was cut off is readable up to there. docs/record-replay.md has the format, and
    the rights it needs.

    \b
    Examples:
      tonnage record day.jsonl.gz --for 24h --node-groups groups.yaml
      tonnage record report.jsonl.gz --anonymise --for 2h --context production
      tonnage record long.jsonl.gz --rotate 100MB
    """
    import asyncio

    from tonnage.service import lifecycle

    groups = read_groups(node_groups)
    if not target.absolute().parent.is_dir():
        raise InputError(f"{target}: no such folder; expected one that exists")
    if target.exists():
        raise InputError(f"{target}: there is such a file already; expected a new name")
    access = cluster_access.find(live)
    called = name or ("" if anonymise else access.context) or "cluster"
    recording = _Recording(access, target, groups=groups, anonymise=anonymise, rotate=rotate)
    patience = cluster_access.patience(live)
    try:
        asyncio.run(lifecycle.until_signalled(lambda: recording.run(called, duration, patience)))
    except ClusterError as error:
        raise cluster_access.explained(error, access) from error
    recording.tell()


def read_groups(paths: tuple[str, ...]) -> "tuple[NodeGroup, ...]":
    """The NodeGroups of files; an `InputError` for a file without any."""
    from tonnage import files
    from tonnage.cli import group_files
    from tonnage.objects.scenarios import NodeGroup

    if not paths:
        return ()
    for path in paths:
        group_files.check(path, lenient=False)
    loaded = files.load(list(paths), lenient=False, expand=False)
    cluster_source.tell(loaded)
    return tuple(one for one in loaded.objects if isinstance(one, NodeGroup))


class _Recording:
    def __init__(
        self,
        access: "Access",
        target: Path,
        *,
        groups: "tuple[NodeGroup, ...]",
        anonymise: bool,
        rotate: int | None,
    ) -> None:
        self._access = access
        self._target = target
        self._groups = groups
        self._anonymise = anonymise
        self._rotate = rotate
        self._recorder: ClusterRecorder | None = None

    async def run(self, name: str, duration: float | None, patience: "CallPatience | None") -> None:
        import importlib.metadata

        from tonnage.cli import progress_line
        from tonnage.cli.live import modelled
        from tonnage.service import connections
        from tonnage.traces.log import TraceLog
        from tonnage.traces.recorder import ClusterRecorder
        from tonnage.traces.records import TraceHead
        from tonnage.traces.writer import TraceWriter

        async with connections.connected(
            self._access, environ=os.environ, read_only=True, patience=patience
        ) as (client, clock, rng):
            version, note = modelled(await client.version())
            if note:
                console.note(note)
            head = TraceHead(
                name=name,
                recorded_by=f"tonnage {importlib.metadata.version('tonnage')}",
                started_at="",
                kubernetes_version=version,
            )
            self._recorder = recorder = ClusterRecorder(
                client,
                clock=clock,
                rng=rng,
                start=lambda head: TraceLog(
                    TraceWriter(self._target, head, rotate_after=self._rotate)
                ),
                head=head,
                node_groups=self._groups,
                anonymise=self._anonymise,
            )
            with progress_line.shown(self._progress):
                await recorder.run(duration)

    def tell(self) -> None:
        recorder = self._recorder
        if recorder is None or recorder.log is None:
            console.warn("ended before the cluster was read: nothing was written")
            raise click.exceptions.Exit(1)
        for kind, why in recorder.unread.items():
            console.warn(f"without {kind} objects: {why}")
        writer = recorder.log.writer
        files = ", ".join(str(path) for path in writer.paths)
        console.note(
            f"{files}: {recorder.recorded_for:,.0f} s, {writer.lines:,} lines,"
            f" {writer.written:,} bytes"
        )

    def _progress(self) -> str:
        recorder = self._recorder
        if recorder is None or recorder.log is None:
            return "reading the cluster"
        log = recorder.log
        return (
            f"recording: {log.objects:,} objects, {log.writer.lines:,} lines,"
            f" {log.writer.written:,} bytes"
        )
