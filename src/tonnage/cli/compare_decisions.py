"""`tonnage compare-decisions`: what another autoscaler does beside what Tonnage would do."""

import sys
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import click

from tonnage.cli import cluster_access, cluster_source, console, running_autoscaler

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tonnage.cluster.client import Client
    from tonnage.migration.comparison import DecisionComparison, Word

Format: TypeAlias = Literal["table", "wide", "json", "yaml"]


@click.command("compare-decisions")
@click.option(
    "--decisions",
    "files",
    metavar="FILE",
    multiple=True,
    help="A decision file of Tonnage (decisionFile of its configuration); repeatable. Without any, "
    "the running one is asked at --url.",
)
@click.option(
    "--url",
    metavar="URL",
    default=running_autoscaler.DEFAULT_URL,
    show_default=True,
    help="The --debug-address of the Tonnage that runs in dry-run.",
)
@cluster_source.files_option(
    "Events and the status ConfigMap as manifests; repeatable. Without any, a live cluster is read."
)
@cluster_access.options
@click.option(
    "--namespace",
    metavar="NAME",
    default="kube-system",
    show_default=True,
    help="Where the other one keeps its status ConfigMap.",
)
@click.option(
    "--status-config-map-name",
    "config_map",
    metavar="NAME",
    default="cluster-autoscaler-status",
    show_default=True,
    help="The name of that ConfigMap.",
)
@console.output_option
@click.pass_context
def compare_decisions(
    ctx: click.Context,
    files: tuple[str, ...],
    url: str,
    filenames: tuple[str, ...],
    live: cluster_access.ClusterChoice,
    namespace: str,
    config_map: str,
    form: Format,
) -> None:
    """Show where cluster-autoscaler and Tonnage differ.

    Tonnage runs beside the other one with --dry-run; what the other one does is read from its
    events and its status ConfigMap. Says for every pod and group what each of them decided first.
    The exit code is 0 if they agree, 1 if they differ, 2 if the input cannot be read.

    \b
    Examples:
      tonnage compare-decisions --context production --decisions decisions.jsonl
      kubectl -n tonnage-system port-forward deployment/tonnage 8086 & tonnage compare-decisions
      kubectl get events,configmaps -A -o json | tonnage compare-decisions -f - --decisions d.jsonl
    """
    from tonnage.migration import comparison

    cluster_source.refuse_both(filenames, live)
    decisions = (
        [one for file in files for one in running_autoscaler.read(file)]
        if files
        else running_autoscaler.ask(url)
    )
    if filenames:
        from tonnage.files.plain import load_plain

        documents = load_plain(filenames)
    else:
        documents = cluster_access.talk(
            lambda client: _from_cluster(client, namespace, config_map), live, read_only=True
        )
    made = comparison.compare(
        decisions,
        comparison.read_events(documents),
        comparison.read_status(_status_text(documents, config_map)),
    )
    if form in ("json", "yaml"):
        import msgspec

        console.print_document("DecisionComparison", form=form, **msgspec.to_builtins(made))
    else:
        _print(made, wide=form == "wide")
    sys.stdout.flush()
    ctx.exit(0 if made.same else 1)


async def _from_cluster(client: "Client", namespace: str, config_map: str) -> list[dict[str, Any]]:
    from tonnage.cli import live
    from tonnage.cluster import errors
    from tonnage.cluster.client import Selection
    from tonnage.migration.comparison import REASONS

    events = live.document_kind("Event", "events", group="", namespaced=True)
    config_maps = live.document_kind("ConfigMap", "configmaps", group="", namespaced=True)
    found: list[dict[str, Any]] = []
    for reason in REASONS:
        listed = await client.list(events, Selection(fields=f"reason={reason}"))
        found += [one.written for one in listed.items]
    try:
        found.append((await client.get(config_maps, config_map, namespace=namespace)).written)
    except errors.NotFound:
        console.warn(f"there is no ConfigMap {namespace}/{config_map}")
    return found


def _status_text(documents: "Iterable[Mapping[str, Any]]", config_map: str) -> str:
    for document in documents:
        named = (document.get("metadata") or {}).get("name")
        if (document.get("kind"), named) == ("ConfigMap", config_map):
            return str((document.get("data") or {}).get("status", ""))
    return ""


def _print(made: "DecisionComparison", *, wide: bool) -> None:
    pods = [one for one in made.pods if wide or not one.same]
    groups = [one for one in made.groups if wide or not one.same]
    if pods:
        console.print_table(
            ["POD", "CLUSTER-AUTOSCALER", "TONNAGE", "WHY"],
            [
                [
                    one.pod,
                    _said(one.theirs),
                    _said(one.ours),
                    one.ours.reason or one.theirs.reason or "-",
                ]
                for one in pods
            ],
            alarming=[number for number, one in enumerate(pods) if not one.same],
        )
        console.echo()
    if groups:
        console.print_table(
            ["GROUP", "CLUSTER-AUTOSCALER", "TONNAGE", "TARGET", "SCALE-UP"],
            [
                [
                    one.group,
                    _nodes(one.theirs),
                    _nodes(one.ours),
                    "-" if one.their_target is None else str(one.their_target),
                    one.their_status or "-",
                ]
                for one in groups
            ],
            alarming=[number for number, one in enumerate(groups) if not one.same],
        )
        console.echo()
    agree = sum(one.same for one in made.pods)
    console.echo(
        f"{agree} of {len(made.pods)} pods and {sum(one.same for one in made.groups)} of"
        f" {len(made.groups)} groups alike; {made.decisions} decisions, {made.events} events"
        + (f", from {made.since} to {made.until}" if made.since else "")
    )
    for text in made.warnings:
        console.warn(text)


def _said(word: "Word") -> str:
    return f"{word.outcome} {', '.join(word.groups)}".strip()


def _nodes(count: int | None) -> str:
    return "not known" if count is None else f"+{count}"
