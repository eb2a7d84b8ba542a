"""The pipeline: who is asked first, what stops the asking, and how it is put into one line."""

import msgspec
import pytest

from tests.rules.asking import verdict, verdicts, version
from tonnage.objects.nodes import Taint
from tonnage.objects.pods import (
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PodAffinityTerm,
    ResourceClaimReference,
    TopologySpreadConstraint,
)
from tonnage.objects.volume_sources import AWSElasticBlockStoreSource, VolumeSource
from tonnage.rules import pipeline, registry
from tonnage.rules.framework import Code
from tonnage.testing.builders import (
    HOSTNAME,
    ZONE,
    csidriver,
    csinode,
    node,
    nodes_with,
    pod,
    pv,
    pvc,
    selecting,
    storage_class,
)

EBS = "ebs.csi.aws.com"
DISK = VolumeSource(
    name="disk", aws_elastic_block_store=AWSElasticBlockStoreSource(volume_id="vol-1")
)
SELF = selecting({"app": "web"})
EVERYTHING_WRONG = pod(
    "web",
    labels={"app": "web"},
    cpu="5",
    host_ports=[80],
    pvcs=["data"],
    volumes=[DISK],
    node_selector={"disk": "ssd"},
    spread=[TopologySpreadConstraint(max_skew=1, topology_key=HOSTNAME, label_selector=SELF)],
    apart=[PodAffinityTerm(topology_key=HOSTNAME, label_selector=SELF)],
)
ORDER = (
    "NodeUnschedulable",
    "TaintToleration",
    "NodeAffinity",
    "NodePorts",
    "NodeResourcesFit",
    "VolumeRestrictions",
    "NodeVolumeLimits",
    "VolumeBinding",
    "VolumeZone",
    "PodTopologySpread",
    "InterPodAffinity",
)


def refusing_from(place: int) -> list[object]:
    """A cluster where the rule at `place` and all after it refuse the pod, and none before it."""
    wrong = set(ORDER[place:])
    claim = pvc("data", storage_class="class", volume="pv")
    far = nodes_with("rack", "r9")
    labels = {"disk": "hdd" if "NodeAffinity" in wrong else "ssd", ZONE: "a"}
    return [
        node(
            "n1",
            cpu="4" if "NodeResourcesFit" in wrong else "64",
            labels=labels,
            unschedulable="NodeUnschedulable" in wrong,
            taints=[Taint(key="x", effect="NoSchedule")] if "TaintToleration" in wrong else [],
        ),
        node("n2", labels={"disk": "ssd"}),
        csinode("n1", {EBS: 0 if "NodeVolumeLimits" in wrong else 9}),
        claim,
        pv(
            "pv",
            driver=EBS,
            claim=claim,
            labels={ZONE: "b" if "VolumeZone" in wrong else "a"},
            node_affinity=far if "VolumeBinding" in wrong else None,
        ),
        pod("port", on="n1", host_ports=[80] if "NodePorts" in wrong else []),
        pod("disk", on="n1", volumes=[DISK] if "VolumeRestrictions" in wrong else []),
        *(
            [pod("sibling", on="n1", labels={"app": "web"})]
            if wrong & {"PodTopologySpread", "InterPodAffinity"}
            else []
        ),
    ]


@pytest.mark.parametrize("place", range(len(ORDER)), ids=ORDER)
def test_the_first_rule_that_refuses_is_the_one_reported(place) -> None:
    asking = EVERYTHING_WRONG
    if ORDER[place] == "InterPodAffinity":
        asking = msgspec.structs.replace(
            asking, spec=msgspec.structs.replace(asking.spec, topology_spread_constraints=())
        )

    assert verdict(asking, refusing_from(place)).plugin == ORDER[place]


def test_a_pod_that_nothing_speaks_against_fits() -> None:
    found = verdict(EVERYTHING_WRONG, refusing_from(len(ORDER)))

    assert found == pipeline.Verdict(pod="default/web", node="n1")


@pytest.mark.parametrize(
    ("kubernetes", "first"),
    [
        ("1.37", ["NodeName", "NodeUnschedulable"]),
        ("1.36", ["NodeUnschedulable", "NodeName"]),
    ],
)
def test_the_rules_run_in_the_versions_order(kubernetes, first) -> None:
    names = [rule.name for rule in registry.kube_scheduler(version(kubernetes))]

    assert names == [*first, *ORDER[1:], "NodeDeclaredFeatures"]


def test_every_rule_says_what_could_cure_its_refusal() -> None:
    assert [rule.name for rule in registry.KUBE_SCHEDULER if not rule.cures] == []


# Gates, and what is asked before any node.


def test_a_gated_pod_is_refused_before_it_is_queued() -> None:
    found = verdict(pod("web", gates=["a", "b"]), [node("n1")])

    assert (found.phase, found.plugin, found.code) == (
        "PreEnqueue",
        "SchedulingGates",
        Code.UNRESOLVABLE,
    )
    assert found.texts == ["waiting for scheduling gates: [a b]"]


def test_a_gated_pod_is_asked_nothing_else() -> None:
    found = verdict(pod("web", gates=["a"], pvcs=["gone"]), [node("n1", unschedulable=True)])

    assert found.plugin == "SchedulingGates"


def test_a_refusal_before_any_node_holds_for_all_of_them() -> None:
    nodes = [node("n1"), node("n2", unschedulable=True)]
    found = verdicts(pod("web", pvcs=["gone"]), nodes)

    assert [(one.node, one.phase, one.plugin) for one in found] == [
        ("n1", "PreFilter", "VolumeRestrictions"),
        ("n2", "PreFilter", "VolumeRestrictions"),
    ]


# Devices.


def with_devices(one: Pod) -> Pod:
    claims = (ResourceClaimReference(name="gpu"),)
    return msgspec.structs.replace(
        one, spec=msgspec.structs.replace(one.spec, resource_claims=claims)
    )


@pytest.mark.parametrize("cordoned", [False, True])
def test_devices_are_warned_about_whether_or_not_the_pod_fits(cordoned) -> None:
    found = verdict(with_devices(pod("web")), [node("n1", unschedulable=cordoned)])

    assert found.warnings == (pipeline.DEVICES_NOT_MODELLED,)
    assert "DynamicResources" in found.warnings[0]


def test_a_pod_without_devices_is_not_warned_about() -> None:
    assert verdict(pod("web"), [node("n1")]).warnings == ()


# The columns.


def test_nodes_are_answered_for_in_the_order_they_came() -> None:
    found = verdicts(pod("web"), [node("z"), node("a"), node("m")])

    assert [one.node for one in found] == ["z", "a", "m"]


def test_fits_are_the_rows_without_a_refusal() -> None:
    found = verdicts(pod("web"), [node("n1"), node("n2", unschedulable=True), node("n3")])

    assert found.fits.tolist() == [True, False, True]


def test_refusals_put_nodes_together_that_are_refused_in_the_same_words() -> None:
    nodes = [node("n1", cpu="1"), node("n2", unschedulable=True), node("n3", cpu="1"), node("n4")]
    found = verdicts(pod("web", cpu="2"), nodes).refusals()

    assert sorted((one.plugin, one.texts, one.rows.tolist()) for one in found) == [
        ("NodeResourcesFit", ("Insufficient cpu",), [0, 2]),
        ("NodeUnschedulable", ("node(s) were unschedulable",), [1]),
    ]


# The one line.


def summary(asking: Pod, *objects: object) -> str:
    return verdicts(asking, objects).summary()


def test_a_pod_that_fits_somewhere_is_told_where_how_often() -> None:
    assert summary(pod("web"), node("n1"), node("n2", unschedulable=True)) == (
        "1/2 nodes are available"
    )


def test_without_nodes_there_is_nothing_to_count() -> None:
    assert summary(pod("web")) == "no nodes available to schedule pods"


def test_reasons_are_counted_and_sorted_as_text() -> None:
    """As text: ten comes before two."""
    cordoned = [node(f"c{number}", unschedulable=True) for number in range(10)]
    small = [node(f"s{number}", cpu="1") for number in range(2)]

    assert summary(pod("web", cpu="2"), *cordoned, *small) == (
        "0/12 nodes are available: 10 node(s) were unschedulable, 2 Insufficient cpu."
    )


def test_a_node_is_counted_under_each_of_its_reasons() -> None:
    asking = pod("web", cpu="2", memory="2Gi")

    assert summary(asking, node("n1", cpu="1", memory="1Gi"), node("n2", cpu="1")) == (
        "0/2 nodes are available: 1 Insufficient memory, 2 Insufficient cpu."
    )


def test_a_refusal_before_any_node_is_said_once() -> None:
    assert summary(pod("web", pvcs=["gone"]), node("n1"), node("n2")) == (
        '0/2 nodes are available: persistentvolumeclaim "gone" not found.'
    )


def test_nodes_that_are_left_out_are_counted_too() -> None:
    by_name = NodeSelectorRequirement(key="metadata.name", operator="In", values=("n1",))
    affinity = NodeSelector(node_selector_terms=(NodeSelectorTerm(match_fields=(by_name,)),))
    nodes = [node("n1", unschedulable=True), node("n2"), node("n3")]

    assert summary(pod("web", node_affinity=affinity), *nodes) == (
        "0/3 nodes are available: 1 node(s) were unschedulable,"
        " 2 node(s) didn't satisfy plugin(s) [NodeAffinity]."
    )


def test_the_missing_driver_is_named_in_the_line() -> None:
    claim = pvc("data", storage_class="class")
    stored = (storage_class("class", EBS), claim, csidriver(EBS, opt_in=True))

    assert summary(pod("web", pvcs=["data"]), node("n1"), node("n2"), node("n3"), *stored) == (
        "0/3 nodes are available: 3 ebs.csi.aws.com CSI driver is not installed on the node."
    )


def test_an_error_on_one_node_is_all_that_is_reported() -> None:
    claim = pvc("data", volume="data")
    broken = pod("broken", on="n2", ephemeral=["scratch"])

    assert summary(
        pod("web", pvcs=["data"]),
        node("n1"),
        node("n2"),
        csinode("n2", {EBS: 5}),
        claim,
        pv("data", driver=EBS, claim=claim),
        broken,
        pvc("broken-scratch"),
    ) == (
        'running "NodeVolumeLimits" filter plugin: PVC default/broken-scratch was not created'
        " for pod default/broken (pod is not owner)"
    )


def test_a_gated_pod_is_reported_in_the_words_of_the_api_server() -> None:
    assert summary(pod("web", gates=["a"]), node("n1")) == (
        "Scheduling is blocked due to non-empty scheduling gates"
    )
