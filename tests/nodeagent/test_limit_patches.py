"""What is changed on node and CSINode, and what is left alone."""

from typing import Any

import msgspec
import pytest

from tonnage.errors import InputError
from tonnage.nodeagent import limit_patches, provenance
from tonnage.nodeagent.beliefs import Ceiling, Memory
from tonnage.nodeagent.effective_limit import LimitSource
from tonnage.nodeagent.provenance import ANNOTATION, ProvenanceEntry, Written
from tonnage.objects.nodes import Node
from tonnage.objects.storage import CSIDriver
from tonnage.testing import builders

EBS = "ebs.csi.aws.com"
KEY = "attachable-volumes-csi-ebs.csi.aws.com"
ENTRY = ProvenanceEntry(key=KEY, count=25, source=LimitSource.DRIVER, reason="the driver says 25")


def node(entries: dict[str, ProvenanceEntry] | None = None, **published: str) -> Node:
    plain = builders.node("n", allocatable={KEY: published["count"]} if published else None)
    if entries is None:
        return plain
    annotations = {ANNOTATION: provenance.encode(entries), "other": "kept"}
    meta = msgspec.structs.replace(plain.metadata, annotations=annotations)
    return msgspec.structs.replace(plain, metadata=meta)


def status(change: Any) -> dict[str, str | None]:
    assert change["status"]["capacity"] == change["status"]["allocatable"]
    found: dict[str, str | None] = change["status"]["capacity"]
    return found


def test_a_number_is_put_in_capacity_and_allocatable() -> None:
    assert status(limit_patches.node_change(node(), {EBS: ENTRY})) == {KEY: "25"}


def test_the_annotation_says_where_it_came_from() -> None:
    change: Any = limit_patches.node_change(node(), {EBS: ENTRY})
    (text,) = change["metadata"]["annotations"].values()
    assert provenance.decode({ANNOTATION: text}) == {EBS: ENTRY}


def test_what_is_published_already_is_not_published_again() -> None:
    assert limit_patches.node_change(node({EBS: ENTRY}, count="25"), {EBS: ENTRY}) is None


def test_a_number_that_somebody_changed_is_put_right() -> None:
    change = limit_patches.node_change(node({EBS: ENTRY}, count="39"), {EBS: ENTRY})
    assert change is not None
    assert change.keys() == {"status"}
    assert status(change) == {KEY: "25"}


def test_the_key_of_a_driver_that_is_gone_is_removed_from_both() -> None:
    change: Any = limit_patches.node_change(node({EBS: ENTRY}, count="25"), {})
    assert status(change) == {KEY: None}
    assert change["metadata"] == {"annotations": {ANNOTATION: None}}


def test_a_driver_that_has_no_limit_any_more_loses_its_key() -> None:
    unlimited = ProvenanceEntry(key=KEY)
    assert status(limit_patches.node_change(node({EBS: ENTRY}, count="25"), {EBS: unlimited})) == {
        KEY: None
    }


def test_a_key_that_somebody_else_published_is_left_alone() -> None:
    assert limit_patches.node_change(node(count="39"), {}) is None


def test_a_spoilt_annotation_counts_as_none() -> None:
    assert provenance.decode({ANNOTATION: "{"}) == {}


def test_an_entry_survives_the_annotation_whole() -> None:
    whole = ProvenanceEntry(
        key=KEY,
        count=16,
        source=LimitSource.MEASURED,
        reason="because",
        memory=Memory(answered=12, believed=25, held=2),
        ceiling=Ceiling(count=16, held=4, at=5),
        csinode=Written(count=16, before=None),
    )
    assert provenance.decode({ANNOTATION: provenance.encode({EBS: whole})}) == {EBS: whole}


def drivers(period: int | None) -> dict[str, CSIDriver]:
    plain = builders.csidriver(EBS)
    spec = msgspec.structs.replace(plain.spec, node_allocatable_update_period_seconds=period)
    return {EBS: msgspec.structs.replace(plain, spec=spec)}


@pytest.mark.parametrize(
    ("listed", "period", "counts"),
    [
        ({EBS: 26}, None, {EBS: 25}),
        ({EBS: None}, None, {EBS: 25}),
        ({EBS: 25}, None, {}),
        ({EBS: 26}, 10, {}),
        ({"other.example.com": 5}, None, {}),
        ({}, None, {}),
    ],
    ids=[
        "another number is replaced",
        "so is none",
        "the right one stays",
        "one that the kubelet refreshes is the kubelet's",
        "of a driver that is not ours nothing is known",
        "a driver that is not listed is not added",
    ],
)
def test_counts_of_the_csinode(
    listed: dict[str, int | None], period: int | None, counts: dict[str, int]
) -> None:
    csinode = builders.csinode("n", listed)
    assert limit_patches.csinode_counts(csinode, {EBS: ENTRY}, drivers(period)) == counts


def test_a_count_is_changed_by_the_name_of_its_driver() -> None:
    assert limit_patches.csinode_change({EBS: 25, "a.example.com": None}) == {
        "spec": {
            "drivers": [
                {"name": "a.example.com", "allocatable": None},
                {"name": EBS, "allocatable": {"count": 25}},
            ]
        }
    }


def test_a_driver_whose_name_makes_no_key_is_refused() -> None:
    with pytest.raises(InputError, match="cannot be a resource name"):
        limit_patches.key_of("under/score/", None)
