"""`tonnage limits`: what the catalogue says of instance types, and the keys of drivers' limits.

What was learned of them beside is in `limits_learned`.
"""

import difflib
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

import click
import msgspec

from tonnage.cli import cluster_source, console, limits_learned
from tonnage.errors import InputError
from tonnage.groups import catalogue
from tonnage.objects import limit_keys, resources

if TYPE_CHECKING:
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


limits.add_command(limits_learned.learned)
limits.add_command(limits_learned.forget)


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
    kind: str, headings: Sequence[str], rows: list[Row], *, form: console.PlainFormat
) -> None:
    if form != "table":
        console.print_document(kind, form=form, items=rows)
    elif rows:
        console.print_table(headings, [[_cell(value) for value in row.values()] for row in rows])


def _cell(value: str | int | bool) -> str:
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)
