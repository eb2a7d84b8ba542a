"""What the cases of the contract are played on: a namespace, and words for what happens in it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import wraps
from typing import Any, TypeVar

from tonnage.clock import Clock
from tonnage.cluster import errors
from tonnage.cluster.client import Client, Listing, Selection
from tonnage.cluster.records import ConfigMap
from tonnage.cluster.resources import Resource
from tonnage.objects.meta import ObjectMeta, OwnerReference, Record
from tonnage.objects.nodes import Namespace
from tonnage.objects.pods import Pod

FINALIZER = "contract.example.com/held"


class Anything(Record, frozen=True, kw_only=True):
    """An object with all its fields, those included that we never read."""

    metadata: ObjectMeta = ObjectMeta()
    spec: dict[str, Any] = {}
    status: dict[str, Any] = {}


def resource(api_version: str, kind: str, plural: str, *, namespaced: bool = True) -> Any:
    group, _, version = api_version.rpartition("/")
    return Resource(
        Anything, kind=kind, group=group, version=version, plural=plural, namespaced=namespaced
    )


PODS: Resource[Anything] = resource("v1", "Pod", "pods")
NODES: Resource[Anything] = resource("v1", "Node", "nodes", namespaced=False)
BUDGETS: Resource[Anything] = resource("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets")
SETS: Resource[Anything] = resource("apps/v1", "StatefulSet", "statefulsets")
DEFINITIONS: Resource[Anything] = resource(
    "apiextensions.k8s.io/v1",
    "CustomResourceDefinition",
    "customresourcedefinitions",
    namespaced=False,
)


class ContractContext:
    """A namespace of one's own, and words for what a test does in it."""

    def __init__(self, client: Client, clock: Clock, namespace: str) -> None:
        self.client = client
        self.clock = clock
        self.namespace = namespace
        self.here = Selection(namespace=namespace)
        self.made: list[tuple[Any, str]] = []
        """What has no namespace and is to be removed at the end."""

    def named(self, name: str, **meta: Any) -> ObjectMeta:
        return ObjectMeta(name=name, namespace=self.namespace, **meta)

    async def config_map(
        self, name: str, *, data: dict[str, str] | None = None, **meta: Any
    ) -> Any:
        made = ConfigMap(metadata=self.named(name, **meta), data=data or {})
        return await self.client.create(ConfigMap, made)

    async def get(self, name: str) -> ConfigMap:
        return await self.client.get(ConfigMap, name, namespace=self.namespace)

    async def patch(self, name: str, change: object, **how: Any) -> ConfigMap:
        return await self.client.patch(ConfigMap, name, change, namespace=self.namespace, **how)

    async def delete(self, name: str, **how: Any) -> None:
        await self.client.delete(ConfigMap, name, namespace=self.namespace, **how)

    async def global_object(self, kind: Any, obj: Any) -> Any:
        made = await self.client.create(kind, obj)
        self.made.append((kind, made.metadata.name))
        return made

    async def node(self, name: str) -> Anything:
        """A node named after the namespace, so that tests do not meet."""
        obj = Anything(metadata=ObjectMeta(name=f"{self.namespace}-{name}"))
        made: Anything = await self.global_object(NODES, obj)
        return made

    async def pod(self, name: str, *, labels: dict[str, str] | None = None, **spec: Any) -> Pod:
        """A pod that no scheduler looks after."""
        wanted = {
            "schedulerName": "nobody",
            "containers": [{"name": "main", "image": "example"}],
            **spec,
        }
        obj = Anything(metadata=self.named(name, labels=labels or {}), spec=wanted)

        async def created() -> bool:
            # A new namespace takes no pods until its service account is there.
            with suppress(errors.Forbidden):
                await self.client.create(PODS, obj)
                return True
            return False

        await self.eventually(created)
        return await self.client.get(Pod, name, namespace=self.namespace)

    async def ready_pod(self, name: str, *, labels: dict[str, str]) -> Pod:
        await self.pod(name, labels=labels)
        ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        return await self.client.patch(
            Pod, name, {"status": ready}, namespace=self.namespace, subresource="status"
        )

    async def budget(self, name: str, *, least: int, labels: dict[str, str]) -> None:
        spec = {"minAvailable": least, "selector": {"matchLabels": labels}}
        await self.client.create(BUDGETS, Anything(metadata=self.named(name), spec=spec))

    async def eventually(
        self, condition: Callable[[], Awaitable[bool]], *, within: float = 150.0
    ) -> None:
        """Let time pass until something is so."""
        deadline = self.clock.monotonic() + within
        while not await condition():
            assert self.clock.monotonic() < deadline, "it never came to be so"
            await self.clock.sleep(0.1)

    async def eventually_gone(self, kind: Any, name: str, *, namespace: str = "") -> None:
        async def gone() -> bool:
            with suppress(errors.NotFound):
                await self.client.get(kind, name, namespace=namespace)
                return False
            return True

        await self.eventually(gone)

    async def names(self, **selection: str) -> list[str]:
        """The config maps of this test that a selection holds, in the order of the list."""
        listing = await self.client.list(
            ConfigMap, Selection(namespace=self.namespace, **selection)
        )
        return [one for one in names_of(listing) if one != _SERVERS_OWN]


_SERVERS_OWN = "kube-root-ca.crt"
"""A config map that controllers put into every namespace."""

C = TypeVar("C", bound="Contract")


def staged(
    test: Callable[[C, ContractContext], Coroutine[Any, Any, None]],
) -> Callable[[C], None]:
    @wraps(test)
    def run(self: C) -> None:
        async def main() -> None:
            async with self.connected() as (client, clock), _context(client, clock) as context:
                await test(self, context)

        self.run(main)

    # Or pytest takes the stage for a fixture.
    del run.__dict__["__wrapped__"]
    return run


@asynccontextmanager
async def _context(client: Client, clock: Clock) -> AsyncIterator[ContractContext]:
    meta = ObjectMeta(generate_name="contract-")
    namespace = (await client.create(Namespace, Namespace(metadata=meta))).metadata.name
    context = ContractContext(client, clock, namespace)
    try:
        yield context
    finally:
        for kind, name in (*context.made, (Namespace, namespace)):
            with suppress(errors.NotFound, errors.Conflict):
                await client.delete(kind, name)


class Contract:
    """What the cases need of an API."""

    def connected(self) -> AbstractAsyncContextManager[tuple[Client, Clock]]:
        """A client of a server that is there, and the time they both live in."""
        raise NotImplementedError

    def run(self, main: Callable[[], Coroutine[Any, Any, None]]) -> None:
        asyncio.run(main())

    async def forget(self, context: ContractContext) -> None:
        """Make the server forget what happened to config maps up to now."""
        raise NotImplementedError


R = TypeVar("R", bound=errors.ApiError)


async def refused(request: Awaitable[object], kind: type[R]) -> R:
    try:
        await request
    except kind as error:
        return error
    raise AssertionError(f"expected {kind.__name__}")


def names_of(listing: Listing[Any]) -> list[str]:
    return [one.metadata.name for one in listing.items]


def owned_by(obj: ConfigMap) -> OwnerReference:
    meta = obj.metadata
    return OwnerReference(api_version="v1", kind="ConfigMap", name=meta.name, uid=meta.uid)
