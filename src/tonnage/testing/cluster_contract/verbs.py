"""Binding, eviction, scale; kinds that definitions add; events."""

from contextlib import suppress
from typing import Any

import msgspec

from tonnage.cluster import errors
from tonnage.cluster.client import PatchStyle, Selection
from tonnage.cluster.records import Event, InvolvedObject
from tonnage.objects.meta import ObjectMeta
from tonnage.objects.pods import Pod
from tonnage.testing.cluster_contract.context import (
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


class VerbsContract(Contract):
    # Pods' own verbs.

    @staged
    async def test_a_bound_pod_has_its_node_and_says_that_it_is_scheduled(
        self, stage: ContractContext
    ) -> None:
        node = (await stage.node("n")).metadata.name
        await stage.client.bind(await stage.pod("one"), node)
        bound = await stage.client.get(Pod, "one", namespace=stage.namespace)
        assert bound.spec.node_name == node
        assert [(one.type, one.status) for one in bound.status.conditions] == [
            ("PodScheduled", "True")
        ]

    @staged
    async def test_a_pod_is_bound_once(self, stage: ContractContext) -> None:
        node = (await stage.node("n")).metadata.name
        pod = await stage.pod("one")
        await stage.client.bind(pod, node)
        await refused(stage.client.bind(pod, node), errors.Conflict)

    @staged
    async def test_binding_another_of_the_same_name_is_a_conflict(
        self, stage: ContractContext
    ) -> None:
        pod = await stage.pod("one")
        meta = msgspec.structs.replace(pod.metadata, uid="another")
        other = msgspec.structs.replace(pod, metadata=meta)
        await refused(stage.client.bind(other, "n"), errors.Conflict)

    @staged
    async def test_an_evicted_pod_is_deleted(self, stage: ContractContext) -> None:
        await stage.client.evict(await stage.ready_pod("one", labels={"app": "x"}))
        await refused(stage.client.get(Pod, "one", namespace=stage.namespace), errors.NotFound)

    @staged
    async def test_evicting_another_of_the_same_name_is_a_conflict(
        self, stage: ContractContext
    ) -> None:
        pod = await stage.ready_pod("one", labels={"app": "x"})
        meta = msgspec.structs.replace(pod.metadata, uid="another")
        other = msgspec.structs.replace(pod, metadata=meta)
        await refused(stage.client.evict(other), errors.Conflict)

    @staged
    async def test_a_budget_allows_as_many_evictions_as_it_says(
        self, stage: ContractContext
    ) -> None:
        labels = {"app": "db"}
        await stage.budget("guard", least=1, labels=labels)
        pods = [await stage.ready_pod(name, labels=labels) for name in ("a", "b")]

        async def counted() -> bool:
            found = await stage.client.get(BUDGETS, "guard", namespace=stage.namespace)
            return bool(found.status.get("disruptionsAllowed") == 1)

        await stage.eventually(counted)
        await stage.client.evict(pods[0])
        await refused(stage.client.evict(pods[1]), errors.TooManyRequests)
        assert await stage.client.get(Pod, "b", namespace=stage.namespace)

    @staged
    async def test_a_pod_that_does_not_run_yet_is_evicted_whatever_its_budget(
        self, stage: ContractContext
    ) -> None:
        await stage.budget("guard", least=1, labels={"app": "db"})
        await stage.client.evict(await stage.pod("pending", labels={"app": "db"}))
        await refused(stage.client.get(Pod, "pending", namespace=stage.namespace), errors.NotFound)

    # Other kinds.

    @staged
    async def test_replicas_are_scaled(self, stage: ContractContext) -> None:
        labels = {"app": "db"}
        container = {"name": "main", "image": "example"}
        spec = {
            "replicas": 0,
            "serviceName": "db",
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        }
        await stage.client.create(SETS, Anything(metadata=stage.named("db"), spec=spec))
        where: dict[str, Any] = {"namespace": stage.namespace}
        assert (await stage.client.scale(SETS, "db", 2, **where)).spec.replicas == 2
        assert (await stage.client.get_scale(SETS, "db", **where)).spec.replicas == 2
        assert (await stage.client.get(SETS, "db", **where)).spec["replicas"] == 2

    @staged
    async def test_a_definition_serves_its_kind_until_it_is_deleted(
        self, stage: ContractContext
    ) -> None:
        group = f"{stage.namespace}.example.com"
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
        await stage.global_object(DEFINITIONS, Anything(metadata=meta, spec=spec))
        widgets = resource(f"{group}/v1", "Widget", "widgets")
        where: dict[str, Any] = {"namespace": stage.namespace}

        async def served() -> bool:
            with suppress(errors.NotFound):
                await stage.client.list(widgets, stage.here)
                return True
            return False

        await stage.eventually(served)
        widget = Anything(metadata=stage.named("one"), spec={"size": 1}, status={"size": 1})
        made = await stage.client.create(widgets, widget)
        assert (made.metadata.generation, made.spec, made.status) == (1, {"size": 1}, {})
        grown = await stage.client.patch(widgets, "one", {"spec": {"size": 2}}, **where)
        assert grown.metadata.generation == 2
        strategic = stage.client.patch(
            widgets, "one", {"spec": {"size": 3}}, style=PatchStyle.STRATEGIC, **where
        )
        assert (await refused(strategic, errors.Invalid)).status == 415
        await stage.client.delete(DEFINITIONS, meta.name)

        async def withdrawn() -> bool:
            return not await served()

        await stage.eventually(withdrawn)

    @staged
    async def test_events_are_found_by_what_they_are_about(self, stage: ContractContext) -> None:
        for name in ("a", "b"):
            about = InvolvedObject(kind="Pod", name=name, namespace=stage.namespace)
            event = Event(
                metadata=stage.named(f"{name}.1"), involved_object=about, reason="Seen",
                type="Normal", message=f"it is {name}",
            )  # fmt: skip
            await stage.client.create(Event, event)
        chosen = Selection(namespace=stage.namespace, fields="involvedObject.name=b")
        found = await stage.client.list(Event, chosen)
        assert [one.message for one in found.items] == ["it is b"]
