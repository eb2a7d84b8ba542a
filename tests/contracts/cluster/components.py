"""What our own programs ask of an API beyond the common verbs: the scheduler and the autoscaler,
the capacity controller, the node agent, and the world that plays nodes and drivers.
"""

import asyncio
import random
from contextlib import aclosing, suppress
from typing import Any

import msgspec

from tests.contracts.cluster.context import (
    FINALIZER,
    NODES,
    PODS,
    SETS,
    Contract,
    ContractContext,
    refused,
    staged,
)
from tonnage.cluster import errors
from tonnage.cluster.client import PatchStyle, Selection
from tonnage.cluster.events import Recorder
from tonnage.cluster.records import ConfigMap, Event
from tonnage.cluster.watch_events import Change
from tonnage.objects import kinds
from tonnage.objects.meta import LabelSelector, ObjectMeta
from tonnage.objects.pods import Pod
from tonnage.objects.scenarios import API_VERSION
from tonnage.objects.storage import (
    AttachmentSource,
    AttachmentSpec,
    CSINode,
    CSIStorageCapacity,
    VolumeAttachment,
)


class ComponentsContract(Contract):
    # What is there at all.

    @staged
    async def test_the_server_says_which_version_it_is(self, context: ContractContext) -> None:
        assert (await context.client.version()).startswith("v1.")

    @staged
    async def test_a_group_says_in_which_versions_it_is_served(
        self, context: ContractContext
    ) -> None:
        assert (await context.client.group_versions("storage.k8s.io"))[0] == "v1"

    @staged
    async def test_a_group_that_is_not_served_has_no_versions(
        self, context: ContractContext
    ) -> None:
        assert await context.client.group_versions("nobody.example.com") == ()

    @staged
    async def test_every_kind_that_we_read_can_be_listed(self, context: ContractContext) -> None:
        for row in kinds.ALL:
            if row.api_version != API_VERSION and not row.optional:
                listing = await context.client.list(row.type)
                assert listing.unreadable == []
                assert listing.resource_version

    @staged
    async def test_the_versions_of_all_objects_can_be_had_without_the_objects(
        self, context: ContractContext
    ) -> None:
        made = [await context.config_map(name) for name in ("one", "two")]
        found, version = await context.client.versions(ConfigMap, context.here)
        for one in made:
            meta = one.metadata
            assert found[meta.namespace, meta.name] == meta.resource_version
            assert int(version) >= int(meta.resource_version)

    @staged
    async def test_a_list_may_be_as_old_as_the_servers_cache(
        self, context: ContractContext
    ) -> None:
        await context.config_map("one")

        async def listed() -> bool:
            pages = context.client.pages(ConfigMap, context.here, resource_version="0")
            names = [one.metadata.name async for page in pages for one in page.items]
            return "one" in names

        await context.eventually(listed)

    # Writing.

    @staged
    async def test_what_is_replaced_is_as_it_was_given(self, context: ContractContext) -> None:
        made = await context.config_map("one", data={"a": "1", "b": "2"})
        replaced = await context.client.replace(
            ConfigMap, msgspec.structs.replace(made, data={"c": "3"})
        )
        assert replaced.data == {"c": "3"}
        assert replaced.metadata.uid == made.metadata.uid
        assert int(replaced.metadata.resource_version) > int(made.metadata.resource_version)

    @staged
    async def test_replacing_a_status_changes_nothing_else(self, context: ContractContext) -> None:
        await context.pod("one")
        found = await context.client.get(PODS, "one", namespace=context.namespace)
        told = msgspec.structs.replace(
            found,
            spec={**found.spec, "nodeName": "elsewhere"},
            status={**found.status, "message": "seen"},
        )
        replaced = await context.client.replace(PODS, told, subresource="status")
        assert (replaced.status["message"], replaced.spec) == ("seen", found.spec)

    @staged
    async def test_replacing_what_is_missing_is_refused(self, context: ContractContext) -> None:
        missing = ConfigMap(metadata=context.named("missing"))
        await refused(context.client.replace(ConfigMap, missing), errors.NotFound)

    @staged
    async def test_a_json_patch_appends(self, context: ContractContext) -> None:
        node = (await context.node("n")).metadata.name
        taint = {"key": "contract.example.com/a", "effect": "NoSchedule"}
        await context.client.patch(NODES, node, {"spec": {"taints": [taint]}})
        more = [{"op": "add", "path": "/spec/taints/-", "value": {**taint, "effect": "NoExecute"}}]
        found = await context.client.patch(NODES, node, more, style=PatchStyle.JSON)
        effects = [
            one["effect"] for one in found.spec["taints"] if one["key"].startswith("contract")
        ]
        assert effects == ["NoSchedule", "NoExecute"]

    @staged
    async def test_applying_again_changes_what_is_named(self, context: ContractContext) -> None:
        meta = {"name": "one", "namespace": context.namespace}
        for value in ("1", "2"):
            change = {"metadata": meta, "data": {"a": value}}
            found = await context.patch("one", change, style=PatchStyle.APPLY)
        assert found.data == {"a": "2"}

    @staged
    async def test_applying_by_force_takes_over_what_others_wrote(
        self, context: ContractContext
    ) -> None:
        await context.config_map("one", data={"a": "1"})
        change = {"metadata": {"name": "one", "namespace": context.namespace}, "data": {"a": "2"}}
        found = await context.patch("one", change, style=PatchStyle.APPLY, force=True)
        assert found.data == {"a": "2"}

    @staged
    async def test_taints_that_changed_meanwhile_are_not_overwritten(
        self, context: ContractContext
    ) -> None:
        seen = await context.node("n")
        name = seen.metadata.name
        await context.client.patch(NODES, name, {"metadata": {"labels": {"changed": "yes"}}})
        change = {
            "metadata": {"resourceVersion": seen.metadata.resource_version},
            "spec": {"taints": []},
        }
        await refused(context.client.patch(NODES, name, change), errors.Conflict)

    # Deleting.

    @staged
    async def test_deleting_an_old_version_is_a_conflict(self, context: ContractContext) -> None:
        made = await context.config_map("one")
        await context.patch("one", {"data": {"a": "1"}})
        old = made.metadata.resource_version
        await refused(context.delete("one", resource_version=old), errors.Conflict)
        newest = (await context.get("one")).metadata.resource_version
        await context.delete("one", resource_version=newest)
        await refused(context.get("one"), errors.NotFound)

    @staged
    async def test_what_is_missing_cannot_be_deleted_evicted_bound_or_scaled(
        self, context: ContractContext
    ) -> None:
        missing = Pod(metadata=context.named("missing"))
        await refused(context.delete("missing"), errors.NotFound)
        await refused(context.client.evict(missing), errors.NotFound)
        await refused(context.client.bind(missing, "n"), errors.NotFound)
        where: dict[str, Any] = {"namespace": context.namespace}
        await refused(context.client.scale(SETS, "missing", 1, **where), errors.NotFound)
        await refused(context.client.get_scale(SETS, "missing", **where), errors.NotFound)

    @staged
    async def test_an_eviction_may_say_how_long_a_pod_has(self, context: ContractContext) -> None:
        node = (await context.node("n")).metadata.name
        await context.client.bind(await context.pod("one"), node)
        pod = await context.client.get(Pod, "one", namespace=context.namespace)
        await context.client.evict(pod, grace_period=7)
        leaving = await context.client.get(PODS, "one", namespace=context.namespace)
        assert leaving.metadata.deletion_timestamp is not None
        await context.client.evict(pod, grace_period=0)
        await context.eventually_gone(PODS, "one", namespace=context.namespace)

    # Watching.

    @staged
    async def test_a_watch_is_of_one_namespace_and_one_node(self, context: ContractContext) -> None:
        node = (await context.node("n")).metadata.name
        before = await context.client.list(Pod, context.here)
        for name in ("elsewhere", "here"):
            await context.pod(name)
        pod = await context.client.get(Pod, "here", namespace=context.namespace)
        await context.client.bind(pod, node)
        chosen = Selection(namespace=context.namespace, fields=f"spec.nodeName={node}")
        watch = context.client.watch(Pod, chosen, resource_version=before.resource_version)
        async with context.clock.timeout(150.0), aclosing(watch) as events:
            first = await anext(events)
        assert isinstance(first, Change)
        assert (first.type, first.object.metadata.name) == ("ADDED", "here")

    # Storage.

    @staged
    async def test_drivers_come_to_a_csi_node_and_go(self, context: ContractContext) -> None:
        name = f"{context.namespace}-n"
        made = await context.global_object(CSINode, CSINode(metadata=ObjectMeta(name=name)))
        assert made.spec.drivers == ()
        driver = {"name": "disk.example.com", "nodeID": "n", "allocatable": {"count": 5}}
        found = await context.client.patch(CSINode, name, {"spec": {"drivers": [driver]}})
        assert [(one.name, one.limit) for one in found.spec.drivers] == [("disk.example.com", 5)]
        change = {
            "metadata": {"resourceVersion": made.metadata.resource_version},
            "spec": {"drivers": []},
        }
        await refused(context.client.patch(CSINode, name, change), errors.Conflict)
        gone = await context.client.patch(CSINode, name, {"spec": {"drivers": []}})
        assert gone.spec.drivers == ()

    @staged
    async def test_an_attachment_is_reported_and_held_until_it_is_detached(
        self, context: ContractContext
    ) -> None:
        client, name = context.client, f"{context.namespace}-attachment"
        wanted = VolumeAttachment(
            metadata=ObjectMeta(name=name, finalizers=(FINALIZER,)),
            spec=AttachmentSpec(
                attacher="disk.example.com",
                node_name=f"{context.namespace}-n",
                source=AttachmentSource(persistent_volume_name=f"{context.namespace}-v"),
            ),
        )
        made = await context.global_object(VolumeAttachment, wanted)
        assert not made.status.attached
        told = {"status": {"attached": False, "attachError": {"message": "full", "errorCode": 8}}}
        failed = await client.patch(VolumeAttachment, name, told, subresource="status")
        assert failed.status.attach_error is not None
        assert (failed.status.attach_error.message, failed.status.attach_error.error_code) == (
            "full",
            8,
        )
        told = {"status": {"attached": True, "attachError": None}}
        attached = await client.patch(VolumeAttachment, name, told, subresource="status")
        assert (attached.status.attached, attached.status.attach_error) == (True, None)
        await client.delete(VolumeAttachment, name)
        leaving = await client.get(VolumeAttachment, name)
        assert leaving.metadata.deletion_timestamp is not None
        await client.patch(VolumeAttachment, name, {"metadata": {"finalizers": []}})
        await context.eventually_gone(VolumeAttachment, name)

    @staged
    async def test_published_capacity_is_changed_and_its_place_is_not(
        self, context: ContractContext
    ) -> None:
        made = CSIStorageCapacity(
            metadata=context.named("one"),
            storage_class_name="local",
            node_topology=LabelSelector(match_labels={"node": "a"}),
            capacity="10Gi",
        )
        await context.client.create(CSIStorageCapacity, made)
        where: dict[str, Any] = {"namespace": context.namespace}
        left = {"capacity": "5Gi", "maximumVolumeSize": "5Gi"}
        found = await context.client.patch(CSIStorageCapacity, "one", left, **where)
        assert (found.capacity, found.maximum_volume_size) == ("5Gi", "5Gi")
        moved = {"nodeTopology": {"matchLabels": {"node": "b"}}}
        await refused(
            context.client.patch(CSIStorageCapacity, "one", moved, **where), errors.Invalid
        )

    # Telling.

    @staged
    async def test_what_is_said_again_is_counted_in_the_same_event(
        self, context: ContractContext
    ) -> None:
        numbers = iter(range(1000))
        recorder = Recorder(
            context.client,
            component="contract",
            instance="contract-0",
            clock=context.clock,
            new_id=lambda: f"{random.Random(next(numbers)).getrandbits(32):x}",
        )
        about = await context.config_map("one")
        running = asyncio.ensure_future(recorder.run())
        try:
            for _ in range(2):
                recorder.record(about, reason="Seen", message="it is there")
                await recorder.flush()
        finally:
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running
        (event,) = (await context.client.list(Event, context.here)).items
        assert (event.reason, event.message, event.count) == ("Seen", "it is there", 2)
        assert event.involved_object.uid == about.metadata.uid
