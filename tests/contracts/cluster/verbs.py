"""Binding, eviction, scale; kinds that definitions add; events."""

from contextlib import suppress
from typing import Any

import msgspec

from tests.contracts.cluster.context import (
    BUDGETS,
    DEFINITIONS,
    SETS,
    Anything,
    Contract,
    ContractContext,
    refused,
    resource,
    staged,
)
from tonnage.cluster import errors
from tonnage.cluster.client import PatchStyle, Selection
from tonnage.cluster.records import Event, InvolvedObject
from tonnage.objects.meta import ObjectMeta
from tonnage.objects.pods import Pod


class VerbsContract(Contract):
    # Pods' own verbs.

    @staged
    async def test_a_bound_pod_has_its_node_and_says_that_it_is_scheduled(
        self, context: ContractContext
    ) -> None:
        node = (await context.node("n")).metadata.name
        await context.client.bind(await context.pod("one"), node)
        bound = await context.client.get(Pod, "one", namespace=context.namespace)
        assert bound.spec.node_name == node
        assert [(condition.type, condition.status) for condition in bound.status.conditions] == [
            ("PodScheduled", "True")
        ]

    @staged
    async def test_a_pod_is_bound_once(self, context: ContractContext) -> None:
        node = (await context.node("n")).metadata.name
        pod = await context.pod("one")
        await context.client.bind(pod, node)
        await refused(context.client.bind(pod, node), errors.Conflict)

    @staged
    async def test_binding_another_of_the_same_name_is_a_conflict(
        self, context: ContractContext
    ) -> None:
        pod = await context.pod("one")
        meta = msgspec.structs.replace(pod.metadata, uid="another")
        other = msgspec.structs.replace(pod, metadata=meta)
        await refused(context.client.bind(other, "n"), errors.Conflict)

    @staged
    async def test_an_evicted_pod_is_deleted(self, context: ContractContext) -> None:
        await context.client.evict(await context.ready_pod("one", labels={"app": "x"}))
        await refused(context.client.get(Pod, "one", namespace=context.namespace), errors.NotFound)

    @staged
    async def test_evicting_another_of_the_same_name_is_a_conflict(
        self, context: ContractContext
    ) -> None:
        pod = await context.ready_pod("one", labels={"app": "x"})
        meta = msgspec.structs.replace(pod.metadata, uid="another")
        other = msgspec.structs.replace(pod, metadata=meta)
        await refused(context.client.evict(other), errors.Conflict)

    @staged
    async def test_a_budget_allows_as_many_evictions_as_it_says(
        self, context: ContractContext
    ) -> None:
        labels = {"app": "db"}
        await context.budget("guard", least=1, labels=labels)
        pods = [await context.ready_pod(name, labels=labels) for name in ("a", "b")]

        async def counted() -> bool:
            found = await context.client.get(BUDGETS, "guard", namespace=context.namespace)
            return bool(found.status.get("disruptionsAllowed") == 1)

        await context.eventually(counted)
        await context.client.evict(pods[0])
        await refused(context.client.evict(pods[1]), errors.TooManyRequests)
        assert await context.client.get(Pod, "b", namespace=context.namespace)

    @staged
    async def test_a_pod_that_does_not_run_yet_is_evicted_whatever_its_budget(
        self, context: ContractContext
    ) -> None:
        await context.budget("guard", least=1, labels={"app": "db"})
        await context.client.evict(await context.pod("pending", labels={"app": "db"}))
        await refused(
            context.client.get(Pod, "pending", namespace=context.namespace), errors.NotFound
        )

    # Other kinds.

    @staged
    async def test_replicas_are_scaled(self, context: ContractContext) -> None:
        labels = {"app": "db"}
        container = {"name": "main", "image": "example"}
        spec = {
            "replicas": 0,
            "serviceName": "db",
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        }
        await context.client.create(SETS, Anything(metadata=context.named("db"), spec=spec))
        where: dict[str, Any] = {"namespace": context.namespace}
        assert (await context.client.scale(SETS, "db", 2, **where)).spec.replicas == 2
        assert (await context.client.get_scale(SETS, "db", **where)).spec.replicas == 2
        assert (await context.client.get(SETS, "db", **where)).spec["replicas"] == 2

    @staged
    async def test_a_definition_serves_its_kind_until_it_is_deleted(
        self, context: ContractContext
    ) -> None:
        group = f"{context.namespace}.example.com"
        schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        version = {
            "name": "v1",
            "served": True,
            "storage": True,
            "schema": {"openAPIV3Schema": schema},
            "subresources": {"status": {}},
        }
        spec = {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
            "versions": [version],
        }
        meta = ObjectMeta(name=f"widgets.{group}")
        await context.global_object(DEFINITIONS, Anything(metadata=meta, spec=spec))
        widgets = resource(f"{group}/v1", "Widget", "widgets")
        where: dict[str, Any] = {"namespace": context.namespace}

        async def served() -> bool:
            with suppress(errors.NotFound):
                await context.client.list(widgets, context.here)
                return True
            return False

        await context.eventually(served)
        widget = Anything(metadata=context.named("one"), spec={"size": 1}, status={"size": 1})
        made = await context.client.create(widgets, widget)
        assert (made.metadata.generation, made.spec, made.status) == (1, {"size": 1}, {})
        grown = await context.client.patch(widgets, "one", {"spec": {"size": 2}}, **where)
        assert grown.metadata.generation == 2
        strategic = context.client.patch(
            widgets, "one", {"spec": {"size": 3}}, style=PatchStyle.STRATEGIC, **where
        )
        assert (await refused(strategic, errors.Invalid)).status == 415
        await context.client.delete(DEFINITIONS, meta.name)

        async def withdrawn() -> bool:
            return not await served()

        await context.eventually(withdrawn)

    @staged
    async def test_events_are_found_by_what_they_are_about(self, context: ContractContext) -> None:
        for name in ("a", "b"):
            about = InvolvedObject(kind="Pod", name=name, namespace=context.namespace)
            event = Event(
                metadata=context.named(f"{name}.1"), involved_object=about, reason="Seen",
                type="Normal", message=f"it is {name}",
            )  # fmt: skip
            await context.client.create(Event, event)
        chosen = Selection(namespace=context.namespace, fields="involvedObject.name=b")
        found = await context.client.list(Event, chosen)
        assert [one.message for one in found.items] == ["it is b"]
