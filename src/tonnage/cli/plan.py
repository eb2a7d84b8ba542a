"""`tonnage plan`: which node groups to grow for the pending pods, and who is left out."""

import contextlib
import sys
import time
from typing import TYPE_CHECKING

import click

from tonnage.cli import group_discovery, plan_settings, printing, reading, waiting
from tonnage.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from tonnage.files import Loaded
    from tonnage.groups.inputs import Inputs
    from tonnage.groups.memory import TemplateMemory
    from tonnage.groups.options import Options
    from tonnage.objects.kinds import KubeObject
    from tonnage.rules.features import Features
    from tonnage.scaleup.decision import Decision
    from tonnage.scaleup.plan import Plan
    from tonnage.scaleup.whatif import Change

NOT_HELPED = "not-helped"
WARNINGS = "warnings"


def _time(ctx: click.Context, param: click.Parameter, value: str | None) -> float:
    from tonnage.objects import timestamps

    if value is None:
        return time.time()
    try:
        return timestamps.parse(value)
    except timestamps.TimestampError as error:
        raise click.BadParameter(str(error), ctx=ctx, param=param) from None


@click.command()
@reading.filename_option
@reading.kubeconfig_option
@reading.context_option
@click.option(
    "--node-groups",
    metavar="FILE",
    multiple=True,
    help="NodeGroups that could be grown, if they are not among the manifests; repeatable.",
)
@click.option(
    "--discover",
    is_flag=True,
    help="Take the node groups that labels of nodes show, as tonnage groups discover does.",
)
@group_discovery.options
@reading.lenient_option
@reading.version_option
@reading.gates_option
@reading.legacy_option
@plan_settings.takes_settings
@click.option(
    "--now",
    metavar="TIME",
    callback=_time,
    help="When the manifests were taken, as in 2026-01-31T12:00:00Z; decides what is young.  "
    "[default: now]",
)
@click.option(
    "--what-if",
    "what_ifs",
    metavar="CHANGE",
    multiple=True,
    help="Plan for the cluster after a change: add-pods=FILE, limit=DRIVER:N, remove-node=NAME or "
    "opt-in=DRIVER; repeatable.",
)
@click.option(
    "--fail-on",
    type=click.Choice([NOT_HELPED, WARNINGS]),
    multiple=True,
    help="End with code 1 if pods are left out, or if there are warnings; repeatable.",
)
@printing.output_option
@click.pass_context
def plan(
    ctx: click.Context,
    filenames: tuple[str, ...],
    kubeconfig: str | None,
    context: str | None,
    node_groups: tuple[str, ...],
    discover: bool,
    wanted: group_discovery.Wanted,
    lenient: bool,
    kubernetes_version: str,
    feature_gates: dict[str, bool],
    legacy_attach_limits: bool,
    settings: dict[str, object],
    now: float,
    what_ifs: tuple[str, ...],
    fail_on: tuple[str, ...],
    form: printing.Format,
) -> None:
    """Say which node groups to grow for the pending pods.

    Prints what to buy and why, which resource the new nodes are fullest of, who fits on nodes
    that are there, and who is left out and why. A plan is complete: nothing that waits could be
    helped by buying more. Options of a Scenario in the files are the base; flags go before them.

    \b
    Examples:
      tonnage plan -f cluster.json --node-groups groups.yaml
      tonnage plan --context production --discover
      tonnage plan --context production --node-groups groups.yaml
      tonnage plan -f scenario.yaml --expander price,least-waste -o wide
      tonnage plan -f cluster/ --what-if limit=ebs.csi.aws.com:39 --what-if remove-node=node-7
      tonnage plan -f cluster/ --what-if add-pods=new-database.yaml
      tonnage plan -f cluster/ -o json --fail-on not-helped > plan.json
      kubectl get nodes,csinodes,csidrivers,pods,pvc,pv,sc,volumeattachments,ns,ds -A -o json |
        tonnage plan -f - --node-groups groups.yaml
    """
    from tonnage.scaleup import whatif

    changes = [whatif.parse(one, read=_reader(lenient=lenient)) for one in what_ifs]
    # Reading a live cluster says itself what it is at; two lines would overwrite each other.
    with waiting.shown("reading") if filenames else contextlib.nullcontext():
        loaded = reading.read(
            filenames, lenient=lenient, kubeconfig=kubeconfig, context=context, beside=node_groups
        )
    if discover or wanted.source or wanted.label:
        found = group_discovery.discover(
            loaded.objects, wanted, filenames=filenames, kubeconfig=kubeconfig, context=context
        )
        group_discovery.warn_of(found)
        loaded = _with_groups(loaded, found)
    _refuse_without_groups(loaded.objects)
    options = plan_settings.of_scenario(loaded, settings)
    features = plan_settings.features_of(
        loaded,
        version=kubernetes_version,
        gates=feature_gates,
        legacy_attach_limits=legacy_attach_limits,
    )
    question = _Question(options, _enforced(loaded.objects, options, features), now)
    objects, memory = loaded.objects, None
    if changes:
        objects = _changed(loaded.objects, changes, question.features)
        memory = question.memory_of(whatif.apply(loaded.objects, _keeping(changes)).objects)
    made = question.ask(objects, memory=memory)
    if form in ("json", "yaml"):
        _print_document(made.plan, form)
    else:
        before = question.ask(loaded.objects) if changes else None
        _print_table(made, before, wide=form == "wide")
    sys.stdout.flush()
    failures = _failures(made.plan, fail_on)
    if failures:
        printing.note(f"ends with code 1: {', '.join(failures)}")
        ctx.exit(1)


def _enforced(
    objects: "Iterable[KubeObject]", options: "Options", features: "Features"
) -> "Features":
    """The features with the opt-in enforced by whoever is seen to; said if that is not obvious."""
    from tonnage.rules import opt_in

    remark = opt_in.remark(objects, features, options.enforcement)
    if remark:
        printing.note(remark)
    return opt_in.settled(features, options.enforcement, seen=opt_in.seen_in(objects))


class _Question:
    """What is asked of a cluster: the same before and after a change."""

    def __init__(self, options: "Options", features: "Features", now: float) -> None:
        self.features = features
        self._options = options
        self._now = now

    def memory_of(self, objects: "Iterable[KubeObject]") -> "TemplateMemory":
        """What nodes of the groups look like, for when the last one of a group is gone."""
        from tonnage.scaleup import assessment

        return assessment.assess(self._inputs(objects)).templates.memory

    def ask(
        self, objects: "Iterable[KubeObject]", *, memory: "TemplateMemory | None" = None
    ) -> "Decision":
        from tonnage.objects.codec import collector_paused

        with waiting.shown("deciding"), collector_paused():
            return plan_settings.decide(self._inputs(objects, memory))

    def _inputs(
        self, objects: "Iterable[KubeObject]", memory: "TemplateMemory | None" = None
    ) -> "Inputs":
        from tonnage.groups.inputs import Inputs

        return Inputs.of_objects(
            objects, options=self._options, features=self.features, now=self._now, memory=memory
        )


def _with_groups(loaded: "Loaded", found: group_discovery.Discovered) -> "Loaded":
    """The cluster with the groups that were discovered; those that were written down stay."""
    import msgspec

    from tonnage.objects.scenarios import NodeGroup

    written = {one.metadata.name for one in loaded.objects if isinstance(one, NodeGroup)}
    new = [one for one in found.groups if one.group.metadata.name not in written]
    if new and not any(one.group.spec.template for one in new):
        printing.note(
            f"{len(new)} node groups by labels of nodes; their maxSize is a guess: tonnage groups"
            " discover > groups.yaml, correct it, and give --node-groups groups.yaml"
        )
    objects = [*loaded.objects, *(one.group for one in new)]
    return msgspec.structs.replace(loaded, objects=objects)


def _refuse_without_groups(objects: "Iterable[KubeObject]") -> None:
    from tonnage.objects.scenarios import API_VERSION, NodeGroup

    if not any(isinstance(one, NodeGroup) for one in objects):
        raise InputError(
            "no NodeGroup in the input, so there is nothing to buy: give --discover, which finds "
            "groups by labels of nodes, or --node-groups FILE with such groups (apiVersion: "
            f"{API_VERSION}, kind: NodeGroup, with spec.maxSize and spec.template or spec.nodes), "
            "which tonnage groups discover writes"
        )


def _reader(*, lenient: bool) -> "Callable[[str], Iterable[KubeObject]]":
    from tonnage import files

    def read(path: str) -> "Iterable[KubeObject]":
        loaded = files.load([path], lenient=lenient, expand=False)
        for problem in loaded.problems:
            printing.warn(f"left out: {problem}")
        for text in loaded.notes:
            printing.note(text)
        return loaded.objects

    return read


def _changed(
    objects: "list[KubeObject]", changes: "Sequence[Change]", features: "Features"
) -> "list[KubeObject]":
    from tonnage.scaleup import whatif

    changed = whatif.apply(objects, changes)
    for text in changed.notes:
        printing.note(text)
    enforced = features.volume_limit_scaling or features.enforce_opt_in
    if any(isinstance(one, whatif.OptIn) for one in changes) and not enforced:
        printing.note(
            "what-if opt-in: of no effect while the gate VolumeLimitScaling is off, unless"
            " --enforce-opt-in says always"
        )
    return changed.objects


def _keeping(changes: "Sequence[Change]") -> "list[Change]":
    """The changes without those that take nodes away."""
    from tonnage.scaleup import whatif

    return [one for one in changes if not isinstance(one, whatif.RemoveNode)]


def _print_document(made: "Plan", form: printing.Format) -> None:
    import msgspec

    fields = msgspec.to_builtins(made)
    del fields["apiVersion"]
    printing.print_document(fields.pop("kind"), form=form, **fields)


def _print_table(made: "Decision", before: "Decision | None", *, wide: bool) -> None:
    from tonnage.cli import diff_table, plan_table
    from tonnage.scaleup import comparing

    plan_table.print_plan(made, wide=wide)
    if before is not None:
        found = comparing.compare(before.plan, made.plan)
        printing.echo()
        printing.echo(f"Against the cluster as it is: {diff_table.in_one_line(found)}.")
    plan_table.print_warnings(made.plan, wide=wide)


def _failures(made: "Plan", fail_on: tuple[str, ...]) -> list[str]:
    from tonnage.cli.podlists import counted

    found = []
    if NOT_HELPED in fail_on and made.not_helped:
        found.append(f"{counted(len(made.not_helped))} left out")
    if WARNINGS in fail_on and made.warnings:
        found.append(counted(len(made.warnings), "warning"))
    return found
