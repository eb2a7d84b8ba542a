"""Creating, getting and listing."""

from contextlib import suppress

from tests.contracts.cluster.context import (
    Contract,
    ContractContext,
    names_of,
    refused,
    resource,
    staged,
)
from tonnage.cluster import errors
from tonnage.cluster.client import Listing, Selection
from tonnage.cluster.records import ConfigMap
from tonnage.objects.meta import ObjectMeta
from tonnage.objects.pods import Pod
from tonnage.objects.workloads import PriorityClass


class ReadContract(Contract):
    # Creating.

    @staged
    async def test_a_new_object_has_a_uid_a_version_and_a_time(
        self, context: ContractContext
    ) -> None:
        made = (await context.config_map("one")).metadata
        assert len(made.uid) == 36
        assert int(made.resource_version) > 0
        assert made.creation_timestamp is not None
        assert made.creation_timestamp.endswith("Z")

    @staged
    async def test_what_the_server_decides_cannot_be_chosen(self, context: ContractContext) -> None:
        made = await context.config_map(
            "one", uid="mine", creation_timestamp="2001-01-01T00:00:00Z"
        )
        assert made.metadata.uid != "mine"
        assert made.metadata.creation_timestamp != "2001-01-01T00:00:00Z"

    @staged
    async def test_a_generated_name_is_the_given_one_and_five_letters(
        self, context: ContractContext
    ) -> None:
        made = [await context.config_map("", generate_name="some-") for _ in range(2)]
        first, second = (one.metadata.name for one in made)
        assert first.startswith("some-")
        assert len(first) == len("some-") + 5
        assert first != second

    @staged
    async def test_creating_what_exists_is_a_conflict_that_says_so(
        self, context: ContractContext
    ) -> None:
        await context.config_map("twice")
        error = await refused(context.config_map("twice"), errors.Conflict)
        assert error.already_exists

    @staged
    async def test_a_namespace_has_to_exist(self, context: ContractContext) -> None:
        nowhere = ContractContext(context.client, context.clock, "contract-nowhere")
        await refused(nowhere.config_map("one"), errors.NotFound)

    @staged
    async def test_an_object_needs_a_name(self, context: ContractContext) -> None:
        error = await refused(context.config_map(""), errors.Invalid)
        assert (error.status, error.reason) == (422, "Invalid")

    @staged
    async def test_a_name_is_of_small_letters(self, context: ContractContext) -> None:
        error = await refused(context.config_map("NOT_a_name"), errors.Invalid)
        assert (error.status, error.reason) == (422, "Invalid")

    @staged
    async def test_a_label_value_has_no_spaces(self, context: ContractContext) -> None:
        error = await refused(context.config_map("one", labels={"a": "b c"}), errors.Invalid)
        assert error.status == 422

    @staged
    async def test_a_key_of_a_config_map_could_be_a_file_name(
        self, context: ContractContext
    ) -> None:
        error = await refused(context.config_map("one", data={"a/b": "1"}), errors.Invalid)
        assert error.status == 422

    @staged
    async def test_a_pod_needs_a_container(self, context: ContractContext) -> None:
        error = await refused(context.pod("empty", containers=[]), errors.Invalid)
        assert error.status == 422

    @staged
    async def test_a_new_pod_is_pending_whatever_its_maker_says(
        self, context: ContractContext
    ) -> None:
        assert (await context.pod("new")).status.phase == "Pending"

    @staged
    async def test_a_pod_gets_the_priority_of_its_class(self, context: ContractContext) -> None:
        meta = ObjectMeta(name=f"{context.namespace}-high")
        await context.global_object(PriorityClass, PriorityClass(metadata=meta, value=1234))

        async def known() -> bool:
            # An API server looks classes up in a cache.
            with suppress(errors.Forbidden):
                pod = await context.pod("important", priorityClassName=meta.name)
                return pod.spec.priority == 1234
            return False

        await context.eventually(known)

    # Getting and listing.

    @staged
    async def test_what_is_not_there_is_told_from_a_kind_that_is_not_served(
        self, context: ContractContext
    ) -> None:
        unknown = resource("contract.example.com/v1", "Thing", "things")
        absent = await refused(context.get("absent"), errors.NotFound)
        not_served = await refused(
            context.client.get(unknown, "absent", namespace=context.namespace), errors.NotFound
        )
        assert (absent.kind_missing, not_served.kind_missing) == (False, True)

    @staged
    async def test_a_list_is_in_the_order_ofnames_of(self, context: ContractContext) -> None:
        for name in ("c", "a", "b"):
            await context.config_map(name)
        assert await context.names() == ["a", "b", "c"]

    @staged
    async def test_pages_show_the_list_as_it_was_when_the_first_was_asked_for(
        self, context: ContractContext
    ) -> None:
        labels = {"listed": "yes"}
        for number in range(5):
            await context.config_map(f"page-{number}", labels=labels)
        chosen = Selection(namespace=context.namespace, labels="listed=yes")
        pages: list[Listing[ConfigMap]] = []
        async for page in context.client.pages(ConfigMap, chosen, page=2):
            pages.append(page)
            if len(pages) == 1:
                await context.config_map("page-3-and-a-half", labels=labels)
                await context.delete("page-4")
        assert [names_of(page) for page in pages] == [
            ["page-0", "page-1"],
            ["page-2", "page-3"],
            ["page-4"],
        ]
        assert len({page.resource_version for page in pages}) == 1

    @staged
    async def test_labels_select(self, context: ContractContext) -> None:
        for name, labels in (("a", {"x": "1", "y": "1"}), ("b", {"x": "2"}), ("c", {"y": "1"})):
            await context.config_map(name, labels=labels)
        found = {
            selector: await context.names(labels=selector)
            for selector in ("x=1", "x==1,y=1", "x!=1", "x in (1, 2)", "x notin (1)", "x", "!x")
        }
        assert found == {
            "x=1": ["a"],
            "x==1,y=1": ["a"],
            "x!=1": ["b", "c"],
            "x in (1, 2)": ["a", "b"],
            "x notin (1)": ["b", "c"],
            "x": ["a", "b"],
            "!x": ["c"],
        }

    @staged
    async def test_fields_select(self, context: ContractContext) -> None:
        for name in ("a", "b"):
            await context.config_map(name)
        assert await context.names(fields="metadata.name=a") == ["a"]
        assert await context.names(fields="metadata.name!=a") == ["b"]

    @staged
    async def test_pods_are_selected_by_their_node(self, context: ContractContext) -> None:
        await context.pod("waits")
        await context.pod("placed", nodeName="contract-somewhere")
        for fields, expected in (
            ("spec.nodeName=", ["waits"]),
            ("spec.nodeName=contract-somewhere,status.phase!=Failed", ["placed"]),
        ):
            chosen = Selection(namespace=context.namespace, fields=fields)
            assert names_of(await context.client.list(Pod, chosen)) == expected

    @staged
    async def test_a_field_that_nobody_can_select_by_isrefused(
        self, context: ContractContext
    ) -> None:
        error = await refused(context.names(fields="data.a=1"), errors.Invalid)
        assert error.status == 400

    @staged
    async def test_a_selector_that_does_not_parse_isrefused(self, context: ContractContext) -> None:
        error = await refused(context.names(labels="a in (b"), errors.Invalid)
        assert error.status == 400
