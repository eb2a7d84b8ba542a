"""`tonnage plan`: which node groups to grow for the pending pods, and who is left out."""

import sys
import time
from typing import TYPE_CHECKING

import click

from tonnage.cli import (
    cluster_access,
    cluster_source,
    console,
    group_discovery,
    help_sections,
    plan_settings,
    progress_line,
    watch,
)
from tonnage.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from tonnage.api import Cluster
    from tonnage.groups.memory import TemplateMemory
    from tonnage.objects.kinds import KubeObject
    from tonnage.scaleup.decision import Decision
    from tonnage.scaleup.plan import Plan
    from tonnage.scaleup.whatif import Change

NOT_HELPED = "not-helped"
WARNINGS = "warnings"


SECTIONS = {
    "Cluster": ("--filename", "--kubeconfig", "--context", "--request-timeout", "--lenient"),
    "Node groups": (
        "--node-groups",
        "--discover",
        "--group-label",
        "--provider",
        "--cloud-config",
        "--node-group-auto-discovery",
    ),
    "Question": ("--scale-down", "--look-ahead", "--what-if", "--now"),
    "Output": ("--output", "--fail-on", "--watch"),
}
RARE = {
    "Decision": (
        "--expander",
        "--priorities",
        "--balance",
        "--csi-aware",
        "--max-nodes-total",
        "--time-budget",
        "--seed",
        "--option",
    ),
    "Rules of kube-scheduler": (
        "--kubernetes-version",
        "--feature-gates",
        "--legacy-attach-limits",
        "--enforce-opt-in",
    ),
}


@click.command(
    cls=help_sections.SectionedCommand,
    sections=SECTIONS,
    rare=RARE,
)
@cluster_source.filename_option
@cluster_access.options
@cluster_source.node_groups_option("NodeGroups that may grow, if they are not among the manifests")
@click.option(
    "--discover",
    is_flag=True,
    help="Find node groups by labels of nodes, as tonnage groups discover does.",
)
@group_discovery.options
@click.option(
    "--scale-down",
    is_flag=True,
    help="Say instead which nodes can be removed, where their pods go, what blocks the others.",
)
@click.option(
    "--consolidate",
    is_flag=True,
    help="Say instead which nodes to replace by cheaper or fewer.",
)
@click.option(
    "--look-ahead",
    is_flag=True,
    help="Also count the pods that StatefulSets, ReplicaSets and Jobs are known to make next.",
)
@cluster_source.lenient_option
@cluster_source.version_option
@cluster_source.gates_option
@cluster_source.legacy_option
@plan_settings.takes_settings
@plan_settings.now_option
@click.option(
    "--what-if",
    "what_ifs",
    metavar="CHANGE",
    multiple=True,
    help="Plan after a change: add-pods=FILE, limit=DRIVER:N, remove-node=NAME, opt-in=DRIVER, "
    "replicas=NAMESPACE/POD:N, max-size=GROUP:N, min-size=GROUP:N, price=GROUP:AMOUNT; "
    "with --scale-down or --consolidate also ignore-pdb=NAMESPACE/NAME; repeatable.",
)
@click.option(
    "--fail-on",
    type=click.Choice([NOT_HELPED, WARNINGS]),
    multiple=True,
    help="Exit with code 1 if pods are left out, or on warnings; repeatable.",
)
@watch.watchable
@console.output_as(
    "table",
    "wide",
    "json",
    "yaml",
    "markdown",
    help="Format; wide has more columns, markdown is for pull requests.",
)
@click.pass_context
@watch.repeated
def plan(
    ctx: click.Context,
    filenames: tuple[str, ...],
    live: cluster_access.ClusterChoice,
    node_groups: tuple[str, ...],
    discover: bool,
    wanted: group_discovery.GroupSource,
    scale_down: bool,
    consolidate: bool,
    look_ahead: bool,
    lenient: bool,
    kubernetes_version: str,
    feature_gates: dict[str, bool],
    legacy_attach_limits: bool,
    settings: dict[str, object],
    now: float | None,
    what_ifs: tuple[str, ...],
    fail_on: tuple[str, ...],
    form: console.Format,
) -> None:
    """Say which node groups to grow for the pending pods.

    Prints what to buy and why, and which pods are left out and why. Flags override --option, which
    overrides the options of a Scenario in the files.

    \b
    Examples:
      tonnage plan --discover
      tonnage plan --context production --node-groups groups.yaml
      tonnage plan -f cluster.json --node-groups groups.yaml -o wide
      tonnage plan -f cluster/ --what-if add-pods=new-database.yaml
      tonnage plan -f cluster/ --what-if limit=ebs.csi.aws.com:39 --what-if remove-node=node-7
      tonnage plan --node-groups groups.yaml --look-ahead
      tonnage plan -f cluster/ --scale-down
      tonnage plan -f cluster/ --consolidate --option consolidation.horizon=12h
      kubectl get nodes,csinodes,csidrivers,pods,pvc,pv,sc,volumeattachments,ns,ds -A -o json |
        tonnage plan -f - --node-groups groups.yaml
    """
    from tonnage.scaledown import suppositions

    if scale_down and consolidate:
        raise InputError("--scale-down and --consolidate: expected one of them")
    fewer = scale_down or consolidate
    if look_ahead:
        settings = {**settings, "lookAhead": True}
    supposed = suppositions.supposed(what_ifs if fewer else ())
    changes = _parsed(supposed.rest if fewer else what_ifs, lenient=lenient)
    loaded = cluster_source.read(
        filenames,
        live,
        lenient=lenient,
        beside=node_groups,
        workloads=fewer or look_ahead,
    )
    if discover or wanted.source or wanted.label:
        loaded = group_discovery.with_discovered(loaded, wanted, filenames=filenames, live=live)
    _refuse_without_groups(loaded.objects, fewer=fewer)
    cluster = plan_settings.cluster_of(
        loaded,
        settings,
        kubernetes_version=kubernetes_version,
        feature_gates=feature_gates,
        legacy_attach_limits=legacy_attach_limits,
    )
    if cluster.enforcement_remark:
        console.note(cluster.enforcement_remark)
    asked, memory, at = cluster, None, time.time() if now is None else now
    if changes:
        asked = cluster.with_objects(_changed(cluster, loaded.objects, changes))
        memory = _memory(cluster.with_objects(_kept(loaded.objects, changes)), at)
    cluster_source.note_missing_classes(asked)
    if fewer:
        from tonnage.cli import consolidation
        from tonnage.cli import scale_down as downward

        objects = _changed(cluster, loaded.objects, changes) if changes else loaded.objects
        run = consolidation.run if consolidate else downward.run
        run(asked, objects, supposed, now=now, form=form)
        return
    made = _decided(asked, at, memory)
    if form in ("json", "yaml"):
        from tonnage.api import plan_documents

        console.print_record(plan_documents.plan(made), form=form)
    elif form == "markdown":
        from tonnage.cli import plan_markdown

        plan_markdown.print_plan(made)
    else:
        before = _decided(cluster, at) if changes else None
        _print_table(made, before, wide=form == "wide")
    sys.stdout.flush()
    failures = _failures(made.plan, fail_on)
    if failures:
        console.note(f"ends with code 1: {', '.join(failures)}")
        ctx.exit(1)


def _decided(cluster: "Cluster", now: float, memory: "TemplateMemory | None" = None) -> "Decision":
    from tonnage.objects.codec import collector_paused

    with progress_line.shown("deciding"), collector_paused():
        return cluster.decide(now=now, memory=memory)


def _memory(cluster: "Cluster", now: float) -> "TemplateMemory":
    """What nodes of the groups look like, for when the last one of a group is gone."""
    from tonnage.scaleup import assessment

    return assessment.assess(cluster.inputs(now=now)).templates.memory


def _refuse_without_groups(objects: "Iterable[KubeObject]", *, fewer: bool) -> None:
    from tonnage.objects.scenarios import API_VERSION, NodeGroup

    if not any(isinstance(one, NodeGroup) for one in objects):
        so = "no node can be removed" if fewer else "there is nothing to buy"
        raise InputError(
            f"no NodeGroup in the input, so {so}: give --discover, which finds "
            "groups by labels of nodes, or --node-groups FILE with such groups (apiVersion: "
            f"{API_VERSION}, kind: NodeGroup, with spec.maxSize and spec.template or spec.nodes), "
            "which tonnage groups discover writes"
        )


def _parsed(what_ifs: "Sequence[str]", *, lenient: bool) -> "list[Change]":
    if not what_ifs:
        return []
    from tonnage.scaleup import whatif

    return [whatif.parse(one, read=_reader(lenient=lenient)) for one in what_ifs]


def _reader(*, lenient: bool) -> "Callable[[str], Iterable[KubeObject]]":
    from tonnage import files

    def read(path: str) -> "Iterable[KubeObject]":
        loaded = files.load([path], lenient=lenient, expand=False)
        cluster_source.tell(loaded)
        return loaded.objects

    return read


def _changed(
    cluster: "Cluster", objects: "list[KubeObject]", changes: "Sequence[Change]"
) -> "list[KubeObject]":
    from tonnage.scaleup import whatif

    changed = whatif.apply(objects, changes)
    for text in changed.notes:
        console.note(text)
    features = cluster.features
    enforced = features.volume_limit_scaling or features.enforce_opt_in
    if any(isinstance(one, whatif.OptIn) for one in changes) and not enforced:
        console.note(
            "what-if opt-in: of no effect while the gate VolumeLimitScaling is off, unless"
            " --enforce-opt-in says always"
        )
    return changed.objects


def _kept(objects: "list[KubeObject]", changes: "Sequence[Change]") -> "list[KubeObject]":
    """The objects after the changes but for those that take nodes away."""
    from tonnage.scaleup import whatif

    keeping = [one for one in changes if not isinstance(one, whatif.RemoveNode)]
    return whatif.apply(objects, keeping).objects


def _print_table(made: "Decision", before: "Decision | None", *, wide: bool) -> None:
    from tonnage.cli import diff_table, plan_table
    from tonnage.scaleup import plan_diff

    plan_table.print_plan(made, wide=wide)
    if before is not None:
        found = plan_diff.compare(before.plan, made.plan)
        console.echo()
        console.echo(f"Against the cluster as it is: {diff_table.in_one_line(found)}.")
    plan_table.print_warnings(made.plan, wide=wide)


def _failures(made: "Plan", fail_on: tuple[str, ...]) -> list[str]:
    from tonnage.objects.phrases import counted

    found = []
    if NOT_HELPED in fail_on and made.not_helped:
        found.append(f"{counted(len(made.not_helped))} left out")
    if WARNINGS in fail_on and made.warnings:
        found.append(counted(len(made.warnings), "warning"))
    return found
