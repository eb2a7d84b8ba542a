"""`tonnage explain`: what kube-scheduler would say of pods, node by node."""

from typing import TYPE_CHECKING

import click

from tonnage.cli import cluster_source, console, podlists, progress_line, selection, watch
from tonnage.errors import InputError
from tonnage.objects.phrases import listed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tonnage.api import Cluster, Explanation, Overview, Verdict
    from tonnage.objects.meta import LabelSelector

FEW = 10
"""Nodes that have a line each; of more, those that answer the same are one line."""


@click.command()
@click.argument("pods", metavar="[POD]...", nargs=-1)
@cluster_source.takes_cluster
@cluster_source.returning_option
@cluster_source.enforcement_option
@click.option("-n", "--namespace", metavar="NAME", default="", help="Only pods of this namespace.")
@click.option(
    "-A", "--all-namespaces", "everywhere", is_flag=True, help="Pods of all namespaces, as always."
)
@selection.selector_option
@watch.watchable
@console.output_option
def explain(
    cluster: "Cluster",
    pods: tuple[str, ...],
    namespace: str,
    everywhere: bool,
    selector: "LabelSelector | None",
    form: console.Format,
) -> None:
    """Say where each pending pod fits, and why not elsewhere.

    Prints the line kube-scheduler would report for the pod, then what becomes of it on every
    node; of more than ten nodes, how many refuse it for which reason. Pods that are alike are
    answered once. -o wide has every pod and every node. Without POD, all pending pods are
    explained. A pod that runs already is asked as if it were pending, and the node it runs on is
    marked with a star.

    \b
    Examples:
      tonnage explain -f cluster/
      tonnage explain shop/orders-3 --context production
      tonnage explain -n shop -l app=orders --watch
      tonnage explain pod/orders-3 -f nodes.yaml -f pods.yaml -o wide
      tonnage explain shop/orders-3 -f cluster.json --kubernetes-version 1.36
      kubectl get nodes,csinodes,csidrivers,pods,pvc,pv,sc,volumeattachments,ns -A -o json |
        tonnage explain -n shop -f -
    """
    if everywhere and namespace:
        raise click.UsageError("-A means all namespaces and -n one: give one of them")
    if cluster.enforcement_remark:
        console.note(cluster.enforcement_remark)
    cluster_source.note_missing_classes(cluster)
    chosen = _chosen(cluster, pods, namespace)
    if selector is not None:
        chosen = [pod for pod in chosen if selection.matches(selector, cluster.labels(pod))]
    if form in ("json", "yaml"):
        documents = [_document(one) for one in _explained(cluster, chosen)]
        console.print_document("Explanation", form=form, pods=documents)
        return
    if not chosen:
        where = f" in namespace {namespace}" if namespace else ""
        nothing = (
            "" if cluster.namespaces or cluster.nodes else ": the input has no pod and no node"
        )
        console.echo(f"No pending pods{where}{nothing}.")
    if form == "wide":
        for position, explanation in enumerate(_explained(cluster, chosen)):
            if position:
                console.echo()
            _print(explanation, wide=True)
        return
    few = len(cluster.nodes) <= FEW
    for position, alike in enumerate(cluster.alike(chosen)):
        if position:
            console.echo()
        if few:
            _print(cluster.explain(alike[0]), wide=False, alike=alike)
        else:
            _print_overview(cluster.overview(alike))


def _explained(cluster: "Cluster", chosen: list[str]) -> "Iterator[Explanation]":
    done = 0
    with progress_line.shown(lambda: f"explaining: {done:,} of {len(chosen):,} pods"):
        for pod in chosen:
            yield cluster.explain(pod)
            done += 1


def _chosen(cluster: "Cluster", pods: tuple[str, ...], namespace: str) -> list[str]:
    if namespace and namespace not in cluster.namespaces:
        raise InputError(
            f"no pods in namespace {namespace!r}; there are pods in: "
            f"{', '.join(cluster.namespaces) or 'none'}"
        )
    if pods:
        named = [selection.name_of(pod, "pod", "pods", "po") for pod in pods]
        return list(dict.fromkeys(cluster.find(pod, namespace=namespace) for pod in named))
    return [pod for pod in cluster.pending if not namespace or pod.startswith(f"{namespace}/")]


def _print_summary(found: "Overview | Explanation", pods: "Sequence[str]") -> None:
    where = f" (runs on {found.node})" if found.node else ""
    console.echo(f"{_names(pods)}{where}: {found.summary}")
    for warning in found.warnings:
        console.echo(f"warning: {warning}")


def _print_overview(found: "Overview") -> None:
    _print_summary(found, found.pods)
    console.print_section(
        ["NODES", "PLUGIN", "REASON", "WHICH"],
        [
            [
                f"{len(one.nodes):,}",
                one.plugin or "-",
                ", ".join(one.reasons) or "fits",
                listed(_starred(one.nodes, found.node)),
            ]
            for one in found.groups
        ],
    )


def _starred(nodes: "Sequence[str]", running_on: str) -> list[str]:
    """The names, the node that the pod runs on first and with a star."""
    if running_on not in nodes:
        return list(nodes)
    return [f"{running_on} *", *(name for name in nodes if name != running_on)]


def _names(pods: "Sequence[str]") -> str:
    return listed([one.phrase for one in podlists.in_series(pods)], most=5)


def _document(explanation: "Explanation") -> dict[str, object]:
    from tonnage.cli import documents

    return {
        "pod": explanation.pod,
        **({"node": explanation.node} if explanation.node else {}),
        "summary": explanation.summary,
        "verdicts": [documents.explained_verdict(one) for one in explanation.verdicts],
    }


def _print(explanation: "Explanation", *, wide: bool, alike: "Sequence[str]" = ()) -> None:
    _print_summary(explanation, alike or [explanation.pod])
    headings = ["NODE", "PLUGIN", "REASON"]
    if wide:
        headings = ["NODE", "PHASE", "PLUGIN", "CODE", "REASON", "CAUSE", "FACTS"]
    rows = [_row(one, running_on=explanation.node, wide=wide) for one in explanation.verdicts]
    console.print_section(headings, rows)


def _row(verdict: "Verdict", *, running_on: str, wide: bool) -> list[str]:
    node = verdict.node + (" *" if verdict.node == running_on else "")
    plugin = verdict.plugin or "-"
    reason = ", ".join(verdict.texts) or (
        "fits, but see the warning" if verdict.warnings else "fits"
    )
    if not wide:
        return [node, plugin, reason]
    return [
        node,
        verdict.phase or "-",
        plugin,
        str(verdict.code),
        reason,
        ", ".join(dict.fromkeys(str(one.cause) for one in verdict.reasons)) or "-",
        ", ".join(
            f"{name}={_fact(value)}" for one in verdict.reasons for name, value in one.facts.items()
        )
        or "-",
    ]


def _fact(value: object) -> str:
    return "+".join(map(str, value)) if isinstance(value, list) else str(value)
