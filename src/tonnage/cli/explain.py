"""`tonnage explain`: what kube-scheduler would say of pods, node by node."""

from typing import TYPE_CHECKING

import click

from tonnage.cli import printing, reading
from tonnage.errors import InputError

if TYPE_CHECKING:
    from tonnage.api import Cluster, Explanation, Verdict


@click.command()
@click.argument("pods", metavar="[POD]...", nargs=-1)
@reading.takes_cluster
@reading.returning_option
@reading.enforcement_option
@click.option("-n", "--namespace", metavar="NAME", default="", help="Only pods of this namespace.")
@printing.output_option
def explain(
    cluster: "Cluster", pods: tuple[str, ...], namespace: str, form: printing.Format
) -> None:
    """Say where each pending pod fits, and why not elsewhere.

    Prints the line kube-scheduler would report for the pod, then what becomes of it on every
    node. Without POD, all pending pods are explained. A pod that runs already is asked as if
    it were pending, and the node it runs on is marked with a star.

    \b
    Examples:
      tonnage explain -f cluster/
      tonnage explain shop/orders-3 --context production
      tonnage explain orders-3 -f nodes.yaml -f pods.yaml -o wide
      tonnage explain shop/orders-3 -f cluster.json --kubernetes-version 1.36
      kubectl get nodes,csinodes,csidrivers,pods,pvc,pv,sc,volumeattachments,ns -A -o json |
        tonnage explain -n shop -f -
    """
    if cluster.enforcement_remark:
        printing.note(cluster.enforcement_remark)
    chosen = _chosen(cluster, pods, namespace)
    if form in ("json", "yaml"):
        documents = [_document(cluster.explain(pod)) for pod in chosen]
        printing.print_document("Explanation", form=form, pods=documents)
        return
    if not chosen:
        printing.echo("No pending pods" + (f" in namespace {namespace}." if namespace else "."))
    for position, pod in enumerate(chosen):
        if position:
            printing.echo()
        _print(cluster.explain(pod), wide=form == "wide")


def _chosen(cluster: "Cluster", pods: tuple[str, ...], namespace: str) -> list[str]:
    if namespace and namespace not in cluster.namespaces:
        raise InputError(
            f"no pods in namespace {namespace!r}; there are pods in: "
            f"{', '.join(cluster.namespaces) or 'none'}"
        )
    if pods:
        return list(dict.fromkeys(cluster.find(pod, namespace=namespace) for pod in pods))
    return [pod for pod in cluster.pending if not namespace or pod.startswith(f"{namespace}/")]


def _document(explanation: "Explanation") -> dict[str, object]:
    from tonnage.cli import documents

    return {
        "pod": explanation.pod,
        **({"node": explanation.node} if explanation.node else {}),
        "summary": explanation.summary,
        "verdicts": [documents.explained_verdict(one) for one in explanation.verdicts],
    }


def _print(explanation: "Explanation", *, wide: bool) -> None:
    where = f" (runs on {explanation.node})" if explanation.node else ""
    printing.echo(f"{explanation.pod}{where}: {explanation.summary}")
    for warning in explanation.warnings:
        printing.echo(f"warning: {warning}")
    if not explanation.verdicts:
        return
    printing.echo()
    headings = ["NODE", "PLUGIN", "REASON"]
    if wide:
        headings = ["NODE", "PHASE", "PLUGIN", "CODE", "REASON", "CAUSE", "FACTS"]
    rows = [_row(one, running_on=explanation.node, wide=wide) for one in explanation.verdicts]
    printing.print_table(headings, rows)


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
