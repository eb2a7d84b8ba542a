"""Axes of changes, and the variants they span."""

import pytest

from tonnage.errors import InputError
from tonnage.sweep import variants
from tonnage.sweep.variants import Axis, ListedVariant, Space


@pytest.mark.parametrize(
    ("text", "label", "values"),
    [
        ("limit=disk.example.com:16,25", "limit=disk.example.com", ("16", "25")),
        ("max-size=g:0..10..5", "max-size=g", ("0", "5", "10")),
        ("price=g:0.1..0.3..0.1", "price=g", ("0.1", "0.2", "0.3")),
        ("price=g:0.1..0.35..0.1", "price=g", ("0.1", "0.2", "0.3")),
        ("replicas=shop/db-0:1..2,9", "replicas=shop/db-0", ("1", "2", "9")),
        ("seed=8..10", "seed", ("8", "9", "10")),
        ("remove-node=-,n1", "remove-node", ("-", "n1")),
        ("option=expander:price,random", "option=expander", ("price", "random")),
        ("add-pods=a..b.yaml", "add-pods", ("a..b.yaml",)),
    ],
)
def test_an_axis_is_read(text: str, label: str, values: tuple[str, ...]) -> None:
    assert variants.axis(text) == Axis(label, values)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("nonsense=1", "expected one of limit=...:VALUES"),
        ("limit=5", "expected one of"),
        ("seed=", "expected one of"),
        ("seed=1,,2", "an empty value"),
        ("seed=3..1", "the smaller first"),
        ("seed=1..9..0", "the smaller first"),
        ("seed=1,2,1", "a value is there twice"),
        ("seed=0..1000000", "1,000,001 values"),
    ],
)
def test_what_is_no_axis_is_refused(text: str, told: str) -> None:
    with pytest.raises(InputError, match=told):
        variants.axis(text)


def test_every_variant_is_there_once() -> None:
    space = Space(2, variants.axes(["max-size=g:1..3", "limit=d:4,5"]))
    found = [space.variant(position) for position in range(len(space))]
    assert len(found) == len({(one.cluster, one.changes) for one in found}) == 12


def test_what_needs_no_new_cluster_varies_fastest() -> None:
    space = Space(1, variants.axes(["price=g:1,2", "limit=d:4,5"]))
    assert [space.variant(position).changes for position in range(4)] == [
        ("limit=d:4", "price=g:1"),
        ("limit=d:4", "price=g:2"),
        ("limit=d:5", "price=g:1"),
        ("limit=d:5", "price=g:2"),
    ]


def test_a_dash_is_the_cluster_as_it_is() -> None:
    variant = Space(1, variants.axes(["remove-node=-,n1"])).variant(0)
    assert (variant.name, variant.changes, variant.values) == ("as it is", (), {"remove-node": "-"})


def test_listed_variants_are_taken_over_the_whole_grid() -> None:
    listed = [ListedVariant("sale", ("replicas=shop/db-0:9",)), ListedVariant("usual", ())]
    space = Space(1, variants.axes(["limit=d:4,5"]), listed)
    assert [space.variant(position).name for position in range(len(space))] == [
        "sale, limit=d:4",
        "sale, limit=d:5",
        "usual, limit=d:4",
        "usual, limit=d:5",
    ]


def test_the_same_cannot_be_varied_twice() -> None:
    with pytest.raises(InputError, match="limit=d is varied twice"):
        Space(1, variants.axes(["limit=d:4", "limit=d:5"]))


def test_variants_are_not_made_before_they_are_asked_for() -> None:
    space = Space(1, variants.axes(["seed=0..99999", "price=g:1..100"]))
    assert len(space) == 10_000_000
    assert space.variant(9_999_999).changes == ("seed=99999", "price=g:100")


def test_more_variants_than_anybody_waits_for_are_refused() -> None:
    with pytest.raises(InputError, match="20,000,000 variants: expected at most 10,000,000"):
        Space(2, variants.axes(["seed=0..99999", "price=g:1..100"]))
