"""From what is there to what should be: the least that has to be sent."""

import msgspec

from tests.capacity.capacity_objects import (
    NAMESPACE,
    RULES,
    a_class,
    a_node,
    its_disk,
    kinds,
    published,
    steps,
    stored,
    world,
)
from tonnage.capacity.changes import Delete, Patch, Replace, changes, removals
from tonnage.capacity.conventions import LOCAL_CSI_DRIVER, PROVISIONER_LABEL
from tonnage.capacity.desired import ProblemReason, Rules, desired
from tonnage.objects.meta import LabelSelector
from tonnage.objects.storage import CSIStorageCapacity
from tonnage.testing import builders

HERE = (a_class(), a_node("n1"))


def changed(obj: CSIStorageCapacity, **fields: object) -> CSIStorageCapacity:
    return msgspec.structs.replace(obj, **fields)


def relabelled(obj: CSIStorageCapacity, **labels: str) -> CSIStorageCapacity:
    return changed(obj, metadata=msgspec.structs.replace(obj.metadata, labels=labels))


def test_what_is_missing_is_created() -> None:
    assert kinds(steps(*HERE)) == ["create"]


def test_what_is_as_it_should_be_is_left_alone() -> None:
    assert steps(*HERE, *published(*HERE)) == []


def test_the_same_amount_in_other_words_is_no_change() -> None:
    (there,) = published(*HERE)
    assert steps(*HERE, changed(there, capacity="107374182400")) == []


def test_a_new_size_is_patched_and_nothing_else() -> None:
    (step,) = steps(a_class("fast", "200Gi"), a_node("n1"), *published(*HERE))
    assert isinstance(step, Patch)
    assert step.change == {"capacity": "200Gi"}


def test_a_largest_volume_comes_and_goes_by_patch() -> None:
    asks = a_class("fast", '{"*": {capacity: 100Gi, maximumVolumeSize: 10Gi}}')
    (step,) = steps(asks, a_node("n1"), *published(*HERE))
    assert isinstance(step, Patch)
    assert step.change == {"maximumVolumeSize": "10Gi"}
    (step,) = steps(*HERE, *published(asks, a_node("n1")))
    assert isinstance(step, Patch)
    assert step.change == {"maximumVolumeSize": None}


def test_labels_are_put_back_and_others_taken_off() -> None:
    (there,) = published(*HERE)
    (step,) = steps(*HERE, relabelled(there, mine="yes"))
    assert isinstance(step, Patch)
    assert step.change["metadata"]["labels"] == {
        "mine": None,
        "tonnage.dev/managed-by": "capacity-templates",
        "tonnage.dev/storage-class": "fast",
        "tonnage.dev/node-group": "m5",
    }


def test_an_object_made_to_look_like_a_provisioners_is_ours_still() -> None:
    (there,) = published(*HERE)
    (step,) = steps(*HERE, relabelled(there, **{PROVISIONER_LABEL: "external-provisioner"}))
    assert isinstance(step, Patch)
    assert step.change["metadata"]["labels"][PROVISIONER_LABEL] is None


def test_annotations_of_others_are_left_alone() -> None:
    (there,) = published(*HERE)
    meta = msgspec.structs.replace(there.metadata, annotations={"note": "x"})
    assert steps(*HERE, changed(there, metadata=meta)) == []


def test_what_cannot_be_changed_is_replaced() -> None:
    (there,) = published(*HERE)
    elsewhere = changed(there, node_topology=LabelSelector(match_labels={"zone": "a"}))
    (step,) = steps(*HERE, elsewhere)
    assert isinstance(step, Replace)


def test_what_is_no_longer_wanted_is_deleted() -> None:
    before = published(*HERE)
    assert kinds(steps(a_class("fast", None), a_node("n1"), *before)) == ["delete"]
    assert kinds(steps(a_class(), *before)) == ["delete"]
    assert kinds(steps(a_node("n1"), *before)) == ["delete"]


def test_a_relabelled_node_moves_its_object() -> None:
    found = steps(a_class(), a_node("n1", "c5"), *published(*HERE))
    assert kinds(found) == ["create", "delete"]


def test_an_object_without_labels_is_deleted_too_when_it_is_not_wanted() -> None:
    (there,) = published(*HERE)
    assert kinds(steps(a_class("fast", None), relabelled(there))) == ["delete"]


def test_a_wrong_annotation_deletes_nothing() -> None:
    assert steps(a_class("fast", "lots"), a_node("n1"), *published(*HERE)) == []


def test_objects_of_provisioners_are_never_touched() -> None:
    mine = its_disk("n1", "1Gi")
    here = changed(mine, metadata=msgspec.structs.replace(mine.metadata, namespace=NAMESPACE))
    marked = relabelled(
        here, **{**here.metadata.labels, "tonnage.dev/managed-by": "capacity-templates"}
    )
    assert kinds(steps(*HERE, marked)) == ["create"]
    assert removals([marked], RULES) == []


def test_objects_of_another_namespace_are_never_touched() -> None:
    (there,) = published(*HERE)
    meta = msgspec.structs.replace(there.metadata, namespace="elsewhere")
    assert kinds(steps(*HERE, changed(there, metadata=meta))) == ["create"]


def test_a_name_that_somebody_else_has_taken_is_reported_and_left_alone() -> None:
    (there,) = published(*HERE)
    taken = relabelled(changed(there, storage_class_name="slow"))
    now = world(*HERE, a_class("slow", "1Gi"), taken)
    found = changes(desired(now, RULES), {taken.metadata.name: taken}, RULES)
    assert kinds(found.steps) == ["create"]  # of the other class alone
    assert [one.reason for one in found.problems] == [ProblemReason.CONFLICT]
    assert f"{NAMESPACE}/{taken.metadata.name}" in found.problems[0].message


def test_two_pairs_that_would_share_a_vendors_name_get_two_and_the_old_one_goes() -> None:
    rules = Rules(namespace=NAMESPACE, convention=LOCAL_CSI_DRIVER)

    def vendors(name: str) -> object:
        return a_class(
            name, "1Gi", annotation=LOCAL_CSI_DRIVER.annotation, driver=LOCAL_CSI_DRIVER.provisioner
        )

    node = a_node("n1")
    before = published(vendors("a.b"), node, rules=rules)
    found = steps(vendors("a.b"), vendors("a-b"), node, *before, rules=rules)
    assert kinds(found) == ["create", "create", "delete"]


def test_the_vendors_objects_are_taken_over_as_they_are() -> None:
    rules = Rules(namespace=NAMESPACE, convention=LOCAL_CSI_DRIVER)
    asks = a_class(
        "local", "1Gi", annotation=LOCAL_CSI_DRIVER.annotation, driver=LOCAL_CSI_DRIVER.provisioner
    )
    theirs = builders.capacity(
        "local-csi-template-local-m5", "local", free="1Gi", namespace=NAMESPACE,
        topology={
            "node.kubernetes.io/instance-type": "m5",
            "cluster-autoscaler.kubernetes.io/template-node": "true",
        },
    )  # fmt: skip
    labels = {
        "localdisk.csi.acstor.io/managed-by": "capacitytemplate",
        "localdisk.csi.acstor.io/storageclass": "local",
        "localdisk.csi.acstor.io/node-group": "m5",
    }
    assert steps(asks, a_node("n1"), stored(relabelled(theirs, **labels)), rules=rules) == []


def test_everything_of_ours_and_nothing_else_is_removed_at_the_end() -> None:
    ours = published(*HERE, a_node("n2", "c5"))
    others = [its_disk("n1", "1Gi"), builders.capacity("x", "fast", namespace=NAMESPACE)]
    assert removals([*ours, *others], RULES) == [Delete(one) for one in ours]
