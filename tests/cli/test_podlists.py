"""Many pods in few words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.cli import podlists
from tonnage.objects.phrases import listed


def phrases(*pods: str) -> list[str]:
    return [series.phrase for series in podlists.in_series(pods)]


def replicas(*ordinals: int) -> list[str]:
    return [f"shop/db-{ordinal}" for ordinal in ordinals]


@pytest.mark.parametrize(
    ("pods", "said"),
    [
        (replicas(*range(1000)), "shop/db-0 … db-999 (1,000 pods)"),
        (replicas(0), "shop/db-0"),
        (replicas(0, 1), "shop/db-0, db-1 (2 pods)"),
        (replicas(4, 0, 1, 2), "shop/db-0 … db-2, db-4 (4 pods)"),
        (replicas(0, 2, 4, 6, 9), "shop/db-0 … db-9 (5 of 10)"),
        (["shop/web-5d4f8c-x7k2p", "shop/web-5d4f8c-bbzz4"], "shop/web-5d4f8c-* (2 pods)"),
        (["shop/web-5d4f8c-x7k2p"], "shop/web-5d4f8c-x7k2p"),
        (["shop/web"], "shop/web"),
        (["plain-0", "plain-1", "plain-2"], "plain-0 … plain-2 (3 pods)"),
    ],
)
def test_replicas_are_one_phrase(pods: list[str], said: str) -> None:
    assert phrases(*pods) == [said]


def test_sets_are_told_apart_in_the_order_of_their_first_pods() -> None:
    assert phrases("shop/b-0", "shop/a-0", "shop/b-1") == ["shop/b-0, b-1 (2 pods)", "shop/a-0"]


def test_the_same_name_in_two_namespaces_is_two_sets() -> None:
    assert phrases("a/db-0", "b/db-1") == ["a/db-0", "b/db-1"]


def test_a_number_with_leading_zeros_is_no_ordinal() -> None:
    assert phrases("shop/db-00", "shop/db-01") == ["shop/db-00", "shop/db-01"]


def test_a_pod_named_twice_counts_once() -> None:
    assert [one.pods for one in podlists.in_series(["a/x", "a/x"])] == [1]


def test_long_lists_say_how_many_more_there_are() -> None:
    assert listed(["a", "b", "c", "d", "e"]) == "a, b, c and 2 more"


@given(st.sets(st.integers(0, 60), min_size=1))
def test_no_pod_is_lost(ordinals: set[int]) -> None:
    pods = replicas(*ordinals)
    assert sum(series.pods for series in podlists.in_series(pods)) == len(pods)
