"""What holds for every provider of node groups, as tests that each of them inherits.

class TestDeclarative(ProviderContract):
    async def make(self, groups, nodes):
        return DeclarativeProvider(groups, nodes)
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import wraps
from typing import Any, TypeVar

from tonnage.errors import ProviderError
from tonnage.groups.model import Group
from tonnage.objects.meta import ObjectMeta
from tonnage.objects.nodes import Node
from tonnage.objects.scenarios import GroupTemplate, NodeGroup, NodeGroupSpec
from tonnage.providers.protocol import GroupOptions, Instance, Provider
from tonnage.testing import builders

C = TypeVar("C", bound="ProviderContract")


def declared(
    name: str,
    *,
    nodes: Sequence[str] = (),
    min_size: int = 0,
    max_size: int = 10,
    target: int | None = None,
    scaling: str = "any",
    price: str | None = None,
    template: GroupTemplate | None = None,
) -> NodeGroup:
    """A group for a test; the nodes are its registered ones."""
    return NodeGroup(
        metadata=ObjectMeta(name=name),
        spec=NodeGroupSpec(
            min_size=min_size,
            max_size=max_size,
            target_size=target,
            scaling=scaling,
            nodes=tuple(nodes),
            price_per_hour=price,
            template=template,
        ),
    )


def _in_a_loop(test: Callable[[C], Coroutine[Any, Any, None]]) -> Callable[[C], None]:
    @wraps(test)
    def run(self: C) -> None:
        asyncio.run(test(self))

    return run


class ProviderContract:
    """A provider's tests derive from this and say how to `make` one."""

    async def make(self, groups: Sequence[NodeGroup], nodes: Sequence[Node]) -> Provider:
        """A provider whose world is these groups, with these nodes registered and running."""
        raise NotImplementedError

    # Looking.

    @_in_a_loop
    async def test_every_group_is_listed_with_its_sizes(self) -> None:
        provider = await self._with(declared("a", min_size=1, max_size=5, nodes=["n1", "n2"]))
        (group,) = await provider.groups()
        assert (group.id, group.min_size, group.max_size, group.target) == ("a", 1, 5, 2)

    @_in_a_loop
    async def test_every_group_has_its_own_nodes(self) -> None:
        provider = await self._with(declared("a", nodes=["n1", "n2"]), declared("b", nodes=["n3"]))
        found = {group.id: set(group.nodes) for group in await provider.groups()}
        assert found == {"a": {"n1", "n2"}, "b": {"n3"}}

    @_in_a_loop
    async def test_every_registered_node_is_a_running_instance(self) -> None:
        provider = await self._with(declared("a", nodes=["n1", "n2"]))
        found = await provider.instances("a")
        assert [one.state for one in found] == ["running", "running"]
        assert len({one.id for one in found}) == 2

    @_in_a_loop
    async def test_a_target_above_the_registered_nodes_is_instances_being_created(self) -> None:
        provider = await self._with(declared("a", nodes=["n1"], target=3))
        found = await provider.instances("a")
        assert sorted(one.state for one in found) == ["creating", "creating", "running"]
        assert len({one.id for one in found}) == 3

    @_in_a_loop
    async def test_a_template_is_handed_on_as_declared(self) -> None:
        template = GroupTemplate(
            node=builders.node("any", cpu="8"), csi_node=builders.csinode("any", {"d": 25})
        )
        provider = await self._with(declared("a", template=template))
        found = await provider.template("a")
        assert found is not None
        assert found.node.status.allocatable["cpu"] == "8"
        assert found.csi_node is not None
        assert [(driver.name, driver.limit) for driver in found.csi_node.spec.drivers] == [
            ("d", 25)
        ]

    @_in_a_loop
    async def test_a_group_without_template_says_so(self) -> None:
        provider = await self._with(declared("a"))
        assert await provider.template("a") is None

    @_in_a_loop
    async def test_a_price_is_per_hour_and_none_if_nobody_says(self) -> None:
        provider = await self._with(declared("a", price="0.504"), declared("b"))
        assert await provider.price("a") == 0.504
        assert await provider.price("b") is None

    @_in_a_loop
    async def test_settings_of_a_group_without_any_are_the_cluster_wide_ones(self) -> None:
        provider = await self._with(declared("a"))
        assert await provider.options("a") == GroupOptions()

    @_in_a_loop
    async def test_a_group_that_was_handed_out_does_not_change(self) -> None:
        provider = await self._with(declared("a"))
        (before,) = await provider.groups()
        await provider.increase("a", 1)
        await provider.refresh()
        assert before.target == 0

    @_in_a_loop
    async def test_a_world_in_which_all_is_well_has_no_problems(self) -> None:
        provider = await self._with(declared("a", nodes=["n1"]))
        (group,) = await provider.groups()
        assert [*await provider.problems(), *group.problems] == []

    # Growing.

    @_in_a_loop
    async def test_an_increase_raises_the_target(self) -> None:
        provider = await self._with(declared("a", nodes=["n1"]))
        await provider.increase("a", 3)
        assert await _target(provider, "a") == 4

    @_in_a_loop
    async def test_an_increase_leaves_other_groups_alone(self) -> None:
        provider = await self._with(declared("a"), declared("b"))
        await provider.increase("a", 3)
        assert await _target(provider, "b") == 0

    @_in_a_loop
    async def test_nodes_that_were_asked_for_are_being_created(self) -> None:
        provider = await self._with(declared("a", nodes=["n1"]))
        await provider.increase("a", 2)
        await provider.refresh()
        assert await _states(provider, "a") == ["creating", "creating", "running"]

    @_in_a_loop
    async def test_an_increase_beyond_the_maximum_is_refused_as_a_whole(self) -> None:
        provider = await self._with(declared("a", max_size=3, nodes=["n1"]))
        await _refused(provider.increase("a", 3))
        assert await _target(provider, "a") == 1

    @_in_a_loop
    async def test_an_increase_by_nothing_or_less_is_refused(self) -> None:
        provider = await self._with(declared("a", nodes=["n1"]))
        await _refused(provider.increase("a", 0))
        await _refused(provider.increase("a", -1))
        assert await _target(provider, "a") == 1

    # Shrinking.

    @_in_a_loop
    async def test_a_deletion_lowers_the_target(self) -> None:
        provider = await self._with(declared("a", nodes=["n1", "n2", "n3"]))
        await provider.delete("a", ["n1", "n3"])
        assert await _target(provider, "a") == 1

    @_in_a_loop
    async def test_a_deleted_node_is_no_longer_running(self) -> None:
        provider = await self._with(declared("a", nodes=["n1", "n2"]))
        await provider.delete("a", ["n1"])
        await provider.refresh()
        assert (await _states(provider, "a")).count("running") == 1
        assert "creating" not in await _states(provider, "a")

    @_in_a_loop
    async def test_deleting_a_node_twice_counts_once(self) -> None:
        provider = await self._with(declared("a", nodes=["n1", "n2"]))
        await provider.delete("a", ["n1"])
        await provider.delete("a", ["n1"])
        assert await _target(provider, "a") == 1

    @_in_a_loop
    async def test_a_deletion_below_the_minimum_is_refused_as_a_whole(self) -> None:
        provider = await self._with(declared("a", min_size=2, nodes=["n1", "n2", "n3"]))
        await _refused(provider.delete("a", ["n1", "n2"]))
        assert await _states(provider, "a") == ["running"] * 3
        assert await _target(provider, "a") == 3

    @_in_a_loop
    async def test_a_node_of_another_group_is_not_deleted_nor_are_those_named_with_it(self) -> None:
        provider = await self._with(declared("a", nodes=["n1"]), declared("b", nodes=["n2"]))
        await _refused(provider.delete("a", ["n1", "n2"]))
        assert await _states(provider, "a") == await _states(provider, "b") == ["running"]

    @_in_a_loop
    async def test_a_lower_target_gives_up_nodes_that_are_not_there_yet(self) -> None:
        provider = await self._with(declared("a", nodes=["n1"], target=4))
        await provider.decrease_target("a", 2)
        assert await _target(provider, "a") == 2
        assert await _states(provider, "a") == ["creating", "running"]

    @_in_a_loop
    async def test_a_lower_target_never_costs_a_node_that_is_there(self) -> None:
        provider = await self._with(declared("a", nodes=["n1", "n2"], target=3))
        await _refused(provider.decrease_target("a", 2))
        assert await _target(provider, "a") == 3

    @_in_a_loop
    async def test_a_target_lowered_by_nothing_or_less_is_refused(self) -> None:
        provider = await self._with(declared("a", nodes=["n1"], target=3))
        await _refused(provider.decrease_target("a", 0))
        await _refused(provider.decrease_target("a", -1))

    # Asking for what is not there.

    @_in_a_loop
    async def test_an_unknown_group_is_refused_whatever_is_asked(self) -> None:
        provider = await self._with(declared("a"))
        await _refused(provider.instances("b"))
        await _refused(provider.template("b"))
        await _refused(provider.price("b"))
        await _refused(provider.options("b"))
        await _refused(provider.increase("b", 1))
        await _refused(provider.delete("b", []))
        await _refused(provider.decrease_target("b", 1))

    async def _with(self, *groups: NodeGroup) -> Provider:
        names = [name for group in groups for name in group.spec.nodes]
        provider = await self.make(groups, [builders.node(name) for name in names])
        await provider.refresh()
        return provider


class ReadingProviderContract(ProviderContract):
    """For providers that read of groups what others have written, and may have misspelt."""

    async def spoil(self, group: str) -> None:
        """Make something of what is said of a group unreadable, with the next `refresh`."""
        raise NotImplementedError

    @_in_a_loop
    async def test_a_group_that_can_no_longer_be_read_is_named(self) -> None:
        provider = await self._with(declared("ledgers", nodes=["n1"]), declared("b"))
        await self.spoil("ledgers")
        await provider.refresh()
        listed = [problem for group in await provider.groups() for problem in group.problems]
        problems = [*await provider.problems(), *listed]
        assert problems
        assert all("ledgers" in problem for problem in problems)

    @_in_a_loop
    async def test_a_group_that_can_no_longer_be_read_keeps_nodes_and_target(self) -> None:
        provider = await self._with(declared("a", nodes=["n1", "n2"], target=3))
        await self.spoil("a")
        await provider.refresh()
        group = await _group(provider, "a")
        assert {"n1", "n2"} <= set(group.nodes)
        assert group.target == 3
        assert await _states(provider, "a") == ["creating", "running", "running"]

    @_in_a_loop
    async def test_what_was_asked_for_a_group_survives_that_it_can_no_longer_be_read(self) -> None:
        provider = await self._with(declared("a", nodes=["n1"]))
        await provider.increase("a", 2)
        await self.spoil("a")
        await provider.refresh()
        assert await _target(provider, "a") == 3
        assert await _states(provider, "a") == ["creating", "creating", "running"]

    @_in_a_loop
    async def test_a_group_that_can_no_longer_be_read_leaves_the_others_alone(self) -> None:
        provider = await self._with(declared("a", nodes=["n1"]), declared("b", nodes=["n2"]))
        await self.spoil("a")
        await provider.refresh()
        await provider.increase("b", 2)
        assert await _target(provider, "b") == 3


async def _refused(request: Awaitable[object]) -> None:
    try:
        await request
    except ProviderError:
        return
    raise AssertionError("expected a ProviderError")


async def _group(provider: Provider, name: str) -> Group:
    await provider.refresh()
    return next(group for group in await provider.groups() if group.id == name)


async def _target(provider: Provider, name: str) -> int:
    return (await _group(provider, name)).target


async def _states(provider: Provider, name: str) -> list[str]:
    found: Sequence[Instance] = await provider.instances(name)
    return sorted(one.state for one in found)
