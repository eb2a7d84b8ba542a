"""Each code is found where it should be, and not where nothing is wrong."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from tests.doctor import broken_clusters
from tests.doctor.broken_clusters import EBS, found
from tonnage.doctor import codes
from tonnage.groups.model import TEMPLATE_NODE_LABEL
from tonnage.objects.meta import LabelRequirement, ObjectMeta
from tonnage.objects.nodes import Node
from tonnage.objects.storage import OPT_IN_ANNOTATION, CSIDriver, CSIDriverSpec
from tonnage.testing import builders

OPTED_IN = builders.csidriver(EBS, opt_in=True)
KUBELET = builders.csinode("n1", {EBS: 25})

ALL_RIGHTS = (
    broken_clusters.rule("", "nodes", "pods", "persistentvolumeclaims", "persistentvolumes"),
    broken_clusters.rule(
        "storage.k8s.io", "storageclasses", "csinodes", "csidrivers", "csistoragecapacities"
    ),
)

SICK: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "TON101": ((OPTED_IN,), {"beside": [broken_clusters.upstream()]}),
    "TON102": ((OPTED_IN, broken_clusters.group("g", csinode=False)), {}),
    "TON103": ((OPTED_IN,), {"version": "1.36"}),
    "TON104": ((broken_clusters.applied_with("preventPodSchedulingIfMissing"),), {}),
    "TON105": ((broken_clusters.opted_in_by_annotation(),), {}),
    "TON106": ((broken_clusters.applied_with("preventPodPlacementWithoutDriver"),), {}),
    "TON201": ((builders.storage_class("fast", EBS),), {}),
    "TON202": ((builders.node("n1"), builders.csinode("n1"), broken_clusters.group_of("n1")), {}),
    "TON203": (
        (
            *(broken_clusters.typed(name) for name in ("n1", "n2", "n3")),
            *(builders.csinode(name, {EBS: 25}) for name in ("n1", "n2")),
            builders.csinode("n3"),
        ),
        {},
    ),
    "TON301": ((broken_clusters.typed("n1"), builders.csinode("n1", {EBS: None})), {}),
    "TON302": (
        (
            *(broken_clusters.typed(name) for name in ("n1", "n2", "n3")),
            *(builders.csinode(name, {EBS: 25}) for name in ("n1", "n2")),
            builders.csinode("n3", {EBS: 13}),
        ),
        {},
    ),
    "TON303": ((broken_clusters.typed("n1"), builders.csinode("n1", {EBS: 39})), {}),
    "TON304": (
        (
            broken_clusters.typed("n1"),
            builders.csinode("n1", {EBS: 2}),
            *broken_clusters.users("n1", 3),
        ),
        {},
    ),
    "TON305": ((broken_clusters.typed("n1"), builders.csinode("n1", {EBS: 0})), {}),
    "TON306": ((broken_clusters.typed("n1"), broken_clusters.typed("n2"), KUBELET), {}),
    "TON307": (
        (
            broken_clusters.typed("n1"),
            builders.csinode("n1", {EBS: 3}),
            *broken_clusters.users("n1", 3),
        ),
        {},
    ),
    "TON308": (
        (
            broken_clusters.typed("n1"),
            builders.csinode("n1", {EBS: 3}),
            *broken_clusters.users("n1", 3),
            *broken_clusters.waiting("late"),
        ),
        {},
    ),
    "TON401": ((broken_clusters.tainted(EBS), builders.csidriver(EBS), KUBELET), {}),
    "TON501": ((), {"beside": [broken_clusters.upstream(), *broken_clusters.role(*ALL_RIGHTS)]}),
    "TON601": ((), {"beside": [broken_clusters.scheduler()]}),
    "TON602": ((), {"beside": [broken_clusters.scheduler(nodeCacheCapable=True, ignorable=True)]}),
    "TON701": ((*broken_clusters.local(),), {"beside": [broken_clusters.upstream()]}),
    "TON702": (
        (*broken_clusters.local(), broken_clusters.for_templates("100Gi", type_="gone")),
        {},
    ),
    "TON703": ((*broken_clusters.local(), broken_clusters.for_templates("200Gi")), {}),
    "TON704": ((broken_clusters.asking_for_capacity(),), {}),
    "TON705": ((builders.node("n1", labels={TEMPLATE_NODE_LABEL: "true"}),), {}),
}

WELL: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "TON101": (
        (OPTED_IN,),
        {"beside": [broken_clusters.upstream("--enable-csi-node-aware-scheduling=true")]},
    ),
    "TON102": ((OPTED_IN, broken_clusters.group("g", csinode=True)), {}),
    "TON103": ((OPTED_IN,), {"version": "1.36", "gates": {"VolumeLimitScaling": True}}),
    "TON104": ((OPTED_IN,), {}),
    "TON105": (
        (broken_clusters.opted_in_by_annotation(),),
        {"beside": [broken_clusters.deployment("tonnage", "extender")]},
    ),
    "TON106": ((broken_clusters.applied_with("preventPodSchedulingIfMissing"),), {}),
    "TON201": ((builders.storage_class("fast", EBS), builders.csidriver(EBS)), {}),
    "TON202": (
        (
            builders.node("n1"),
            builders.csinode("n1"),
            broken_clusters.group_of("n1"),
            builders.csinode("elsewhere", {EBS: 25}),
        ),
        {},
    ),
    "TON203": (
        (
            *(broken_clusters.typed(name) for name in ("n1", "n2")),
            broken_clusters.typed("n3", "m7i.48xlarge"),
            *(builders.csinode(name, {EBS: 25}) for name in ("n1", "n2")),
            builders.csinode("n3"),
        ),
        {},
    ),
    "TON301": ((broken_clusters.typed("n1"), KUBELET), {}),
    "TON302": (
        (
            broken_clusters.typed("n1", "m5.large"),
            broken_clusters.typed("n2", "m7i.48xlarge"),
            KUBELET,
            builders.csinode("n2", {EBS: 13}),
        ),
        {},
    ),
    "TON303": ((broken_clusters.typed("n1"), KUBELET), {}),
    "TON304": (
        (
            broken_clusters.typed("n1"),
            builders.csinode("n1", {EBS: 3}),
            *broken_clusters.users("n1", 3),
        ),
        {},
    ),
    "TON305": ((broken_clusters.typed("n1"), builders.csinode("n1", {EBS: 1})), {}),
    "TON306": ((broken_clusters.typed("n1"), KUBELET), {}),
    "TON307": (
        (
            *(broken_clusters.typed(name) for name in ("n1", "n2")),
            *(builders.csinode(name, {EBS: 3}) for name in ("n1", "n2")),
            *broken_clusters.users("n1", 3),
        ),
        {},
    ),
    "TON308": (
        (
            broken_clusters.typed("n1"),
            builders.csinode("n1", {EBS: 3}),
            *broken_clusters.waiting("late"),
        ),
        {},
    ),
    "TON401": ((broken_clusters.tainted(EBS), builders.csidriver(EBS)), {}),
    "TON501": (
        (),
        {
            "beside": [
                broken_clusters.upstream(),
                *broken_clusters.role(
                    *ALL_RIGHTS, broken_clusters.rule("storage.k8s.io", "volumeattachments")
                ),
            ]
        },
    ),
    "TON601": ((), {"beside": [broken_clusters.scheduler(nodeCacheCapable=True)]}),
    "TON602": ((), {"beside": [broken_clusters.scheduler(nodeCacheCapable=True)]}),
    "TON701": (
        (*broken_clusters.local(), broken_clusters.for_templates("100Gi")),
        {"beside": [broken_clusters.upstream()]},
    ),
    "TON702": ((*broken_clusters.local(), broken_clusters.for_templates("100Gi")), {}),
    "TON703": ((*broken_clusters.local(), broken_clusters.for_templates("105Gi")), {}),
    "TON704": ((broken_clusters.asking_for_capacity(), broken_clusters.for_templates("100Gi")), {}),
    "TON705": ((builders.node("n1"),), {}),
}


def test_every_code_is_tried_both_ways() -> None:
    assert set(SICK) == set(WELL) == set(codes.ALL)


@pytest.mark.parametrize("code", SICK)
def test_what_is_wrong_is_found(code: str) -> None:
    objects, more = SICK[code]
    assert len(found(code, *objects, **more)) == 1


@pytest.mark.parametrize("code", WELL)
def test_what_is_right_is_left_alone(code: str) -> None:
    objects, more = WELL[code]
    assert found(code, *objects, **more) == []


@pytest.mark.parametrize("program", ["tonnage-extender", "tonnage-scheduler"])
def test_a_pod_of_ours_enforces_the_opt_in_as_a_deployment_does(program: str) -> None:
    pod = builders.pod("x", labels={"app.kubernetes.io/name": program})
    assert found("TON103", OPTED_IN, pod, version="1.36") == []
    assert found("TON105", broken_clusters.opted_in_by_annotation(), pod) == []


def test_a_field_that_was_dropped_is_made_up_for_by_the_annotation() -> None:
    dropped = broken_clusters.applied_with("preventPodSchedulingIfMissing")
    annotations = {**dropped.metadata.annotations, OPT_IN_ANNOTATION: "true"}
    assert found("TON104", broken_clusters.annotated(dropped, **annotations)) == []


def test_a_name_that_no_server_knows_is_found_in_what_is_still_to_be_applied() -> None:
    spec = CSIDriverSpec(prevent_pod_placement_without_driver=True)
    (one,) = found("TON106", CSIDriver(metadata=ObjectMeta(name=EBS), spec=spec))
    assert one.message.startswith("written with preventPodPlacementWithoutDriver")


def test_the_remedy_for_a_dropped_field_says_who_reads_the_annotation() -> None:
    fix = codes.explained("TON104").fix
    assert "run tonnage extender or tonnage scheduler" in fix
    assert "kube-scheduler does not read it" in fix


def test_the_worst_comes_first() -> None:
    from tonnage.doctor import inspection

    objects, _ = SICK["TON304"]
    warned = builders.storage_class("fast", EBS)
    severities = [
        one.severity for one in inspection.inspect(broken_clusters.evidence(warned, *objects))
    ]
    assert severities == sorted(severities, key=["error", "warning", "info"].index)


def test_a_taint_for_a_driver_that_is_not_in_the_cluster_waits_for_ever() -> None:
    (finding,) = found("TON401", broken_clusters.tainted("gone.example.com"))
    assert "not in the cluster" in finding.message


def test_capacity_for_new_nodes_is_known_by_expressions_too() -> None:
    by_label = broken_clusters.for_templates("100Gi")
    topology = builders.selecting(
        {},
        LabelRequirement(key=TEMPLATE_NODE_LABEL, operator="Exists"),
        LabelRequirement(key=broken_clusters.TYPE, operator="NotIn", values=("m5.large",)),
    )
    by_expression = msgspec.structs.replace(by_label, node_topology=topology)
    assert found("TON702", *broken_clusters.local(), by_label) == []
    assert len(found("TON702", *broken_clusters.local(), by_expression)) == 1


def test_a_limit_below_what_full_interfaces_leave_is_told() -> None:
    (finding,) = found("TON303", broken_clusters.typed("n1"), builders.csinode("n1", {EBS: 3}))
    assert finding.severity == "warning"


def test_a_limit_that_interfaces_explain_is_not_told() -> None:
    assert found("TON303", broken_clusters.typed("n1"), builders.csinode("n1", {EBS: 24})) == []


def test_rights_are_judged_only_where_all_roles_are_at_hand() -> None:
    _, binding = broken_clusters.role(*ALL_RIGHTS)
    assert found("TON501", beside=[broken_clusters.upstream(), binding]) == []


def test_a_missing_right_names_verb_kind_and_group() -> None:
    _, more = SICK["TON501"]
    (finding,) = found("TON501", **more)
    assert "list and watch volumeattachments of group storage.k8s.io" in finding.message


def young(name: str) -> Node:
    """A node that may yet register its drivers."""
    node = builders.node(name, labels={broken_clusters.TYPE: "m5.large"})
    created = f"{datetime.fromtimestamp(broken_clusters.NOW - 60, UTC):%Y-%m-%dT%H:%M:%SZ}"
    meta = msgspec.structs.replace(node.metadata, creation_timestamp=created)
    return msgspec.structs.replace(node, metadata=meta)


def test_a_driver_that_only_a_template_lists_is_named_with_its_group() -> None:
    objects, more = SICK["TON202"]
    (finding,) = found("TON202", *objects, **more)
    assert (finding.object, finding.facts["driver"]) == ("NodeGroup g", EBS)


def test_nodes_that_may_yet_register_prove_nothing_against_a_template() -> None:
    assert (
        found("TON202", young("n1"), builders.csinode("n1"), broken_clusters.group_of("n1")) == []
    )


def test_a_node_that_may_yet_register_is_not_behind_its_siblings() -> None:
    siblings = [broken_clusters.typed("n1"), broken_clusters.typed("n2")]
    listed = [builders.csinode(name, {EBS: 25}) for name in ("n1", "n2")]
    assert found("TON203", *siblings, *listed, young("n3"), builders.csinode("n3")) == []


def test_a_class_that_wants_no_capacity_published_is_left_alone() -> None:
    assert found("TON704", broken_clusters.asking_for_capacity("none")) == []


def test_an_annotation_that_cannot_be_read_is_told_with_what_is_wrong() -> None:
    (finding,) = found("TON704", broken_clusters.asking_for_capacity("many"))
    assert "many" in finding.message


def test_a_used_disk_is_not_compared_with_a_new_one() -> None:
    volume = broken_clusters.on_disk("n1")
    assert (
        found(
            "TON703", *broken_clusters.local("60Gi"), broken_clusters.for_templates("100Gi"), volume
        )
        == []
    )


def test_a_used_disk_with_more_free_than_a_new_one_is_told() -> None:
    volume = broken_clusters.on_disk("n1")
    assert (
        len(
            found(
                "TON703",
                *broken_clusters.local("200Gi"),
                broken_clusters.for_templates("100Gi"),
                volume,
            )
        )
        == 1
    )
