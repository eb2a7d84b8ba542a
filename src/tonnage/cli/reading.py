"""The options of every command that reads a cluster from files, and the reading itself."""

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from tonnage.cli import printing

if TYPE_CHECKING:
    from tonnage.files import Loaded


def gates_of(
    ctx: click.Context, param: click.Parameter, values: tuple[str, ...]
) -> dict[str, bool]:
    """Gates written as Kubernetes components take them: `A=true,B=false`."""
    gates = {}
    for part in filter(None, (part.strip() for value in values for part in value.split(","))):
        name, _, switch = part.partition("=")
        if not name or switch.lower() not in ("true", "false"):
            message = f"{part!r}: expected NAME=true or NAME=false"
            raise click.BadParameter(message, ctx=ctx, param=param)
        gates[name] = switch.lower() == "true"
    return gates


filename_option = click.option(
    "-f",
    "--filename",
    "filenames",
    metavar="FILE",
    multiple=True,
    required=True,
    help="Manifests in YAML or JSON, a directory of them, or - for standard input; repeatable.",
)
lenient_option = click.option(
    "--lenient", is_flag=True, help="Leave out objects that cannot be used, and say which."
)
version_option = click.option(
    "--kubernetes-version",
    metavar="VERSION",
    default="",
    help="Version of kube-scheduler to answer as.  [default: 1.37]",
)
gates_option = click.option(
    "--feature-gates",
    metavar="NAME=BOOL,...",
    multiple=True,
    callback=gates_of,
    help="Switch feature gates of that version; repeatable.",
)
legacy_option = click.option(
    "--legacy-attach-limits",
    is_flag=True,
    help="Read limits from attachable-volumes-* of nodes too, as before CSINode.",
)
returning_option = click.option(
    "--count-returning-volumes-once",
    is_flag=True,
    help="Count a volume still attached for its returning pod once; kube-scheduler: twice.",
)


def takes_cluster(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that describe a cluster, and the cluster as first argument.

    What was left out or has to be said about the input is on standard error before it runs.
    Put it above the command's own options, so that help begins with the files.
    """

    @filename_option
    @lenient_option
    @version_option
    @gates_option
    @legacy_option
    @functools.wraps(command)
    def reading(
        *arguments: Any,
        filenames: tuple[str, ...],
        lenient: bool,
        kubernetes_version: str,
        feature_gates: dict[str, bool],
        legacy_attach_limits: bool,
        count_returning_volumes_once: bool = False,
        **options: Any,
    ) -> None:
        from tonnage.api import Cluster

        cluster = Cluster.of(
            read(filenames, lenient=lenient),
            kubernetes_version=kubernetes_version,
            feature_gates=feature_gates,
            legacy_attach_limits=legacy_attach_limits,
            count_returning_volumes_once=count_returning_volumes_once,
        )
        command(cluster, *arguments, **options)

    return reading


def read(filenames: tuple[str, ...], *, lenient: bool) -> "Loaded":
    """What the files hold; problems and notes are printed as they are found."""
    from tonnage import api

    loaded = api.read(filenames, lenient=lenient)
    for problem in loaded.problems:
        printing.warn(f"left out: {problem}")
    for text in loaded.notes:
        printing.note(text)
    return loaded
