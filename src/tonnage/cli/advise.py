"""`tonnage advise`: which instance types would carry the cluster cheaper, given its volumes."""

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tonnage.cli import (
    cluster_source,
    console,
    durations,
    group_discovery,
    progress_line,
    report_files,
    run_providers,
)
from tonnage.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tonnage.api import Cluster
    from tonnage.consolidation.right_size import InstancePrice, SizeAdvice
    from tonnage.groups.inputs import Inputs

_SHOWN = 15


@click.command()
@group_discovery.options
@cluster_source.takes_cluster
@click.option(
    "--prices",
    metavar="FILE",
    help="Prices an hour by instance type, as YAML or JSON: m6i.large: 0.096.  [default: those of "
    "the node groups, and a small table of EC2 list prices]",
)
@click.option(
    "--seconds",
    type=durations.Duration(),
    default=5.0,
    show_default=True,
    help="How long to look for the best mix of types.",
)
@console.file_option("--html", "html_file", help="Write the tables as a page, too.")
@console.output_option
def advise(
    cluster: "Cluster",
    wanted: group_discovery.GroupSource,
    prices: str | None,
    seconds: float,
    html_file: Path | None,
    form: console.Format,
) -> None:
    """Say which instance types would carry the cluster cheaper, given its volumes.

    All pods but those of DaemonSets are packed anew on nodes of each type alone, and on the best
    mix. Rules between pods are left aside: it is a direction, not a plan.

    \b
    Examples:
      tonnage advise -f cluster/
      tonnage advise --context production --prices prices.yaml
      tonnage advise --provider aws --cloud-config aws.yaml --html advice.html
      tonnage advise -f cluster.json -o json
    """
    from tonnage.consolidation.right_size import NOTHING

    report_files.check_folder(html_file)
    given = _prices(cluster, prices, wanted)
    with progress_line.shown("deciding"):
        found = cluster.right_size(given, now=time.time(), seconds=seconds)
    if html_file is not None:
        _write_page(found, html_file)
    if form in ("json", "yaml"):
        console.print_record(found, form=form)
    elif NOTHING in found.warnings:
        console.echo(f"{NOTHING[:1].upper()}{NOTHING[1:]}.")
        return
    else:
        _print_tables(found, wide=form == "wide")
    for warning in found.warnings:
        console.warn(warning)


def _write_page(found: "SizeAdvice", path: Path) -> None:
    from tonnage.report import page

    title = "What this cluster would cost on other nodes"
    text = page.advice_page(title, found, origin=report_files.origin())
    report_files.write(path, text, what="The report")


def _prices(
    cluster: "Cluster", path: str | None, wanted: group_discovery.GroupSource
) -> "list[InstancePrice]":
    """Those of a file alone; else of groups, the provider's configuration and the table."""
    from tonnage.consolidation.right_size import InstancePrice

    found: dict[str, InstancePrice] = {}

    def add(name: str, price: float, source: str) -> None:
        found.setdefault(name, InstancePrice(instance_type=name, price=price, source=source))

    if path is not None:
        for name, price in _read(path).items():
            add(name, price, "file")
        return list(found.values())
    asked = wanted.source if wanted.source in run_providers.MAKES_MACHINES else ""
    inputs = cluster.inputs(now=time.time())
    for one in group_prices(inputs, source=f"provider {asked}" if asked else "group"):
        found.setdefault(one.instance_type, one)
    for group in inputs.groups:
        for problem in group.problems:
            console.warn(problem)
    from tonnage.providers.aws import config

    if asked == "aws" and wanted.cloud_config is not None:
        settings = config.read(wanted.cloud_config)
        for name, price in settings.prices.items():
            add(name, price, "provider aws")
        if settings.prices or settings.unpriced:
            # As for the provider: whoever gives prices of their own has no others.
            return list(found.values())
    return with_list_prices(list(found.values()))


def group_prices(inputs: "Inputs", *, source: str = "group") -> "list[InstancePrice]":
    """Of the types of groups that have a price."""
    from tonnage.consolidation.right_size import InstancePrice
    from tonnage.objects.labels import INSTANCE_TYPE

    found = []
    for group in inputs.groups:
        labels = [node.metadata.labels for name in group.nodes if (node := inputs.nodes.get(name))]
        if group.provider_template is not None:
            labels.insert(0, group.provider_template.node.metadata.labels)
        types = [one[INSTANCE_TYPE] for one in labels if INSTANCE_TYPE in one]
        if types and group.price_per_hour is not None:
            found.append(
                InstancePrice(instance_type=types[0], price=group.price_per_hour, source=source)
            )
    return found


def with_list_prices(known: "Iterable[InstancePrice]") -> "list[InstancePrice]":
    """These, each type once, and those of the table for the types that they do not have."""
    from tonnage.consolidation.right_size import InstancePrice
    from tonnage.providers.aws import prices

    found: dict[str, InstancePrice] = {}
    table = prices.bundled()
    source = f"EC2 list, {table.region}, {table.date}"
    listed = (
        InstancePrice(instance_type=name, price=price, source=source)
        for name, price in table.prices.items()
    )
    for one in (*known, *listed):
        found.setdefault(one.instance_type, one)
    return list(found.values())


def _read(path: str) -> dict[str, float]:
    """The prices of a file that can be used; what is wrong with the others is said."""
    from tonnage.files import sources, yamltext
    from tonnage.objects import prices

    try:
        parts = yamltext.split(sources.read(sources.InputSource(path, Path(path))))
        documents = [one for line, part in parts for one in yamltext.read(part, first_line=line)]
    except yamltext.YamlError as error:
        raise InputError(f"{path}:{error.line}: {error.message}") from None
    found: dict[str, float] = {}
    for document in documents:
        if not isinstance(document.value, dict):
            raise InputError(f"{path}: expected prices by instance type, such as m6i.large: 0.096")
        for name, written in document.value.items():
            price = prices.amount(written)
            if price is not None:
                found[name] = price
            else:
                # Nothing beside a type is a slip too: somebody wrote the type down.
                wrong = prices.complaint("" if written is None else written)
                console.warn(f"{path}:{document.line_of((name,))}: {name}: {wrong}")
    return found


def _print_tables(found: "SizeAdvice", *, wide: bool) -> None:
    from tonnage.cli.plan_table import money

    now = f" for {money(found.cost_now)} an hour" if found.cost_now is not None else ""
    console.echo(f"{found.pods:,} pods, today on {found.nodes_now:,} nodes{now}.")
    if found.types:
        rows = [
            [
                one.instance_type,
                money(one.price),
                "-" if one.slots is None else str(one.slots),
                "-" if one.price_per_slot is None else money(one.price_per_slot),
                f"{one.nodes:,}",
                money(one.cost),
                str(one.left_out) if one.left_out else "-",
            ]
            for one in (found.types if wide else found.types[:_SHOWN])
        ]
        console.print_section(
            ["TYPE", "PRICE/H", "SLOTS", "PER SLOT", "NODES", "COST/H", "LEFT OUT"], rows
        )
        mix = ", ".join(f"{count} {name}" for name, count in found.mix.items())
        console.echo()
        console.echo(
            f"The best mix found: {mix}, for {money(found.mix_cost)} an hour; none costs less than"
            f" {money(found.bound)}."
        )
    lost = [
        [one.group, one.driver, f"{one.cpu_milli / 1000:g}", f"{one.memory / 2**30:.1f}Gi"]
        for one in found.stranded
        if one.cpu_milli or one.memory
    ]
    console.print_section(["GROUP", "DRIVER", "STRANDED CPU", "STRANDED MEMORY"], lost)
