import pytest

from tonnage.errors import InputError
from tonnage.objects.meta import ObjectMeta
from tonnage.providers.clusterapi import discovery
from tonnage.providers.clusterapi.discovery import Discovery
from tonnage.providers.clusterapi.shapes import Scalable, ScalableSpec

POOL = Scalable(
    metadata=ObjectMeta(name="a", namespace="fleet", labels={"team": "db", "tier": "gold"}),
    spec=ScalableSpec(cluster_name="prod"),
)


def finds(spec: str) -> bool:
    (found,) = discovery.parse([spec])
    return found.finds(POOL)


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        ("clusterapi:", True),
        ("clusterapi:namespace=fleet", True),
        ("clusterapi:namespace=other", False),
        ("clusterapi:clusterName=prod", True),
        ("clusterapi:clusterName=test", False),
        ("clusterapi:team=db", True),
        ("clusterapi:team=db,tier=gold", True),
        ("clusterapi:team=db,tier=silver", False),
        ("clusterapi:namespace=fleet, clusterName=prod, team=db", True),
        ("clusterapi:namespace=fleet,clusterName=test", False),
    ],
)
def test_everything_that_is_said_has_to_hold(spec: str, found: bool) -> None:
    assert finds(spec) is found


def test_without_a_flag_everything_is_found() -> None:
    assert discovery.parse([]) == (Discovery(),)


@pytest.mark.parametrize(
    "spec",
    [
        "asg:tag=x",
        "fleet",
        "clusterapi:namespace",
        "clusterapi:=x",
        "clusterapi:team=",
        "clusterapi:team=a,team=b",
    ],
)
def test_a_mistake_is_named_with_what_is_expected(spec: str) -> None:
    with pytest.raises(InputError, match="--node-group-auto-discovery") as raised:
        discovery.parse([spec])
    assert spec in str(raised.value)


@pytest.mark.parametrize(
    ("specs", "namespace"),
    [
        ([], ""),
        (["clusterapi:namespace=a"], "a"),
        (["clusterapi:namespace=a,x=1", "clusterapi:namespace=a,x=2"], "a"),
        (["clusterapi:namespace=a", "clusterapi:namespace=b"], ""),
        (["clusterapi:namespace=a", "clusterapi:x=1"], ""),
    ],
)
def test_one_namespace_is_enough_if_all_is_in_it(specs: list[str], namespace: str) -> None:
    assert discovery.only_namespace(discovery.parse(specs)) == namespace
