"""Names and labels: valid, never shared by two pairs, and enough to know whose an object is."""

import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.capacity.capacity_objects import NAMESPACE
from tonnage.capacity import conventions
from tonnage.capacity.conventions import LOCAL_CSI_DRIVER, OURS, Convention, Pair
from tonnage.objects.meta import LabelSelector, ObjectMeta
from tonnage.objects.storage import CSIStorageCapacity

DNS = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
LABEL = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?")
KEY = "node.kubernetes.io/instance-type"

classes = st.from_regex(r"[a-z0-9]([-a-z0-9.]{0,80}[a-z0-9])?", fullmatch=True) | st.just("a" * 253)
values = st.from_regex(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", fullmatch=True)
groups = st.dictionaries(st.sampled_from(["a/pool", "b/pool", "zone"]), values, min_size=1).map(
    lambda found: tuple(sorted(found.items()))
)
pairs = st.tuples(classes, groups)


def pair(class_name: str, group: str, key: str = KEY) -> Pair:
    return class_name, ((key, group),)


def an_object(convention: Convention, of: Pair, *others: Pair) -> CSIStorageCapacity:
    return CSIStorageCapacity(
        metadata=ObjectMeta(
            name=convention.names([of, *others])[of],
            namespace=NAMESPACE,
            labels=convention.labels(of),
        ),
        storage_class_name=of[0],
        node_topology=conventions.selector(of[1]),
    )


@pytest.mark.parametrize("convention", [OURS, LOCAL_CSI_DRIVER])
@given(wanted=st.sets(pairs, max_size=8))
def test_every_pair_has_a_valid_name_of_its_own(convention: Convention, wanted: set[Pair]) -> None:
    names = convention.names(wanted)
    assert len(set(names.values())) == len(wanted)
    assert all(DNS.fullmatch(name) and len(name) <= 253 for name in names.values())


@pytest.mark.parametrize("convention", [OURS, LOCAL_CSI_DRIVER])
@given(of=pairs)
def test_labels_are_valid(convention: Convention, of: Pair) -> None:
    found = convention.labels(of).values()
    assert all(LABEL.fullmatch(value) and len(value) <= 63 for value in found)


@pytest.mark.parametrize("convention", [OURS, LOCAL_CSI_DRIVER])
@given(of=pairs)
def test_an_object_is_known_by_its_name_without_any_label(convention: Convention, of: Pair) -> None:
    made = an_object(convention, of)
    meta = msgspec.structs.replace(made.metadata, labels={})
    assert convention.owns(msgspec.structs.replace(made, metadata=meta))


def test_our_names_have_a_hash_always() -> None:
    name = OURS.names([pair("local", "m5")])[pair("local", "m5")]
    assert re.fullmatch(r"tonnage-template-local-m5-[0-9a-f]{10}", name)


@pytest.mark.parametrize(
    ("class_name", "group", "name"),
    [
        ("local", "Standard_L8s_v3", "local-csi-template-local-standard-l8s-v3"),
        ("My_SC", "Group/01", "local-csi-template-my-sc-group-01"),
    ],
)
def test_the_vendors_names_are_kept(class_name: str, group: str, name: str) -> None:
    of = pair(class_name, group)
    assert LOCAL_CSI_DRIVER.names([of])[of] == name


def test_a_long_name_is_cut_as_the_vendor_does() -> None:
    of = pair("a" * 300, "group")
    name = LOCAL_CSI_DRIVER.names([of])[of]
    assert (len(name), name[-9:]) == (253, "-46e12327")


def test_the_vendors_names_are_hashed_only_where_they_would_be_shared() -> None:
    first, second, alone = pair("a.b", "m5"), pair("a-b", "m5"), pair("c", "m5")
    names = LOCAL_CSI_DRIVER.names([first, second, alone])
    assert names[alone] == "local-csi-template-c-m5"
    assert names[first] != names[second]
    assert all(names[one].startswith("local-csi-template-a-b-m5-") for one in (first, second))


def test_an_object_of_a_provisioner_is_never_ours_by_its_labels() -> None:
    labels = {OURS.manager_label: OURS.manager, conventions.PROVISIONER_LABEL: "x"}
    made = CSIStorageCapacity(
        metadata=ObjectMeta(name="csisc-abcde", labels=labels), storage_class_name="fast",
        node_topology=LabelSelector(match_labels={"kubernetes.io/hostname": "n1"}),
    )  # fmt: skip
    assert not OURS.owns(made)


def test_an_object_with_our_label_is_ours_under_any_other_name() -> None:
    made = an_object(OURS, pair("fast", "m5"))
    renamed = msgspec.structs.replace(made.metadata, name="from-an-older-version")
    assert OURS.owns(msgspec.structs.replace(made, metadata=renamed))


def test_a_strangers_object_is_not_ours_for_having_our_name() -> None:
    made = an_object(OURS, pair("fast", "m5"))
    taken = msgspec.structs.replace(
        made, storage_class_name="slow", metadata=ObjectMeta(name=made.metadata.name)
    )
    assert not OURS.owns(taken)
