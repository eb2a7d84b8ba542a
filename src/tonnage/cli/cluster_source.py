"""The options of every command that reads a cluster, and the reading itself.

A cluster is manifests (`-f`) or, without any, the one a kubeconfig leads to.
"""

import functools
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tonnage.cli import cluster_access, completion, console, progress_line, watch
from tonnage.cli.cluster_access import AS_KUBECTL, ClusterChoice
from tonnage.errors import InputError
from tonnage.objects.phrases import listed

if TYPE_CHECKING:
    from tonnage.api import Cluster
    from tonnage.cli.group_discovery import GroupSource
    from tonnage.files import Loaded
    from tonnage.rules.opt_in import Enforcement

Command = TypeVar("Command", bound=Callable[..., Any])


def gates_of(
    ctx: click.Context, param: click.Parameter, values: tuple[str, ...]
) -> dict[str, bool]:
    """Gates written as Kubernetes components take them: `A=true,B=false`; none is misspelt."""
    from tonnage.rules import features

    gates = {}
    for part in filter(None, (part.strip() for value in values for part in value.split(","))):
        name, _, switch = part.partition("=")
        if not name or switch.lower() not in ("true", "false"):
            message = f"{part!r}: expected NAME=true or NAME=false"
            raise click.BadParameter(message, ctx=ctx, param=param)
        gates[name] = switch.lower() == "true"
    try:
        features.check_gates(gates)
    except InputError as error:
        raise click.BadParameter(str(error), ctx=ctx, param=param) from None
    return gates


def _told_gates(
    ctx: click.Context, param: click.Parameter, values: tuple[str, ...]
) -> dict[str, bool]:
    """The same, and a word about those that change nothing."""
    from tonnage.rules import features

    gates = gates_of(ctx, param, values)
    _warn_of(features.without_effect(gates))
    return gates


def files_option(told: str) -> Callable[[Command], Command]:
    """`-f`, with what it may name."""
    return click.option(
        "-f",
        "--filename",
        "filenames",
        metavar="FILE",
        multiple=True,
        shell_complete=completion.files,
        help=told,
    )


def node_groups_option(told: str) -> Callable[[Command], Command]:
    """`--node-groups`, with what they are for."""
    return click.option(
        "--node-groups",
        metavar="FILE",
        multiple=True,
        shell_complete=completion.files,
        help=f"{told}; repeatable.",
    )


filename_option = files_option(
    "Manifests in YAML or JSON, a directory of them, or - for standard input; repeatable. "
    "Without any, a live cluster is read."
)
lenient_option = click.option(
    "--lenient", is_flag=True, help="Skip invalid objects, and name them."
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
    callback=_told_gates,
    help="Set feature gates of that version; repeatable.",
)
legacy_option = click.option(
    "--legacy-attach-limits",
    is_flag=True,
    help="Also read limits from attachable-volumes-* of nodes, as before CSINode.",
)
returning_option = click.option(
    "--count-returning-volumes-once",
    is_flag=True,
    help="Count a volume still attached for its returning pod once; kube-scheduler: twice.",
)
enforcement_option = click.option(
    "--enforce-opt-in",
    "enforce_opt_in",
    type=click.Choice(["auto", "always", "as-server"]),
    help="Whether pods are kept off nodes that lack a driver which opted in: always; as-server, as "
    "kube-scheduler does; auto, by what is seen in the cluster.  [default: auto]",
)


def max_pd_vols() -> int | None:
    """What `KUBE_MAX_PD_VOLS` says, for volumes of in-tree plugins under legacy limits."""
    from tonnage.objects import limit_keys

    return limit_keys.max_from_environment(os.environ.get("KUBE_MAX_PD_VOLS"))


def takes_cluster(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that say which cluster, and the cluster as first argument.

    What was left out or has to be said about the input is on standard error before it runs.
    Put it above the command's own options, so that help begins with the files.
    """

    @filename_option
    @cluster_access.options
    @lenient_option
    @version_option
    @gates_option
    @legacy_option
    @watch.repeated
    @functools.wraps(command)
    def reading(
        *arguments: Any,
        filenames: tuple[str, ...],
        live: ClusterChoice,
        lenient: bool,
        kubernetes_version: str,
        feature_gates: dict[str, bool],
        legacy_attach_limits: bool,
        count_returning_volumes_once: bool = False,
        enforce_opt_in: "Enforcement | None" = None,
        node_groups: tuple[str, ...] = (),
        wanted: "GroupSource | None" = None,
        **options: Any,
    ) -> None:
        from tonnage.api import Cluster

        loaded = read(filenames, live, lenient=lenient, beside=node_groups)
        if wanted is not None:
            options["wanted"] = wanted
            if wanted.source or wanted.label:
                from tonnage.cli import group_discovery

                loaded = group_discovery.with_discovered(
                    loaded, wanted, filenames=filenames, live=live
                )
        cluster = Cluster.of(
            loaded,
            kubernetes_version=kubernetes_version,
            feature_gates=feature_gates,
            legacy_attach_limits=legacy_attach_limits,
            max_pd_vols=max_pd_vols(),
            count_returning_volumes_once=count_returning_volumes_once,
            enforce_opt_in=enforce_opt_in,
        )
        command(cluster, *arguments, **options)

    return reading


def read(
    filenames: tuple[str, ...],
    live: ClusterChoice = AS_KUBECTL,
    *,
    lenient: bool,
    beside: tuple[str, ...] = (),
    workloads: bool = False,
    documents: frozenset[str] = frozenset(),
) -> "Loaded":
    """What the files hold, or without any the live cluster; and the files `beside` either.

    Problems and notes are printed. `workloads` asks a live cluster for those that own pods, too,
    and `documents` names kinds without a type here to be kept as they are written.
    """
    from tonnage import api
    from tonnage.cli import group_files

    refuse_both(filenames, live)
    # An inspection takes other kinds beside the groups.
    for path in beside if not documents else ():
        group_files.check(path, lenient=lenient)
    if filenames:
        # Reading a live cluster says itself what it is at; two lines would overwrite each other.
        with progress_line.shown("reading"):
            loaded = api.read((*filenames, *beside), lenient=lenient, beside=documents)
    else:
        loaded = _live(live, workloads=workloads, documents=bool(documents))
        if beside:
            loaded = _joined(loaded, api.read(beside, lenient=lenient, beside=documents))
    tell(loaded)
    group_files.note_groups_without_nodes(loaded.objects)
    if loaded.scenario is not None and loaded.scenario.feature_gates:
        from tonnage.rules import features

        _warn_of(features.without_effect(loaded.scenario.feature_gates))
    return loaded


def refuse_both(filenames: tuple[str, ...], live: ClusterChoice) -> None:
    """Refuse files beside a live cluster: it would not be clear which is meant."""
    if filenames and live.is_given:
        option = "--kubeconfig" if live.kubeconfig else "--context"
        raise click.UsageError(f"-f reads files and {option} a live cluster: give one of them")


def tell(loaded: "Loaded") -> None:
    """Print what was left out of files, what is not used of them, and what else is to be said."""
    for problem in loaded.problems:
        console.warn(f"left out: {problem}")
    for one in loaded.warnings:
        # Its group says the same of itself, and knows no file.
        group = one.object.removeprefix("NodeGroup ")
        console.warn(str(one), instead_of=f"group {group}: {one.field}: {one.message}")
    for text in loaded.notes:
        console.note(text)


def note_missing_classes(cluster: "Cluster") -> None:
    """Say why claims stay unbound, which kube-scheduler's words do not."""
    for name, claims in cluster.missing_classes.items():
        from tonnage.cli import podlists

        asking = [one.phrase for one in podlists.in_series(claims, what="claim")]
        console.note(f"there is no StorageClass {name}, so claims stay unbound: {listed(asking)}")


def _warn_of(text: str) -> None:
    if text:
        console.warn(text)


def _live(live: ClusterChoice, *, workloads: bool, documents: bool) -> "Loaded":
    from tonnage.cli.live import NEEDED, WORKLOADS, load

    return load(live, kinds={**NEEDED, **WORKLOADS} if workloads else NEEDED, beside=documents)


def _joined(cluster: "Loaded", beside: "Loaded") -> "Loaded":
    """A live cluster with what files add to it: groups, and options of a Scenario."""
    import msgspec

    scenario = cluster.scenario
    if beside.scenario is not None and scenario is not None:
        told = beside.scenario
        scenario = msgspec.structs.replace(
            told, kubernetes_version=told.kubernetes_version or scenario.kubernetes_version
        )
    return msgspec.structs.replace(
        cluster,
        objects=[*cluster.objects, *beside.objects],
        scenario=scenario,
        problems=[*cluster.problems, *beside.problems],
        warnings=[*cluster.warnings, *beside.warnings],
        notes=[*cluster.notes, *beside.notes],
        beside=[*cluster.beside, *beside.beside],
    )
