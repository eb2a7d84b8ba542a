"""Which provider `tonnage run` was told to use: flags are checked here, before anything is started.

One function per provider; each imports what it needs only when it is the chosen one.
"""

import os
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from tonnage.cli import console
from tonnage.errors import InputError

if TYPE_CHECKING:
    import random
    from contextlib import AsyncExitStack

    from tonnage.autoscaler.world import ClusterView
    from tonnage.clock import Clock
    from tonnage.cluster.client import Client
    from tonnage.cluster.config import Access
    from tonnage.providers.declarations import Declarations
    from tonnage.providers.protocol import Provider

NONE = "none"
KWOK = "kwok"
DECLARATIVE = "declarative"
EXTERNAL_GRPC = "externalgrpc"
AWS = "aws"
CLUSTER_API = "clusterapi"


class ProviderOptions(NamedTuple):
    """What the flags say about node groups and who makes them.

    `manages_itself`: the management cluster of Cluster API is the one we run in.
    """

    provider: str
    files: tuple[str, ...] = ()
    config_map: str | None = None
    sizes: dict[str, tuple[int, int]] = {}
    cloud_config: str | None = None
    discovery: tuple[str, ...] = ()
    manages_itself: bool = False


class Surroundings(NamedTuple):
    """What a provider lives in; what it holds open is closed by `closing`."""

    client: "Client"
    world: "ClusterView"
    clock: "Clock"
    rng: "random.Random"
    namespace: str
    dry_run: bool
    closing: "AsyncExitStack"


Maker: TypeAlias = "Callable[[Surroundings], Provider]"
_Source: TypeAlias = "Callable[[], Awaitable[Declarations]]"


def chosen(wanted: ProviderOptions, *, dry_run: bool) -> Maker:
    """How to make the provider, once there is a cluster to make it for."""
    return NAMES[wanted.provider](wanted, dry_run)


def _none(wanted: ProviderOptions, _: bool) -> Maker:
    if wanted.files or wanted.config_map or wanted.sizes:
        names = ", ".join(name for name in NAMES if name != NONE)
        raise InputError(f"who makes nodes of these groups? Give --provider: one of {names}")

    def make(_: Surroundings) -> "Provider":
        from tonnage.providers.declarative import DeclarativeProvider

        return DeclarativeProvider(())

    return make


def _kwok(wanted: ProviderOptions, _: bool) -> Maker:
    groups = _declared(wanted)

    def make(around: Surroundings) -> "Provider":
        from tonnage.autoscaler.declared_groups import DeclaredGroups
        from tonnage.providers.kwok import KwokProvider
        from tonnage.providers.kwok_objects import GROUP_LABEL

        source = groups(around)
        if around.dry_run:
            # Looking is not innocent with kwok: it makes nodes that were asked for and are missing.
            return DeclaredGroups(source, around.world, label=GROUP_LABEL)
        return KwokProvider(
            around.client, around.clock, source, namespace=around.namespace, rng=around.rng
        )

    return make


def _declarative(wanted: ProviderOptions, dry_run: bool) -> Maker:
    if not dry_run:
        raise InputError("--provider declarative makes no nodes: it is for --dry-run")
    groups = _declared(wanted)

    def make(around: Surroundings) -> "Provider":
        from tonnage.autoscaler.declared_groups import DeclaredGroups

        return DeclaredGroups(groups(around), around.world)

    return make


def _external_grpc(wanted: ProviderOptions, _: bool) -> Maker:
    from tonnage.providers import external_grpc_config

    if wanted.cloud_config is None:
        raise InputError("--provider externalgrpc needs --cloud-config FILE with its address")
    config = external_grpc_config.read(wanted.cloud_config)
    config.secrets()

    def make(around: Surroundings) -> "Provider":
        from tonnage.objects.nodes import Node
        from tonnage.providers.external_grpc import ExternalGrpcProvider

        nodes = around.world.cache(Node)
        return ExternalGrpcProvider(config, nodes=lambda: nodes, clock=around.clock)

    return make


def _aws(wanted: ProviderOptions, _: bool) -> Maker:
    from tonnage.providers.aws import config, discovery

    settings = config.read(wanted.cloud_config) if wanted.cloud_config else config.AwsConfig()
    for wrong in settings.unpriced.values():
        console.warn(wrong)
    groups = discovery.parse(wanted.discovery, wanted.sizes)

    def make(around: Surroundings) -> "Provider":
        from tonnage.objects.nodes import Node
        from tonnage.providers.aws.calls import Calls
        from tonnage.providers.aws.provider import AwsProvider

        nodes = around.world.cache(Node)
        calls = Calls(region=settings.region, endpoint_url=settings.endpoint_url)
        return AwsProvider(calls, groups, config=settings, nodes=lambda: nodes, clock=around.clock)

    return make


def _cluster_api(wanted: ProviderOptions, _: bool) -> Maker:
    from pathlib import Path

    from tonnage.cluster import config
    from tonnage.providers import clusterapi
    from tonnage.providers.clusterapi import discovery

    if wanted.sizes or wanted.files or wanted.config_map:
        raise InputError(
            "--provider clusterapi: sizes are annotations of MachineDeployments, MachineSets and"
            " MachinePools; leave out --nodes, --node-groups and --node-groups-configmap"
        )
    found_by = discovery.parse(wanted.discovery)
    settings = clusterapi.settings_from(os.environ)
    management: Access | None = None
    if wanted.cloud_config:
        management = config.from_files([Path(wanted.cloud_config)])
    elif wanted.manages_itself:
        management = config.in_cluster(environ=os.environ)

    def make(around: Surroundings) -> "Provider":
        from tonnage.objects.nodes import Node

        nodes = around.world.cache(Node)
        provider = clusterapi.ClusterApiProvider(
            around.client if management is None else _client_of(management, around),
            nodes=lambda: nodes,
            clock=around.clock,
            rng=around.rng,
            found_by=found_by,
            settings=settings,
        )
        around.closing.push_async_callback(provider.close)
        return provider

    return make


def _client_of(access: "Access", around: Surroundings) -> "Client":
    """A client of another cluster than the one that is scaled."""
    from tonnage.cluster.client import Client
    from tonnage.cluster.http import HttpTransport
    from tonnage.service.connections import ReadOnlyTransport

    transport = HttpTransport(access, clock=around.clock, environ=os.environ)
    around.closing.push_async_callback(transport.close)
    way = ReadOnlyTransport(transport) if around.dry_run else transport
    return Client(way, clock=around.clock, rng=around.rng)


def _declared(wanted: ProviderOptions) -> "Callable[[Surroundings], _Source]":
    """Node groups from files, read now, or from a ConfigMap, read again and again."""
    from tonnage.autoscaler import declared_groups

    if bool(wanted.files) == bool(wanted.config_map):
        raise InputError("expected node groups: either --node-groups or --node-groups-configmap")
    read = _from_files(wanted.files, wanted.sizes) if wanted.files else None

    def source(around: Surroundings) -> _Source:
        from tonnage.providers.kwok_groups import StoredGroups

        async def from_files() -> "Declarations":
            assert read is not None
            return read

        if wanted.config_map is None:
            return from_files
        stored = StoredGroups(around.client, wanted.config_map, namespace=around.namespace)

        async def from_config_map() -> "Declarations":
            return declared_groups.resized(await stored(), wanted.sizes)

        return from_config_map

    return source


def _from_files(files: tuple[str, ...], sizes: dict[str, tuple[int, int]]) -> "Declarations":
    """Files are read once, so that every mistake in them is the end before anything begins."""
    from tonnage.autoscaler import declared_groups
    from tonnage.cli import cluster_source
    from tonnage.objects.scenarios import NodeGroup
    from tonnage.providers.declarations import Declarations

    loaded = cluster_source.read(files, lenient=False)
    groups = [obj for obj in loaded.objects if isinstance(obj, NodeGroup)]
    if not groups:
        raise InputError(f"{', '.join(files)}: there is no NodeGroup in it")
    told = declared_groups.resized(Declarations(tuple(groups)), sizes)
    if told.problems:
        raise InputError("; ".join(told.problems))
    return told


NAMES: dict[str, Callable[[ProviderOptions, bool], Maker]] = {
    NONE: _none,
    KWOK: _kwok,
    DECLARATIVE: _declarative,
    EXTERNAL_GRPC: _external_grpc,
    AWS: _aws,
    CLUSTER_API: _cluster_api,
}

MAKES_MACHINES = tuple(sorted(NAMES.keys() - {NONE, KWOK, DECLARATIVE}))
"""Providers whose groups are found, not written down."""
