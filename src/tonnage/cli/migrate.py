"""`tonnage migrate`: from cluster-autoscaler or Karpenter to settings and node groups of ours."""

from collections import Counter
from typing import TYPE_CHECKING, Any

import click

from tonnage.cli import cluster_access, cluster_source, console
from tonnage.errors import InputError, system_errors

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from tonnage.cluster.client import Client
    from tonnage.migration.documents import Migration
    from tonnage.migration.flags import Outcome
    from tonnage.objects.nodes import Node
    from tonnage.providers.aws.machines import InstanceType


_ORDER: "tuple[Outcome, ...]" = ("not supported", "setting", "argument", "not needed")


@click.command()
@cluster_source.files_option(
    "Manifests of the old autoscaler: its Deployment and the ConfigMap of its priorities, or "
    "NodePools and Nodes; - is standard input; repeatable. Without any, a live cluster is read."
)
@cluster_access.options
@click.option(
    "--from",
    "program",
    type=click.Choice(["cluster-autoscaler", "karpenter"]),
    help="Which one, if there are both.",
)
@click.option(
    "--instance-types",
    metavar="FILE",
    help="Answer of `aws ec2 describe-instance-types`: which machines NodePools may use.",
)
@click.option(
    "--write",
    "directory",
    metavar="DIRECTORY",
    help="Write config.yaml, node-groups.yaml and values.yaml, for the chart, there.",
)
@console.plain_output_option
def migrate(
    filenames: tuple[str, ...],
    live: cluster_access.ClusterChoice,
    program: str | None,
    instance_types: str | None,
    directory: str | None,
    form: console.PlainFormat,
) -> None:
    """Write the settings that mean the same as those of another autoscaler.

    Reads how cluster-autoscaler is called, or Karpenter's NodePools, and says for each flag or
    field what follows it here, or that nothing does and why. Changes nothing in the cluster.

    \b
    Examples:
      tonnage migrate
      tonnage migrate -f cluster-autoscaler.yaml --write moving/
      tonnage migrate --from karpenter --instance-types types.json --write moving/
      kubectl -n kube-system get deployment cluster-autoscaler -o yaml | tonnage migrate -f -
    """
    cluster_source.refuse_both(filenames, live)
    if filenames:
        documents, nodes = _from_files(filenames)
    else:
        documents, nodes = cluster_access.talk(_from_cluster, live, read_only=True)
    made = _migrated(documents, nodes, _machines(instance_types), program=program)
    if directory:
        _write(made, directory)
    if form == "table":
        _print(made)
    else:
        import msgspec

        console.print_document("Migration", form=form, **msgspec.to_builtins(made))


def _from_files(filenames: tuple[str, ...]) -> "tuple[list[dict[str, Any]], list[Node]]":
    from tonnage.files.plain import load_plain
    from tonnage.objects import codec, kinds
    from tonnage.objects.nodes import Node

    documents = load_plain(filenames)
    row = kinds.by_kind("v1", "Node")
    assert row is not None
    found = []
    for document in documents:
        if document.get("kind") == "Node":
            node = codec.convert(document, row)
            assert isinstance(node, Node)
            found.append(node)
    return documents, found


async def _from_cluster(client: "Client") -> "tuple[list[dict[str, Any]], list[Node]]":
    from tonnage.cli import live
    from tonnage.cluster import errors
    from tonnage.objects.nodes import Node

    found: list[dict[str, Any]] = []
    for kind, plural, group, namespaced in (
        ("Deployment", "deployments", "apps", True),
        ("ConfigMap", "configmaps", "", True),
        ("NodePool", "nodepools", "karpenter.sh", False),
    ):
        resource = live.document_kind(kind, plural, group=group, namespaced=namespaced)
        try:
            found += [
                {**one.written, "apiVersion": resource.api_version}
                for one in (await client.list(resource)).items
            ]
        except errors.NotFound:
            continue
        except errors.Forbidden as error:
            console.warn(f"{error}: {kind} objects are not looked at")
    return found, (await client.list(Node)).items


def _machines(file: str | None) -> "list[InstanceType]":
    if file is None:
        return []
    import msgspec

    from tonnage.errors import ProviderError
    from tonnage.providers.aws.machines import machine_of

    with system_errors(file), click.open_file(file, "rb") as stream:
        data = stream.read()
    try:
        answer = msgspec.json.decode(data, type=dict[str, Any])
        return [machine_of(one) for one in answer["InstanceTypes"]]
    except (msgspec.DecodeError, KeyError, TypeError, ProviderError) as error:
        raise InputError(
            f"{file}: expected the JSON of `aws ec2 describe-instance-types`: {error}"
        ) from None


def _migrated(
    documents: "Sequence[Mapping[str, Any]]",
    nodes: "Sequence[Node]",
    machines: "Sequence[InstanceType]",
    *,
    program: str | None,
) -> "Migration":
    from tonnage.migration import cluster_autoscaler, karpenter

    commands = list(cluster_autoscaler.commands(documents))
    pools = karpenter.pools_of(documents)
    if program == karpenter.PROGRAM or (program is None and not commands):
        commands = []
    elif program == cluster_autoscaler.PROGRAM:
        pools = []
    if commands and pools:
        raise InputError("there are both cluster-autoscaler and NodePools: say which with --from")
    if len(commands) > 1:
        names = ", ".join(one.source for one in commands)
        raise InputError(f"there are several: {names}: give one of them with -f")
    if commands:
        return cluster_autoscaler.migrate(commands[0], documents)
    if pools:
        return karpenter.migrate(pools, nodes, machines)
    raise InputError(
        "nothing to migrate: expected a workload that runs cluster-autoscaler, or NodePools of"
        " karpenter.sh"
    )


def _print(made: "Migration") -> None:
    rows = sorted(made.followed, key=lambda one: _ORDER.index(one.outcome))
    console.echo(f"{made.program} as {made.source}", bold=True)
    console.echo()
    console.print_table(
        ["SETTING", "VALUE", "OUTCOME", "HERE", "NOTE"],
        [
            [one.setting, one.value or "-", one.outcome, one.target or "-", one.note or "-"]
            for one in rows
        ],
        alarming=[number for number, one in enumerate(rows) if one.outcome == "not supported"],
    )
    counts = Counter(one.outcome for one in rows)
    console.echo()
    console.echo(
        f"{len(rows)} settings: "
        + ", ".join(f"{counts[outcome]} {outcome}" for outcome in _ORDER if counts[outcome])
        + f"; {len(made.node_groups)} node groups"
    )
    console.echo(f"tonnage run --dry-run --config=config.yaml {' '.join(made.arguments)}".rstrip())
    for text in made.warnings:
        console.warn(text)


def _write(made: "Migration", directory: str) -> None:
    from pathlib import Path

    from tonnage.migration import documents

    where = Path(directory)
    try:
        where.mkdir(parents=True, exist_ok=True)
        _dump(where / "config.yaml", [made.config])
        _dump(where / "values.yaml", [documents.chart_values(made)])
        if made.node_groups:
            _dump(where / "node-groups.yaml", list(made.node_groups))
    except OSError as error:
        raise InputError(f"{error.filename or where}: {error.strerror}") from error
    console.note(
        f"written to {directory}: {', '.join(sorted(one.name for one in where.iterdir()))}"
    )


def _dump(path: "Path", documents: list[dict[str, Any]]) -> None:
    import yaml

    path.write_text(yaml.safe_dump_all(documents, sort_keys=False, width=100))
