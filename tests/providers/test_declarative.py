import asyncio

import pytest

from tonnage.errors import ProviderError
from tonnage.groups.model import Group
from tonnage.providers.declarative import DeclarativeProvider
from tonnage.testing.builders import node
from tonnage.testing.provider_contract import declared


def only_group(provider: DeclarativeProvider) -> Group:
    (group,) = asyncio.run(provider.groups())
    return group


def states(provider: DeclarativeProvider) -> list[str]:
    return [one.state for one in asyncio.run(provider.instances("a"))]


def test_a_node_that_registers_fills_a_place_that_was_asked_for():
    provider = DeclarativeProvider([declared("a", nodes=["n1", "n2"], target=2)], [node("n1")])
    provider.observe([node("n1"), node("n2")])
    assert states(provider) == ["running", "running"]


def test_a_node_that_is_gone_does_not_lower_the_target():
    provider = DeclarativeProvider([declared("a", nodes=["n1"])], [node("n1")])
    provider.observe([])
    assert only_group(provider).target == 1
    assert states(provider) == ["creating"]


def test_a_deleted_node_is_gone_once_it_is_no_longer_seen():
    provider = DeclarativeProvider([declared("a", nodes=["n1"])], [node("n1")])
    asyncio.run(provider.delete("a", ["n1"]))
    assert states(provider) == ["deleting"]
    provider.observe([])
    assert states(provider) == []


def test_an_all_or_nothing_group_grows_to_its_maximum_alone():
    provider = DeclarativeProvider([declared("a", max_size=4, scaling="zeroOrMax")])
    with pytest.raises(ProviderError, match="either none or 4"):
        asyncio.run(provider.increase("a", 3))
    asyncio.run(provider.increase("a", 4))
    assert only_group(provider).target == 4


def test_an_all_or_nothing_group_is_deleted_as_a_whole():
    nodes = [node("n1"), node("n2")]
    group = declared("a", max_size=2, scaling="zeroOrMax", nodes=["n1", "n2"])
    provider = DeclarativeProvider([group], nodes)
    with pytest.raises(ProviderError, match="all or none"):
        asyncio.run(provider.delete("a", ["n1"]))
    asyncio.run(provider.delete("a", ["n1", "n2"]))
    assert only_group(provider).target == 0
