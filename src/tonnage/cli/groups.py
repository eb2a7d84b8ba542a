"""`tonnage groups`: which node groups a cluster has."""

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import click

from tonnage.cli import cluster_access, cluster_source, console, group_discovery

if TYPE_CHECKING:
    from tonnage.cli.group_discovery import Discovered

Format: TypeAlias = Literal["yaml", "json", "table"]


@click.group()
def groups() -> None:
    """Say which node groups a cluster has.

    \b
    Examples:
      tonnage groups discover > groups.yaml
      tonnage plan --discover
    """


@groups.command(short_help="Write NodeGroups after nodes, a cloud or NodePools.")
@cluster_source.filename_option
@cluster_access.options
@group_discovery.options
@console.output_as(
    "yaml", "json", "table", help="How to print; yaml is a file for --node-groups, with remarks."
)
def discover(
    filenames: tuple[str, ...],
    live: cluster_access.ClusterChoice,
    wanted: group_discovery.GroupSource,
    form: Format,
) -> None:
    """Write NodeGroups after what a cluster shows, as a file to look at.

    Without --provider groups are recognised by labels of nodes (EKS, eksctl, GKE, AKS, kOps,
    Karpenter, DigitalOcean) and annotations (Cluster API), else by instance type and zone; sizes
    are guesses then. With --provider aws, clusterapi or externalgrpc they are those of the
    provider, with its sizes and templates; with karpenter those of NodePools. Only reads.

    \b
    Examples:
      tonnage groups discover > groups.yaml
      tonnage groups discover -f cluster.json -o table
      tonnage groups discover --provider aws > groups.yaml
      tonnage groups discover --provider clusterapi --context management
    """
    loaded = cluster_source.read(filenames, live, lenient=True)
    found = group_discovery.discover(loaded.objects, wanted, filenames=filenames, live=live)
    group_discovery.warn_of(found)
    if form == "table":
        _print_table(found)
    elif form == "json":
        console.print_document("NodeGroupList", form="json", items=_documents(found))
    else:
        _print_file(found)


def _documents(found: "Discovered") -> list[dict[str, Any]]:
    import msgspec

    from tonnage.files import scenario_writer

    documents = [msgspec.json.decode(scenario_writer.manifest(one.group)) for one in found.groups]
    for one, document in zip(found.groups, documents, strict=True):
        # A size is there to be corrected, also where it is the default.
        sizes = {"minSize": one.group.spec.min_size, "maxSize": one.group.spec.max_size}
        document["spec"] = sizes | document["spec"]
    return documents


def _print_table(found: "Discovered") -> None:
    console.print_table(
        ["GROUP", "NODES", "MIN", "MAX", "RECOGNISED BY"],
        [
            [
                one.group.metadata.name,
                str(one.nodes),
                str(one.group.spec.min_size),
                str(one.group.spec.max_size),
                one.by,
            ]
            for one in found.groups
        ],
    )


def _print_file(found: "Discovered") -> None:
    import yaml

    for one, document in zip(found.groups, _documents(found), strict=True):
        console.echo("---")
        console.echo(f"# {one.by}")
        for remark in one.remarks:
            console.echo(f"# {remark}")
        console.print_lines(yaml.safe_dump(document, sort_keys=False, width=100))
