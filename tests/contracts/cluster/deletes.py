"""How objects go, and what goes with them."""

from typing import Any

from tests.contracts.cluster.context import (
    FINALIZER,
    Contract,
    ContractContext,
    owned_by,
    refused,
    staged,
)
from tonnage.cluster import errors
from tonnage.cluster.records import ConfigMap
from tonnage.objects.meta import ObjectMeta
from tonnage.objects.nodes import Namespace
from tonnage.objects.pods import Pod


class DeleteContract(Contract):
    @staged
    async def test_a_finalizer_holds_an_object_until_it_is_removed(
        self, context: ContractContext
    ) -> None:
        await context.config_map("held", finalizers=(FINALIZER,))
        await context.delete("held")
        assert (await context.get("held")).metadata.deletion_timestamp is not None
        await context.patch("held", {"metadata": {"finalizers": None}})
        await refused(context.get("held"), errors.NotFound)

    @staged
    async def test_nothing_new_holds_what_is_being_deleted(self, context: ContractContext) -> None:
        await context.config_map("held", finalizers=(FINALIZER,))
        await context.delete("held")
        more = {"metadata": {"finalizers": [FINALIZER, f"{FINALIZER}-too"]}}
        error = await refused(context.patch("held", more), errors.Invalid)
        assert error.status == 422
        await context.patch("held", {"metadata": {"finalizers": None}})

    @staged
    async def test_a_pod_without_a_node_goes_at_once(self, context: ContractContext) -> None:
        await context.pod("waits")
        await context.client.delete(Pod, "waits", namespace=context.namespace)
        await refused(
            context.client.get(Pod, "waits", namespace=context.namespace), errors.NotFound
        )

    @staged
    async def test_a_pod_on_a_node_stays_until_its_kubelet_lets_it_go(
        self, context: ContractContext
    ) -> None:
        node = (await context.node("n")).metadata.name
        await context.pod("runs", nodeName=node, tolerations=[{"operator": "Exists"}])
        where: dict[str, Any] = {"namespace": context.namespace}
        await context.client.delete(Pod, "runs", **where)
        going = await context.client.get(Pod, "runs", **where)
        assert going.metadata.deletion_timestamp is not None
        await context.client.delete(Pod, "runs", grace_period=0, **where)
        await refused(context.client.get(Pod, "runs", **where), errors.NotFound)

    @staged
    async def test_what_is_owned_goes_with_its_owner(self, context: ContractContext) -> None:
        owner = await context.config_map("owner")
        await context.config_map("owned", owner_references=(owned_by(owner),))
        await context.delete("owner")
        await context.eventually_gone(ConfigMap, "owned", namespace=context.namespace)

    @staged
    async def test_what_has_another_owner_stays(self, context: ContractContext) -> None:
        first, second = await context.config_map("first"), await context.config_map("second")
        both = (owned_by(first), owned_by(second))
        await context.config_map("owned", owner_references=both)
        await context.delete("first")

        async def released() -> bool:
            owners = (await context.get("owned")).metadata.owner_references
            return [owner.name for owner in owners] == ["second"]

        await context.eventually(released)

    @staged
    async def test_what_is_made_for_an_owner_that_is_gone_goes_too(
        self, context: ContractContext
    ) -> None:
        owner = await context.config_map("owner")
        await context.delete("owner")
        await context.config_map("late", owner_references=(owned_by(owner),))
        await context.eventually_gone(ConfigMap, "late", namespace=context.namespace)

    @staged
    async def test_a_namespace_takes_along_what_is_in_it(self, context: ContractContext) -> None:
        meta = ObjectMeta(generate_name="contract-inner-")
        inner = (await context.client.create(Namespace, Namespace(metadata=meta))).metadata.name
        held = ContractContext(context.client, context.clock, inner)
        await held.config_map("held", finalizers=(FINALIZER,))
        await context.client.delete(Namespace, inner)
        await refused(held.config_map("late"), errors.Forbidden)

        async def going() -> bool:
            return (await held.get("held")).metadata.deletion_timestamp is not None

        await context.eventually(going)
        await held.patch("held", {"metadata": {"finalizers": None}})
        await context.eventually_gone(Namespace, inner)
