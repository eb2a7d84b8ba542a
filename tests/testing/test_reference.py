"""The reference's pipeline and replay: who refuses first, and what placing a pod changes."""

import msgspec
import pytest

from tonnage.errors import InputError
from tonnage.objects.meta import LabelSelector
from tonnage.objects.pods import (
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PodAffinityTerm,
    ResourceClaimReference,
    TopologySpreadConstraint,
)
from tonnage.testing import builders
from tonnage.testing.reference import ReferenceCluster, ReferenceVerdict, verdicts

LOCAL = "local.csi.example"


def only(cluster: ReferenceCluster, name: str) -> list[ReferenceVerdict]:
    (pod,) = (pod for pod in cluster.pending() if pod.metadata.name == name)
    return verdicts(cluster, pod)


def feasible(cluster: ReferenceCluster, name: str) -> list[str]:
    return [verdict.node for verdict in only(cluster, name) if verdict.code == "Success"]


def test_a_gated_pod_is_never_tried() -> None:
    cluster = ReferenceCluster([builders.node("n1"), builders.pod("web", gates=["a", "b"])])

    assert only(cluster, "web") == [
        ReferenceVerdict(
            pod="default/web",
            node="n1",
            phase="PreEnqueue",
            plugin="SchedulingGates",
            code="UnschedulableAndUnresolvable",
            reasons=("waiting for scheduling gates: [a b]",),
        )
    ]


def test_only_the_first_failing_filter_is_named() -> None:
    cordoned_and_full = builders.node("n1", cpu="1", unschedulable=True)
    cluster = ReferenceCluster([cordoned_and_full, builders.pod("web", cpu="2")])

    assert [verdict.plugin for verdict in only(cluster, "web")] == ["NodeUnschedulable"]


def test_nodes_outside_the_named_ones_are_not_looked_at() -> None:
    by_name = NodeSelectorRequirement(key="metadata.name", operator="In", values=("n2",))
    affinity = NodeSelector(node_selector_terms=(NodeSelectorTerm(match_fields=(by_name,)),))
    cluster = ReferenceCluster(
        [
            builders.node("n1", unschedulable=True),
            builders.node("n2"),
            builders.pod("web", node_affinity=affinity),
        ]
    )
    left_out, found = only(cluster, "web")

    assert (left_out.phase, left_out.plugin) == ("PreFilter", "NodeAffinity")
    assert left_out.reasons == ("node(s) didn't satisfy plugin(s) [NodeAffinity]",)
    assert found.code == "Success"


def test_names_that_exclude_each_other_refuse_the_pod() -> None:
    terms = tuple(
        NodeSelectorRequirement(key="metadata.name", operator="In", values=(name,))
        for name in ("n1", "n2")
    )
    affinity = NodeSelector(node_selector_terms=(NodeSelectorTerm(match_fields=terms),))
    cluster = ReferenceCluster([builders.node("n1"), builders.pod("web", node_affinity=affinity)])

    assert [verdict.reasons for verdict in only(cluster, "web")] == [
        ("pod affinity terms conflict",)
    ]


def test_a_failing_pod_on_a_node_fails_the_attempt_there_alone() -> None:
    claim = builders.pvc("data", volume="data")
    broken = builders.pod("broken", on="n1", ephemeral=["scratch"])
    cluster = ReferenceCluster(
        [
            builders.node("n1"),
            builders.node("n2"),
            builders.csinode("n1", {LOCAL: 5}),
            builders.csinode("n2", {LOCAL: 5}),
            claim,
            builders.pv("data", driver=LOCAL, claim=claim),
            builders.pvc("broken-scratch"),
            broken,
            builders.pod("db", pvcs=["data"]),
        ]
    )
    failed, found = only(cluster, "db")

    assert (failed.plugin, failed.code) == ("NodeVolumeLimits", "Error")
    assert failed.reasons[0].startswith('running "NodeVolumeLimits" filter plugin: PVC default/')
    assert found.code == "Success"


def test_pods_that_are_finished_or_on_unknown_nodes_take_nothing() -> None:
    cluster = ReferenceCluster(
        [
            builders.node("n1", cpu="1"),
            builders.pod("done", on="n1", cpu="1", phase="Succeeded"),
            builders.pod("nowhere", on="gone", cpu="1"),
            builders.pod("web", cpu="1"),
        ]
    )

    assert feasible(cluster, "web") == ["n1"]


def test_resource_claims_are_warned_about() -> None:
    plain = builders.pod("web")
    spec = msgspec.structs.replace(
        plain.spec, resource_claims=(ResourceClaimReference(name="gpu"),)
    )
    cluster = ReferenceCluster([builders.node("n1"), msgspec.structs.replace(plain, spec=spec)])

    assert len(only(cluster, "web")[0].warnings) == 1


def test_a_placed_pod_takes_its_room_until_it_is_removed() -> None:
    first = builders.pod("first", cpu="3")
    cluster = ReferenceCluster(
        [builders.node("n1", cpu="4"), first, builders.pod("second", cpu="3")]
    )
    cluster.place(first, "n1")
    assert feasible(cluster, "second") == []

    cluster.remove(first)
    assert feasible(cluster, "second") == ["n1"]


def test_a_placed_pod_no_longer_waits() -> None:
    pod = builders.pod("web")
    cluster = ReferenceCluster([builders.node("n1"), pod])
    cluster.place(pod, "n1")

    assert cluster.pending() == []


def test_a_pod_is_placed_once() -> None:
    pod = builders.pod("web")
    cluster = ReferenceCluster([builders.node("n1"), builders.node("n2"), pod])
    cluster.place(pod, "n1")

    with pytest.raises(InputError, match="default/web"):
        cluster.place(pod, "n2")


def test_a_new_node_comes_with_its_pods() -> None:
    agent = builders.pod("agent", cpu="3")
    cluster = ReferenceCluster([builders.pod("web", cpu="2")])
    cluster.add_node(builders.node("n1", cpu="4"), None, [agent])

    assert [verdict.reasons for verdict in only(cluster, "web")] == [("Insufficient cpu",)]


def two_with_one_claim() -> tuple[Pod, ReferenceCluster]:
    first = builders.pod("first", pvcs=["shared"])
    return first, ReferenceCluster(
        [
            builders.node("n1"),
            builders.node("n2"),
            builders.storage_class("fast", LOCAL),
            builders.pvc("shared", storage_class="fast"),
            first,
            builders.pod("second", pvcs=["shared"]),
        ]
    )


def test_placing_pins_a_claim_that_has_to_be_provisioned() -> None:
    first, cluster = two_with_one_claim()
    cluster.place(first, "n2")
    assert feasible(cluster, "second") == ["n2"]

    cluster.remove(first)
    assert feasible(cluster, "second") == ["n1", "n2"]


def test_placing_takes_the_volume_that_was_chosen() -> None:
    first = builders.pod("first", pvcs=["a"])
    cluster = ReferenceCluster(
        [
            builders.node("n1"),
            builders.storage_class("static", "kubernetes.io/no-provisioner"),
            builders.pvc("a", storage_class="static"),
            builders.pvc("b", storage_class="static"),
            builders.pv("disk", storage_class="static"),
            first,
            builders.pod("second", pvcs=["b"]),
        ]
    )
    assert feasible(cluster, "second") == ["n1"]

    cluster.place(first, "n1")
    assert [verdict.reasons for verdict in only(cluster, "second")] == [
        ("node(s) didn't find available persistent volumes to bind",)
    ]


def test_volumes_may_be_left_alone() -> None:
    first, cluster = two_with_one_claim()
    cluster.place(first, "n2", assume_volumes=False)

    assert feasible(cluster, "second") == ["n1", "n2"]


def test_a_claim_named_twice_takes_two_volumes() -> None:
    cluster = ReferenceCluster(
        [
            builders.node("n1"),
            builders.storage_class("static", "kubernetes.io/no-provisioner"),
            builders.pvc("a", storage_class="static"),
            builders.pv("disk", storage_class="static"),
            builders.pod("web", pvcs=["a", "a"]),
        ]
    )

    assert feasible(cluster, "web") == []


def test_a_missing_volume_is_found_by_zone_first_unless_the_claim_is_ephemeral() -> None:
    owner = builders.pod("eph", ephemeral=["scratch"])
    cluster = ReferenceCluster(
        [
            builders.node("n1"),
            builders.pvc("data", volume="gone"),
            builders.pvc("eph-scratch", volume="gone", owner=owner),
            builders.pod("db", pvcs=["data"]),
            owner,
        ]
    )

    assert [(v.phase, v.plugin) for v in only(cluster, "db")] == [("PreFilter", "VolumeZone")]
    assert [(v.phase, v.plugin) for v in only(cluster, "eph")] == [("Filter", "VolumeBinding")]


def test_an_empty_spread_selector_counts_nobody_but_the_pod_itself() -> None:
    constraint = TopologySpreadConstraint(
        max_skew=1, topology_key=builders.HOSTNAME, label_selector=LabelSelector()
    )
    cluster = ReferenceCluster(
        [
            builders.node("n1"),
            builders.node("n2"),
            builders.pod("there", on="n1"),
            builders.pod("there-too", on="n1"),
            builders.pod("web", spread=[constraint]),
        ]
    )

    assert feasible(cluster, "web") == ["n1", "n2"]


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        pytest.param(LabelSelector(), ["n1"], id="an empty selector needs no Namespace object"),
        pytest.param(
            builders.selecting({"kubernetes.io/metadata.name": "hidden"}),
            [],
            id="any other selects only namespaces that exist",
        ),
    ],
)
def test_namespaces_of_the_new_pods_terms(selector: LabelSelector, found: list[str]) -> None:
    term = PodAffinityTerm(
        topology_key=builders.HOSTNAME,
        label_selector=builders.selecting({"app": "db"}),
        namespace_selector=selector,
    )
    cluster = ReferenceCluster(
        [
            builders.node("n1"),
            builders.pod("db", namespace="hidden", labels={"app": "db"}, on="n1"),
            builders.pod("web", near=[term]),
        ]
    )

    assert feasible(cluster, "web") == found


def test_the_first_of_a_group_may_go_anywhere_with_the_key() -> None:
    term = PodAffinityTerm(
        topology_key=builders.ZONE, label_selector=builders.selecting({"app": "db"})
    )
    cluster = ReferenceCluster(
        [
            builders.node("n1", zone="z1"),
            builders.node("n2"),
            builders.pod("db-0", labels={"app": "db"}, near=[term]),
        ]
    )

    assert feasible(cluster, "db-0") == ["n1"]


def test_a_node_without_the_label_is_not_in_the_domain_of_an_empty_value() -> None:
    term = PodAffinityTerm(topology_key="rack", label_selector=builders.selecting({"app": "db"}))
    cluster = ReferenceCluster(
        [
            builders.node("n1", labels={"rack": ""}),
            builders.node("n2"),
            builders.pod("db-0", labels={"app": "db"}, on="n1"),
            builders.pod("db-1", labels={"app": "db"}, apart=[term]),
        ]
    )

    assert feasible(cluster, "db-1") == ["n2"]
