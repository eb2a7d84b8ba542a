"""Patching, replacing, and being faster or slower than others."""

import asyncio
import random
from typing import Any

import msgspec

from tests.contracts.cluster.context import (
    BUDGETS,
    FINALIZER,
    NODES,
    Contract,
    ContractContext,
    refused,
    staged,
)
from tonnage.cluster import errors
from tonnage.cluster.client import PatchStyle
from tonnage.cluster.lease import LeaderLease, Timing
from tonnage.cluster.records import ConfigMap
from tonnage.objects.pods import Pod
from tonnage.objects.workloads import Lease, LeaseSpec


class UpdateContract(Contract):
    # Patching.

    @staged
    async def test_a_patch_of_any_style_leaves_alone_what_it_does_not_name(
        self, context: ContractContext
    ) -> None:
        for style in (PatchStyle.MERGE, PatchStyle.STRATEGIC, PatchStyle.APPLY):
            name = style.name.lower()
            await context.config_map(name, data={"kept": "1", "changed": "1"})
            change = {"metadata": {"name": name}, "data": {"changed": "2"}}
            await context.patch(name, change, style=style, force=True)
            assert (await context.get(name)).data == {"kept": "1", "changed": "2"}

    @staged
    async def test_null_in_a_merge_removes(self, context: ContractContext) -> None:
        await context.config_map("one", data={"a": "1", "b": "2"})
        assert (await context.patch("one", {"data": {"a": None}})).data == {"b": "2"}

    @staged
    async def test_a_strategic_merge_knows_conditions_by_type_and_a_merge_does_not(
        self, context: ContractContext
    ) -> None:
        name = (await context.node("n")).metadata.name
        for style, type_, expected in (
            (PatchStyle.MERGE, "A", ["A"]),
            (PatchStyle.STRATEGIC, "B", ["A", "B"]),
            (PatchStyle.STRATEGIC, "A", ["A", "B"]),
            (PatchStyle.MERGE, "C", ["C"]),
        ):
            change = {"status": {"conditions": [{"type": type_, "status": "True"}]}}
            node = await context.client.patch(
                NODES, name, change, style=style, subresource="status"
            )
            assert sorted(one["type"] for one in node.status["conditions"]) == expected

    @staged
    async def test_a_strategic_merge_deletes_by_key(self, context: ContractContext) -> None:
        name = (await context.node("n")).metadata.name
        both = {"status": {"conditions": [{"type": one, "status": "True"} for one in "AB"]}}
        await context.client.patch(NODES, name, both, subresource="status")
        drop = {"status": {"conditions": [{"$patch": "delete", "type": "A"}]}}
        node = await context.client.patch(
            NODES, name, drop, style=PatchStyle.STRATEGIC, subresource="status"
        )
        assert [one["type"] for one in node.status["conditions"]] == ["B"]

    @staged
    async def test_a_strategic_merge_adds_finalizers(self, context: ContractContext) -> None:
        await context.config_map("one", finalizers=(FINALIZER,))
        more = {"metadata": {"finalizers": [f"{FINALIZER}-too"]}}
        found = await context.patch("one", more, style=PatchStyle.STRATEGIC)
        assert set(found.metadata.finalizers) == {FINALIZER, f"{FINALIZER}-too"}
        await context.patch("one", {"metadata": {"finalizers": None}})

    @staged
    async def test_a_json_patch_is_done_in_order(self, context: ContractContext) -> None:
        await context.config_map("one", data={"a": "1"}, annotations={"b.io/c": "2"})
        operations = [
            {"op": "test", "path": "/data/a", "value": "1"},
            {"op": "replace", "path": "/data/a", "value": "3"},
            {"op": "copy", "from": "/data/a", "path": "/data/d"},
            {"op": "remove", "path": "/metadata/annotations/b.io~1c"},
            {"op": "add", "path": "/data/e", "value": "5"},
            {"op": "move", "from": "/data/e", "path": "/data/f"},
        ]
        found = await context.patch("one", operations, style=PatchStyle.JSON)
        assert (found.data, found.metadata.annotations) == ({"a": "3", "d": "3", "f": "5"}, {})

    @staged
    async def test_a_json_patch_with_a_failed_test_changes_nothing(
        self, context: ContractContext
    ) -> None:
        await context.config_map("one", data={"a": "1"})
        operations = [
            {"op": "replace", "path": "/data/a", "value": "3"},
            {"op": "test", "path": "/data/a", "value": "1"},
        ]
        await refused(context.patch("one", operations, style=PatchStyle.JSON), errors.Invalid)
        assert (await context.get("one")).data == {"a": "1"}

    @staged
    async def test_apply_makes_what_is_missing(self, context: ContractContext) -> None:
        wanted = {"metadata": {"name": "new"}, "data": {"a": "1"}}
        await context.patch("new", wanted, style=PatchStyle.APPLY)
        assert (await context.get("new")).data == {"a": "1"}

    @staged
    async def test_a_patch_of_what_is_missing_isrefused(self, context: ContractContext) -> None:
        await refused(context.patch("absent", {"data": {"a": "1"}}), errors.NotFound)

    @staged
    async def test_a_patch_that_changes_nothing_makes_no_version(
        self, context: ContractContext
    ) -> None:
        made = await context.config_map("one", data={"a": "1"})
        again = await context.patch("one", {"data": {"a": "1"}})
        assert again.metadata.resource_version == made.metadata.resource_version

    # Being faster or slower than others.

    @staged
    async def test_replacing_an_old_version_is_a_conflict(self, context: ContractContext) -> None:
        old = await context.config_map("contended", data={"a": "1"})
        await context.client.replace(ConfigMap, msgspec.structs.replace(old, data={"a": "2"}))
        late = context.client.replace(ConfigMap, msgspec.structs.replace(old, data={"a": "3"}))
        error = await refused(late, errors.Conflict)
        assert not error.already_exists
        assert (await context.get("contended")).data == {"a": "2"}

    @staged
    async def test_a_patch_that_names_an_old_version_is_a_conflict(
        self, context: ContractContext
    ) -> None:
        version = (await context.config_map("one")).metadata.resource_version
        change = {"metadata": {"resourceVersion": version}, "data": {"a": "1"}}
        await context.patch("one", change)
        await refused(context.patch("one", {**change, "data": {"a": "2"}}), errors.Conflict)

    @staged
    async def test_a_lease_is_not_replaced_unseen(self, context: ContractContext) -> None:
        lease = Lease(metadata=context.named("one"), spec=LeaseSpec(holder_identity="me"))
        await context.client.create(Lease, lease)
        error = await refused(context.client.replace(Lease, lease), errors.Invalid)
        assert error.status == 422

    @staged
    async def test_deleting_another_of_the_same_name_is_a_conflict(
        self, context: ContractContext
    ) -> None:
        await context.config_map("kept")
        await refused(context.delete("kept", uid="another"), errors.Conflict)
        await refused(context.delete("kept", resource_version="1"), errors.Conflict)
        assert await context.get("kept")

    @staged
    async def test_one_candidate_at_a_time_holds_a_lease(self, context: ContractContext) -> None:
        order: list[str] = []

        async def lead(name: str) -> None:
            order.append(name)
            await context.clock.sleep(0.2)
            order.append(name)

        def candidate(name: str) -> LeaderLease:
            return LeaderLease(
                context.client, name="leader", namespace=context.namespace, identity=name,
                clock=context.clock, rng=random.Random(name),
                timing=Timing(retry_period=0.5),
            )  # fmt: skip

        one, two = candidate("one"), candidate("two")
        await asyncio.gather(one.lead(lambda: lead("one")), two.lead(lambda: lead("two")))
        assert order in (["one", "one", "two", "two"], ["two", "two", "one", "one"])
        freed = await context.client.get(Lease, "leader", namespace=context.namespace)
        assert not freed.spec.holder_identity

    # Status and generation.

    @staged
    async def test_status_is_changed_by_its_own_path_only(self, context: ContractContext) -> None:
        name = (await context.node("n")).metadata.name
        change = {
            "status": {"capacity": {"example.com/disks": "2"}},
            "spec": {"providerID": "contract://n"},
        }
        by_status = await context.client.patch(NODES, name, change, subresource="status")
        assert by_status.status["capacity"] == {"example.com/disks": "2"}
        assert "providerID" not in by_status.spec
        change["status"] = {"capacity": {"example.com/disks": "3"}}
        by_main = await context.client.patch(NODES, name, change)
        assert by_main.status["capacity"] == {"example.com/disks": "2"}
        assert by_main.spec["providerID"] == "contract://n"

    @staged
    async def test_a_generation_counts_what_is_wanted_and_nothing_else(
        self, context: ContractContext
    ) -> None:
        await context.budget("one", least=1, labels={"app": "x"})
        where: dict[str, Any] = {"namespace": context.namespace}
        for change, subresource, expected in (
            ({"metadata": {"labels": {"a": "b"}}}, "", 1),
            ({"status": {"expectedPods": 7}}, "status", 1),
            ({"spec": {"minAvailable": 2}}, "", 2),
        ):
            found = await context.client.patch(
                BUDGETS, "one", change, subresource=subresource, **where
            )
            assert found.metadata.generation == expected

    @staged
    async def test_the_spec_of_a_pod_stays_as_it_is(self, context: ContractContext) -> None:
        await context.pod("one")
        change = {"spec": {"nodeName": "elsewhere"}}
        moved = context.client.patch(Pod, "one", change, namespace=context.namespace)
        error = await refused(moved, errors.Invalid)
        assert error.status == 422
