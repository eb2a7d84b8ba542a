"""`tonnage limits`: what the catalogue says of instance types, keys of limits, what was learned."""

import difflib
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

import click
import msgspec

from tonnage.cli import cluster_access, cluster_source, console, running_autoscaler
from tonnage.errors import InputError
from tonnage.groups import catalogue
from tonnage.objects import limit_keys, resources
from tonnage.objects.timestamps import rfc3339

if TYPE_CHECKING:
    from tonnage.cluster.client import Client
    from tonnage.groups.limit_lessons import Lesson
    from tonnage.objects.storage import CSIDriver


Row: TypeAlias = dict[str, str | int | bool]


class _Limits(click.Group):
    """Whatever is no command is an instance type: `limits m5.large` is `limits show m5.large`."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        first = args[0] if args else ""
        if first and not first.startswith("-") and first not in self.commands:
            near = difflib.get_close_matches(first, self.commands, n=1, cutoff=0.75)
            if near:
                ctx.fail(f"No such command {first!r}. Did you mean {near[0]}?")
            return super().resolve_command(ctx, ["show", *args])
        return super().resolve_command(ctx, args)


@click.group(cls=_Limits)
def limits() -> None:
    """Say how many volumes new nodes can attach, and who says so.

    \b
    Examples:
      tonnage limits m5.large
      tonnage limits show m5.large i4i.32xlarge -o json
      tonnage limits key ebs.csi.aws.com
      tonnage limits learned
    """


@limits.command(short_help="Print the attach limits of instance types.")
@click.argument("instance_types", metavar="INSTANCE-TYPE...", nargs=-1, required=True)
@click.option("--driver", metavar="NAME", help="Only this CSI driver.")
@click.option(
    "--enis",
    type=click.IntRange(min=1),
    metavar="N",
    default=1,
    show_default=True,
    help="Network interfaces of the node; on AWS types with shared slots each takes one.",
)
@click.option(
    "--reserved",
    type=click.IntRange(min=0),
    metavar="N",
    default=0,
    show_default=True,
    help="Slots to keep free, beside that of the root disk.",
)
@click.option(
    "--memory",
    type=click.IntRange(min=1),
    metavar="GIB",
    help="Memory of the type in GiB, for drivers whose limit follows it.",
)
@console.plain_output_option
def show(
    instance_types: tuple[str, ...],
    driver: str | None,
    enis: int,
    reserved: int,
    memory: int | None,
    form: console.PlainFormat,
) -> None:
    """Print the attach limits of instance types, with formula, source and date.

    A type the catalogue does not know is named on standard error, with the names that come
    near, and the exit code is 2; the others are printed all the same.

    \b
    Examples:
      tonnage limits show m5.large i4i.32xlarge
      tonnage limits show m5.large --enis 3 --reserved 1
      tonnage limits show Standard_D4s_v5 n4-standard-16 -o json
      tonnage limits show vm --driver csi.vsphere.vmware.com
    """
    found: list[catalogue.CatalogueLimit] = []
    unknown: list[str] = []
    for instance_type in instance_types:
        _refuse_too_many_enis(instance_type, enis)
        if driver is None:
            answers = catalogue.drivers_for(
                instance_type, enis=enis, reserved=reserved, memory_gib=memory
            )
        else:
            answer = catalogue.lookup(
                driver, instance_type, enis=enis, reserved=reserved, memory_gib=memory
            )
            answers = [answer] if answer is not None else []
        found += answers
        if not answers:
            unknown.append(catalogue.why_unknown(instance_type, driver))
    rows: list[Row] = msgspec.to_builtins(found)
    _print("LimitList", ("TYPE", "DRIVER", "LIMIT", "FORMULA", "SOURCE", "DATE"), rows, form=form)
    if unknown:
        # A driver that is not known is the same line for every type.
        raise InputError("; ".join(dict.fromkeys(unknown)))


@limits.command(short_help="Print the keys under which nodes publish limits.")
@click.argument("drivers", metavar="DRIVER...", nargs=-1, required=True)
@cluster_source.files_option(
    "Manifests with CSIDriver objects, which may name a key of their own; repeatable."
)
@console.plain_output_option
def key(drivers: tuple[str, ...], filenames: tuple[str, ...], form: console.PlainFormat) -> None:
    """Print the resource names under which nodes publish the limits of drivers.

    A long name is shortened and a hash added, so that the key has 62 characters. A CSIDriver may
    name another key, in its annotation tonnage.dev/attach-limit-key.

    \b
    Examples:
      tonnage limits key ebs.csi.aws.com
      tonnage limits key kubernetes.io/aws-ebs very-long-driver-name.storage.example-company.com
      tonnage limits key ebs.csi.aws.com -f csidrivers.yaml
    """
    objects = _csi_drivers(filenames) if filenames else {}
    rows = [_key_row(driver, objects.get(driver)) for driver in drivers]
    _print("LimitKeyList", ("DRIVER", "KEY", "HASHED"), rows, form=form)


def _csi_drivers(filenames: tuple[str, ...]) -> "dict[str, CSIDriver]":
    from tonnage.objects.storage import CSIDriver

    loaded = cluster_source.read(filenames, lenient=False)
    return {one.metadata.name: one for one in loaded.objects if isinstance(one, CSIDriver)}


def _key_row(driver: str, obj: "CSIDriver | None") -> Row:
    by_rule = limit_keys.key_for(driver)
    name = by_rule if obj is None else limit_keys.key_of(obj)
    if not resources.valid_qualified_name(name):
        raise InputError(
            f"driver {driver!r}: {name!r} cannot be a resource name; expected a driver name of "
            "letters, digits, - and ., with a letter or digit at both ends"
        )
    hashed = name == by_rule and limit_keys.is_hashed(driver)
    return {"driver": driver, "key": name, "hashed": hashed}


def _refuse_too_many_enis(instance_type: str, enis: int) -> None:
    pool = catalogue.pool(instance_type)
    for member in pool.members if pool else ():
        if member.name == "eni" and member.most is not None and enis > member.most:
            raise InputError(
                f"--enis {enis}: {instance_type} has at most {member.most} network interfaces"
            )


def _print(
    kind: str, headings: Sequence[str], rows: list[Row], *, form: console.Format, empty: str = ""
) -> None:
    if form in ("json", "yaml"):
        console.print_document(kind, form=form, items=rows)
    elif rows:
        console.print_table(headings, [[_cell(value) for value in row.values()] for row in rows])
    elif empty:
        console.echo(empty)


def _cell(value: str | int | bool) -> str:
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)


_TRIES = 5
"""Attempts to write before giving up: a busy autoscaler writes now and then, not all the time."""

namespace_option = click.option(
    "--namespace",
    metavar="NAME",
    help="Where the autoscaler keeps its state, in ConfigMap tonnage-state.  "
    "[default: tonnage-system or kube-system, wherever it is]",
)


@limits.command()
@cluster_source.filename_option
@cluster_access.options
@namespace_option
@cluster_source.lenient_option
@console.output_option
def learned(
    filenames: tuple[str, ...],
    live: cluster_access.ClusterChoice,
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
        loaded = cluster_source.read(filenames, live, lenient=lenient)
        lessons = _from_objects(loaded.objects)
    else:
        lessons = cluster_access.talk(lambda client: _stored(client, namespace), live)
    rows: list[Row] = [
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
    _print(
        "LearnedLimitList",
        ("TYPE", "DRIVER", "KIND", "COUNT", "NODE", "LAST SEEN"),
        rows,
        form=form,
        empty="Nothing was learned so far.",
    )


@limits.command()
@click.option("--type", "instance_type", metavar="TYPE", default="", help="Of this instance type.")
@click.option("--driver", metavar="NAME", default="", help="Of this CSI driver.")
@click.option("--all", "everything", is_flag=True, help="All there is.")
@cluster_access.options
@namespace_option
def forget(
    instance_type: str,
    driver: str,
    everything: bool,
    live: cluster_access.ClusterChoice,
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
    dropped = cluster_access.talk(
        lambda client: _forgotten(client, namespace, instance_type, driver), live
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

    place, _ = await running_autoscaler.find(client, ConfigMap, state.NAME, namespace=namespace)
    return place


async def _stored(client: "Client", given: str | None) -> "tuple[Lesson, ...]":
    from tonnage.autoscaler.state import StateStore

    namespace = await _where(client, given)
    return (await StateStore(client, namespace=namespace).load()).memory.lessons


async def _forgotten(client: "Client", given: str | None, instance_type: str, driver: str) -> int:
    """How many were dropped; the autoscaler may write at the same time, and never loses by it."""
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
