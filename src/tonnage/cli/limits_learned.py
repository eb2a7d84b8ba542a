"""`tonnage limits learned` and `forget`: what the running autoscaler learned of instance types."""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from tonnage.cli import cluster_call, cluster_source, console, installation
from tonnage.objects.timestamps import rfc3339

if TYPE_CHECKING:
    from tonnage.cluster.client import Client
    from tonnage.groups.limit_lessons import Lesson

_TRIES = 5
"""Attempts to write before giving up: a busy autoscaler writes now and then, not all the time."""

namespace_option = click.option(
    "--namespace",
    metavar="NAME",
    help="Where the autoscaler keeps its state, in ConfigMap tonnage-state.  "
    "[default: tonnage-system or kube-system, wherever it is]",
)


@click.command()
@cluster_source.filename_option
@cluster_source.kubeconfig_option
@cluster_source.context_option
@namespace_option
@cluster_source.lenient_option
@console.output_option
def learned(
    filenames: tuple[str, ...],
    kubeconfig: str | None,
    context: str | None,
    namespace: str | None,
    lenient: bool,
    form: console.Format,
) -> None:
    """Show what instance types have taught about attach limits.

    A LIMIT is what most nodes of the type say, a CEILING the number of volumes one of them
    held when it refused the next. They are read from the state of the running autoscaler; with -f,
    learned anew from the nodes and attachments of the files.

    \b
    Examples:
      tonnage limits learned
      tonnage limits learned --context production -o json
      tonnage limits learned -f cluster.json
    """
    if filenames:
        loaded = cluster_source.read(
            filenames, lenient=lenient, kubeconfig=kubeconfig, context=context
        )
        lessons = _from_objects(loaded.objects)
    else:
        lessons = cluster_call.talk(
            lambda client: _stored(client, namespace), kubeconfig=kubeconfig, context=context
        )
    if form in ("json", "yaml"):
        rows = [
            {
                "instanceType": one.instance_type,
                "driver": one.driver,
                "kind": one.kind,
                "count": one.count,
                "node": one.node,
                "seen": rfc3339(one.seen),
            }
            for one in lessons
        ]
        console.print_document("LearnedLimitList", form=form, items=rows)
    elif lessons:
        console.print_table(
            ["TYPE", "DRIVER", "KIND", "COUNT", "NODE", "LAST SEEN"],
            [
                [
                    one.instance_type,
                    one.driver,
                    one.kind,
                    str(one.count),
                    one.node,
                    rfc3339(one.seen),
                ]
                for one in lessons
            ],
        )
    else:
        console.echo("Nothing was learned so far.")


@click.command()
@click.option("--type", "instance_type", metavar="TYPE", default="", help="Of this instance type.")
@click.option("--driver", metavar="NAME", default="", help="Of this CSI driver.")
@click.option("--all", "everything", is_flag=True, help="All there is.")
@cluster_source.kubeconfig_option
@cluster_source.context_option
@namespace_option
def forget(
    instance_type: str,
    driver: str,
    everything: bool,
    kubeconfig: str | None,
    context: str | None,
    namespace: str | None,
) -> None:
    """Drop what instance types have taught about attach limits.

    A running autoscaler takes note when it next writes its state, within minutes. What its nodes
    still show it learns again.

    \b
    Examples:
      tonnage limits forget --type t4g.xlarge
      tonnage limits forget --type m5.large --driver ebs.csi.aws.com
      tonnage limits forget --all
    """
    if everything == bool(instance_type or driver):
        raise click.UsageError("say what to forget: --type, --driver or both, or else --all")
    dropped = cluster_call.talk(
        lambda client: _forgotten(client, namespace, instance_type, driver),
        kubeconfig=kubeconfig,
        context=context,
    )
    console.echo(f"{dropped} forgotten.")


def _from_objects(objects: Sequence[object]) -> "tuple[Lesson, ...]":
    from tonnage.groups import limit_lessons as learning
    from tonnage.groups.policy import GroupPolicy
    from tonnage.objects.nodes import Node
    from tonnage.objects.storage import CSINode, VolumeAttachment

    return learning.renewed(
        (),
        nodes=[one for one in objects if isinstance(one, Node)],
        csinodes=[one for one in objects if isinstance(one, CSINode)],
        attachments=[one for one in objects if isinstance(one, VolumeAttachment)],
        policy=GroupPolicy(),
        now=time.time(),
        max_age=float("inf"),
    )


async def _where(client: "Client", namespace: str | None) -> str:
    from tonnage.autoscaler import state
    from tonnage.cluster.records import ConfigMap

    place, _ = await installation.find(client, ConfigMap, state.NAME, namespace=namespace)
    return place


async def _stored(client: "Client", given: str | None) -> "tuple[Lesson, ...]":
    from tonnage.autoscaler.state import StateStore

    namespace = await _where(client, given)
    return (await StateStore(client, namespace=namespace).load()).memory.lessons


async def _forgotten(client: "Client", given: str | None, instance_type: str, driver: str) -> int:
    """How many were dropped; the autoscaler may write at the same time, and never loses by it."""
    import msgspec

    from tonnage.autoscaler.state import StateStore
    from tonnage.cluster import errors
    from tonnage.groups import limit_lessons as learning

    namespace = await _where(client, given)
    for left in reversed(range(_TRIES)):
        store = StateStore(client, namespace=namespace)
        state = await store.load()
        known = state.memory.lessons
        kept = learning.forgotten(known, instance_type=instance_type, driver=driver)
        if len(kept) == len(known):
            return 0
        memory = msgspec.structs.replace(state.memory, lessons=kept)
        try:
            await store.save(msgspec.structs.replace(state, memory=memory))
        except errors.Conflict:
            if not left:
                raise
        else:
            return len(known) - len(kept)
    raise AssertionError("the last attempt returns or raises")
