"""How objects go, and what goes with them."""

from typing import Any

from tonnage.cluster import errors
from tonnage.cluster.records import ConfigMap
from tonnage.objects.meta import ObjectMeta
from tonnage.objects.nodes import Namespace
from tonnage.objects.pods import Pod
from tonnage.testing.cluster_contract.context import (
    FINALIZER,
    Contract,
    ContractContext,
    owned_by,
    refused,
    staged,
)


class DeleteContract(Contract):
    @staged
    async def test_a_finalizer_holds_an_object_until_it_is_removed(
        self, stage: ContractContext
    ) -> None:
        await stage.config_map("held", finalizers=(FINALIZER,))
        await stage.delete("held")
        assert (await stage.get("held")).metadata.deletion_timestamp is not None
        await stage.patch("held", {"metadata": {"finalizers": None}})
        await refused(stage.get("held"), errors.NotFound)

    @staged
    async def test_nothing_new_holds_what_is_being_deleted(self, stage: ContractContext) -> None:
        await stage.config_map("held", finalizers=(FINALIZER,))
        await stage.delete("held")
        more = {"metadata": {"finalizers": [FINALIZER, f"{FINALIZER}-too"]}}
        error = await refused(stage.patch("held", more), errors.Invalid)
        assert error.status == 422
        await stage.patch("held", {"metadata": {"finalizers": None}})

    @staged
    async def test_a_pod_without_a_node_goes_at_once(self, stage: ContractContext) -> None:
        await stage.pod("waits")
        await stage.client.delete(Pod, "waits", namespace=stage.namespace)
        await refused(stage.client.get(Pod, "waits", namespace=stage.namespace), errors.NotFound)

    @staged
    async def test_a_pod_on_a_node_stays_until_its_kubelet_lets_it_go(
        self, stage: ContractContext
    ) -> None:
        node = (await stage.node("n")).metadata.name
        await stage.pod("runs", nodeName=node, tolerations=[{"operator": "Exists"}])
        where: dict[str, Any] = {"namespace": stage.namespace}
        await stage.client.delete(Pod, "runs", **where)
        going = await stage.client.get(Pod, "runs", **where)
        assert going.metadata.deletion_timestamp is not None
        await stage.client.delete(Pod, "runs", grace_period=0, **where)
        await refused(stage.client.get(Pod, "runs", **where), errors.NotFound)

    @staged
    async def test_what_is_owned_goes_with_its_owner(self, stage: ContractContext) -> None:
        owner = await stage.config_map("owner")
        await stage.config_map("owned", owner_references=(owned_by(owner),))
        await stage.delete("owner")
        await stage.eventually_gone(ConfigMap, "owned", namespace=stage.namespace)

    @staged
    async def test_what_has_another_owner_stays(self, stage: ContractContext) -> None:
        first, second = await stage.config_map("first"), await stage.config_map("second")
        both = (owned_by(first), owned_by(second))
        await stage.config_map("owned", owner_references=both)
        await stage.delete("first")

        async def released() -> bool:
            owners = (await stage.get("owned")).metadata.owner_references
            return [one.name for one in owners] == ["second"]

        await stage.eventually(released)

    @staged
    async def test_what_is_made_for_an_owner_that_is_gone_goes_too(
        self, stage: ContractContext
    ) -> None:
        owner = await stage.config_map("owner")
        await stage.delete("owner")
        await stage.config_map("late", owner_references=(owned_by(owner),))
        await stage.eventually_gone(ConfigMap, "late", namespace=stage.namespace)

    @staged
    async def test_a_namespace_takes_along_what_is_in_it(self, stage: ContractContext) -> None:
        meta = ObjectMeta(generate_name="contract-inner-")
        inner = (await stage.client.create(Namespace, Namespace(metadata=meta))).metadata.name
        held = ContractContext(stage.client, stage.clock, inner)
        await held.config_map("held", finalizers=(FINALIZER,))
        await stage.client.delete(Namespace, inner)
        await refused(held.config_map("late"), errors.Forbidden)

        async def going() -> bool:
            return (await held.get("held")).metadata.deletion_timestamp is not None

        await stage.eventually(going)
        await held.patch("held", {"metadata": {"finalizers": None}})
        await stage.eventually_gone(Namespace, inner)
