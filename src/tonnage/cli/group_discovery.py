"""Node groups that nobody wrote down: from live nodes, a provider, or Karpenter's NodePools."""

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import click

from tonnage.cli import cluster_access, console, run_providers
from tonnage.cli.cluster_access import ClusterChoice
from tonnage.errors import InputError
from tonnage.objects.phrases import counted, listed

if TYPE_CHECKING:
    from tonnage.autoscaler.world import ClusterView
    from tonnage.cluster.client import Client
    from tonnage.files import Loaded
    from tonnage.objects.kinds import KubeObject
    from tonnage.objects.nodes import Node
    from tonnage.objects.scenarios import NodeGroup
    from tonnage.providers.protocol import Provider

NODES = "nodes"
KARPENTER = "karpenter"
AWS_TAG = "asg:tag=k8s.io/cluster-autoscaler/enabled"
"""What managed node groups of EKS carry, and self-made ones for cluster-autoscaler."""


class GroupSource(NamedTuple):
    """Where to look for groups, and how to reach it."""

    source: str = ""
    cloud_config: str | None = None
    discovery: tuple[str, ...] = ()
    label: str = ""


class DiscoveredGroup(NamedTuple):
    group: "NodeGroup"
    nodes: int
    by: str
    remarks: tuple[str, ...] = ()


class Discovered(NamedTuple):
    """The groups, and nodes that belong to none."""

    groups: list[DiscoveredGroup]
    others: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def options(command: Callable[..., None]) -> Callable[..., None]:
    """`--provider` and what providers have to know, as `wanted`."""

    @click.option(
        "--provider",
        type=click.Choice([NODES, *run_providers.MAKES_MACHINES, KARPENTER]),
        help="Ask a provider for its node groups (nodes: by labels), or Karpenter for NodePools.",
    )
    @click.option(
        "--cloud-config",
        metavar="FILE",
        help="The settings of the provider, as for run.",
    )
    @click.option(
        "--node-group-auto-discovery",
        "discovery",
        metavar="PROVIDER:KEY=VALUE,...",
        multiple=True,
        help=f"Which groups of the provider; repeatable.  [default for aws: {AWS_TAG}]",
    )
    @click.option(
        "--group-label",
        "label",
        metavar="KEY",
        default="",
        help="Your own label that names the group of a node; overrides those of platforms.",
    )
    @functools.wraps(command)
    def taking(
        *arguments: Any,
        provider: str | None,
        cloud_config: str | None,
        discovery: tuple[str, ...],
        label: str,
        **others: Any,
    ) -> None:
        wanted = GroupSource(provider or "", cloud_config, discovery, label)
        command(*arguments, wanted=wanted, **others)

    return taking


def discover(
    objects: "Iterable[KubeObject]",
    wanted: GroupSource,
    *,
    filenames: tuple[str, ...],
    live: ClusterChoice,
) -> Discovered:
    """The node groups of a cluster; an error if there are none."""
    from tonnage.objects.nodes import Node

    nodes = [one for one in objects if isinstance(one, Node)]
    if wanted.source in ("", NODES):
        found = _of_nodes(nodes, wanted.label)
    elif wanted.source == KARPENTER:
        found = _of_pools(nodes, filenames, live)
    else:
        found = _of_provider(nodes, wanted, live)
    if not found.groups:
        raise InputError(
            f"no node group found by {wanted.source or NODES}: {counted(len(nodes), 'node')} read"
            + (_advice(nodes) if not wanted.source else "")
        )
    return found


def _advice(nodes: "Sequence[Node]") -> str:
    """What to add to the command line."""
    from tonnage.groups import node_labels

    labels = node_labels.candidates(nodes)
    ways = [f"--group-label {label}" for label in labels] or [
        "--group-label KEY, with a label that names the pool of a node"
    ]
    return f"; add {listed(ways)}, or --provider, which asks a cloud or NodePools"


def warn_of(found: Discovered) -> None:
    for text in found.warnings:
        console.warn(text)
    if found.others:
        console.note(f"in no group, because no label says of one: {listed(found.others)}")


def with_discovered(
    loaded: "Loaded", wanted: GroupSource, *, filenames: tuple[str, ...], live: ClusterChoice
) -> "Loaded":
    """The cluster with the groups that are discovered; those that were written down stay.

    By labels, groups are looked for among the nodes that no written group has.
    """
    import msgspec

    from tonnage.groups import node_group_objects
    from tonnage.objects.nodes import Node
    from tonnage.objects.scenarios import NodeGroup

    groups = [one for one in loaded.objects if isinstance(one, NodeGroup)]
    nodes = [one for one in loaded.objects if isinstance(one, Node)]
    if groups and not wanted.source:
        members = node_group_objects.from_objects(groups, nodes)
        taken = {name for group in members for name in group.nodes}
        nodes = [one for one in nodes if one.metadata.name not in taken]
        if not nodes:
            console.note("NodeGroups of the input have all nodes: none is left to discover groups")
            return loaded
    found = discover(nodes, wanted, filenames=filenames, live=live)
    warn_of(found)
    written = {one.metadata.name for one in groups}
    new = [one for one in found.groups if one.group.metadata.name not in written]
    if new and not any(one.group.spec.template for one in new):
        console.note(
            f"{len(new)} node groups by labels of nodes; their maxSize is a guess: tonnage groups"
            " discover > groups.yaml, correct it, and give --node-groups groups.yaml"
        )
    objects = [*loaded.objects, *(one.group for one in new)]
    return msgspec.structs.replace(loaded, objects=objects)


def _of_nodes(nodes: "Sequence[Node]", label: str) -> Discovered:
    from tonnage.groups import node_group_objects, node_labels

    recognised = node_labels.recognise(nodes, label=label)
    members = node_group_objects.from_objects([one.group for one in recognised.groups], nodes)
    sizes = {group.id: len(group.nodes) for group in members}
    return Discovered(
        [
            DiscoveredGroup(one.group, sizes[one.group.metadata.name], one.by, one.remarks)
            for one in recognised.groups
        ],
        recognised.others,
    )


def _of_pools(
    nodes: "Sequence[Node]", filenames: tuple[str, ...], live: ClusterChoice
) -> Discovered:
    from tonnage.files.plain import load_plain
    from tonnage.migration import karpenter
    from tonnage.objects import codec, kinds
    from tonnage.objects.scenarios import API_VERSION, NodeGroup

    documents = load_plain(filenames) if filenames else cluster_access.talk(_listed_pools, live)
    pools = karpenter.pools_of(documents)
    if not pools:
        raise InputError("--provider karpenter: there is no NodePool of karpenter.sh")
    made = karpenter.migrate(pools, nodes)
    row = kinds.by_kind(API_VERSION, "NodeGroup")
    assert row is not None
    found = []
    for document in made.node_groups:
        group = codec.convert(document, row)
        assert isinstance(group, NodeGroup)
        found.append(DiscoveredGroup(group, len(group.spec.nodes), f"Karpenter: {made.source}"))
    return Discovered(found, warnings=made.warnings)


async def _listed_pools(client: "Client") -> list[dict[str, Any]]:
    from tonnage.cli import live
    from tonnage.cluster import errors

    pools = live.document_kind("NodePool", "nodepools", group="karpenter.sh", namespaced=False)
    try:
        listed = await client.list(pools)
    except errors.NotFound:
        return []
    return [{**one.written, "apiVersion": pools.api_version} for one in listed.items]


def _of_provider(nodes: "Sequence[Node]", wanted: GroupSource, live: ClusterChoice) -> Discovered:
    discovery = wanted.discovery
    if wanted.source == "aws" and not discovery:
        discovery = (AWS_TAG,)
    make = run_providers.chosen(
        run_providers.ProviderOptions(
            provider=wanted.source, cloud_config=wanted.cloud_config, discovery=discovery
        ),
        dry_run=True,
    )

    async def ask(client: "Client") -> Discovered:
        import random
        from contextlib import AsyncExitStack

        from tonnage.clock import SystemClock

        async with AsyncExitStack() as closing:
            provider = make(
                run_providers.Surroundings(
                    client=client,
                    world=cast("ClusterView", _World(nodes)),
                    clock=SystemClock(),
                    rng=random.Random(),
                    namespace="kube-system",
                    dry_run=True,
                    closing=closing,
                )
            )
            return await _asked(provider, wanted.source)

    return cluster_access.talk(ask, live, read_only=True)


async def _asked(provider: "Provider", name: str) -> Discovered:
    from tonnage.objects.meta import ObjectMeta
    from tonnage.objects.scenarios import NodeGroup, NodeGroupSpec

    await provider.refresh()
    found = []
    for group in await provider.groups():
        price = await provider.price(group.id)
        spec = NodeGroupSpec(
            min_size=group.min_size,
            max_size=group.max_size,
            target_size=group.target,
            nodes=group.nodes,
            limits=dict(group.limits),
            price_per_hour=None if price is None else f"{price:g}",
            template=await provider.template(group.id),
        )
        made = NodeGroup(metadata=ObjectMeta(name=group.id), spec=spec)
        found.append(DiscoveredGroup(made, len(group.nodes), f"provider {name}", group.problems))
    return Discovered(found, warnings=tuple(await provider.problems()))


class _World:
    """What providers ask of the live cluster: its nodes."""

    def __init__(self, nodes: "Sequence[Node]") -> None:
        self._nodes = nodes

    def cache(self, _: type) -> "Sequence[Node]":
        return self._nodes
