"""Which node stands for a group, and what is changed about it before it does."""

import msgspec
import pytest

from tests.groups.group_objects import (
    DEFAULT,
    EBS,
    EFS,
    NOW,
    TYPE,
    UPSTREAM,
    aged,
    build,
    counts,
    daemon_pod,
    daemon_set,
    declared,
    group,
    tainted,
    template,
    topologies,
)
from tonnage.groups.memory import TemplateMemory
from tonnage.groups.policy import GroupPolicy
from tonnage.objects.meta import OwnerReference
from tonnage.objects.nodes import Node
from tonnage.objects.pods import PodSpec
from tonnage.objects.storage import MIGRATED_PLUGINS_ANNOTATION
from tonnage.testing.builders import csinode, node, pod

NAME = "template-node-for-g"
HOSTNAME = "kubernetes.io/hostname"
BOTH = pytest.mark.parametrize("policy", [DEFAULT, UPSTREAM], ids=["default", "upstream"])


def marked(mark: str, **fields: object) -> Node:
    return node(mark, labels={"from": mark}, **fields)  # type: ignore[arg-type]


def origin(one, **cluster):
    return template(one, **cluster).node.metadata.labels.get("from")


# Which one.


@BOTH
def test_a_stable_node_goes_before_the_provider(policy):
    one = group(nodes=["n1"], provider=declared())
    made = template(one, nodes=[marked("n1")], policy=policy)
    assert (made.source, made.node.metadata.labels["from"]) == ("live", "n1")


@BOTH
def test_without_nodes_the_provider_is_asked(policy):
    made = template(group(provider=declared(node=marked("provider"))), policy=policy)
    assert (made.source, made.node.metadata.labels["from"]) == ("provider", "provider")


UNFIT = [
    ("is not ready", aged(marked("n1"), ready="False")),
    ("became ready half a minute ago", aged(marked("n1"), ready="True", since=30)),
    ("has disk pressure", aged(marked("n1"), ready="True", conditions={"DiskPressure": "True"})),
    ("is cordoned", marked("n1", unschedulable=True)),
    ("is about to be deleted", marked("n1", taints=[tainted("ToBeDeletedByClusterAutoscaler")])),
    ("is tainted as not ready", marked("n1", taints=[tainted("node.kubernetes.io/not-ready")])),
    (
        "is still starting",
        marked("n1", taints=[tainted("startup-taint.cluster-autoscaler.kubernetes.io/x")]),
    ),
]


@BOTH
@pytest.mark.parametrize("unfit", [row[1] for row in UNFIT], ids=[row[0] for row in UNFIT])
def test_the_next_node_stands_in_for_one_that_is_unfit(unfit, policy):
    nodes = [unfit, marked("n2")]
    assert origin(group(nodes=["n1", "n2"]), nodes=nodes, policy=policy) == "n2"


@BOTH
@pytest.mark.parametrize("unfit", [row[1] for row in UNFIT], ids=[row[0] for row in UNFIT])
def test_the_provider_stands_in_for_a_node_that_is_unfit(unfit, policy):
    one = group(nodes=["n1"], provider=declared(node=marked("provider")))
    assert origin(one, nodes=[unfit], policy=policy) == "provider"


@BOTH
def test_a_node_that_has_been_ready_for_over_a_minute_is_stable(policy):
    one = group(nodes=["n1"], provider=declared(node=marked("provider")))
    nodes = [aged(marked("n1"), ready="True", since=61)]
    assert origin(one, nodes=nodes, policy=policy) == "n1"


@BOTH
def test_an_unfit_node_is_better_than_nothing(policy):
    made = build(group(nodes=["n1"]), nodes=[aged(marked("n1"), ready="False")], policy=policy)
    assert made.by_group["g"].node.metadata.labels["from"] == "n1"
    (problem,) = made.problems["g"]
    assert problem.startswith("group g: its template is copied from node n1 ")
    assert problem.endswith(": condition Ready is False")


def test_a_group_without_anything_has_no_template_and_says_so():
    made = build(group("empty"), group("good", provider=declared()))
    assert list(made.by_group) == ["good"]
    (problem,) = made.problems["empty"]
    assert problem.startswith("group empty: no template: ")


@BOTH
def test_a_node_without_a_driver_its_provider_lists_is_unfit(policy):
    one = group(nodes=["n1"], provider=declared({EBS: 25}, node=marked("provider")))
    cluster = {"nodes": [marked("n1")], "csinodes": [csinode("n1", {EFS: None})]}
    assert origin(one, **cluster, policy=policy) == "provider"


def test_a_node_without_csinode_is_unfit_where_drivers_are_expected():
    one = group(nodes=["n1"], provider=declared({EBS: 25}, node=marked("provider")))
    cluster = {"nodes": [marked("n1")], "csinodes": [csinode("other", {EBS: 25})]}
    assert origin(one, **cluster) == "provider"
    assert origin(one, **cluster, policy=UPSTREAM) == "n1"


def test_where_no_csinode_is_known_at_all_nodes_are_taken_as_they_are_with_a_warning():
    one = group(nodes=["n1"], provider=declared({EBS: 25}, node=marked("provider")))
    made = build(one, nodes=[marked("n1")])
    assert made.by_group["g"].source == "live"
    assert counts(made.by_group["g"]) == {EBS: 25}
    assert made.warnings[0].startswith("no CSINode is known")


def test_a_provider_template_without_resources_is_named_and_passed_over():
    made = build(group(provider=declared(node=Node())))
    assert made.by_group == {}
    assert made.problems["g"][0] == (
        "group g: the provider template's node has neither status.allocatable nor .capacity"
    )


def test_what_was_wrong_with_a_declaration_is_passed_on():
    one = msgspec.structs.replace(group(provider=declared()), problems=("group g: twice",))
    assert build(one).problems == {"g": ("group g: twice",)}


def test_a_time_that_cannot_be_read_is_named_and_stops_nothing():
    odd = msgspec.structs.replace(
        node("n1"),
        metadata=msgspec.structs.replace(node("n1").metadata, creation_timestamp="yesterday"),
    )
    made = build(group(nodes=["n1"]), nodes=[odd])
    assert made.by_group["g"].source == "live"
    (warning,) = made.warnings
    assert warning.startswith("node n1: creationTimestamp: 'yesterday' is not a time")


# Made anonymous.


@BOTH
def test_the_template_has_a_name_and_hostname_of_its_own(policy):
    made = template(group(nodes=["n1"]), nodes=[node("n1")], policy=policy)
    assert made.node.metadata.name == NAME
    assert made.node.metadata.labels[HOSTNAME] == NAME
    assert made.node.metadata.uid not in ("", node("n1").metadata.uid)


@BOTH
def test_the_template_is_labelled_as_one(policy):
    made = template(group(nodes=["n1"]), nodes=[node("n1")], policy=policy)
    assert made.node.metadata.labels["cluster-autoscaler.kubernetes.io/template-node"] == "true"


@BOTH
def test_lasting_taints_stay_and_passing_ones_go(policy):
    soft = tainted("DeletionCandidateOfClusterAutoscaler", "PreferNoSchedule")
    nodes = [node("n1", taints=[tainted("dedicated"), soft])]
    made = template(group(nodes=["n1"]), nodes=nodes, policy=policy)
    assert made.node.spec.taints == (tainted("dedicated"),)


def test_a_new_node_is_not_cordoned_but_to_upstream():
    cluster = {"nodes": [node("n1", unschedulable=True)]}
    assert not template(group(nodes=["n1"]), **cluster).node.spec.unschedulable
    assert template(group(nodes=["n1"]), **cluster, policy=UPSTREAM).node.spec.unschedulable


@BOTH
def test_the_csinode_is_the_new_nodes_own(policy):
    cluster = {"nodes": [node("n1")], "csinodes": [csinode("n1", {EBS: 25})]}
    made = template(group(nodes=["n1"]), **cluster, policy=policy)
    assert made.csinode is not None
    assert made.csinode.metadata.name == NAME
    assert made.csinode.metadata.owner_references == (
        OwnerReference(api_version="v1", kind="Node", name=NAME, uid=made.node.metadata.uid),
    )
    assert made.csinode.spec == csinode("n1", {EBS: 25}).spec


@BOTH
def test_migrated_plugins_stay_on_the_csinode(policy):
    cluster = {"nodes": [node("n1")], "csinodes": [csinode("n1", migrated=["kubernetes.io/x"])]}
    made = template(group(nodes=["n1"]), **cluster, policy=policy)
    assert made.csinode is not None
    assert made.csinode.metadata.annotations[MIGRATED_PLUGINS_ANNOTATION] == "kubernetes.io/x"


def test_a_group_from_zero_has_the_plugins_migrated_that_other_nodes_have():
    cluster = {"nodes": [node("n1")], "csinodes": [csinode("n1", migrated=["kubernetes.io/x"])]}
    made = template(group(provider=declared({EBS: 1})), **cluster)
    assert made.csinode is not None
    assert made.csinode.metadata.annotations[MIGRATED_PLUGINS_ANNOTATION] == "kubernetes.io/x"


def test_a_topology_label_that_names_the_host_is_rewritten_but_by_upstream():
    key = "topology.topolvm.io/node"
    cluster = {
        "nodes": [node("n1", labels={key: "n1"})],
        "csinodes": [topologies(csinode("n1", {"topolvm.io": None}), [key])],
    }
    made = template(group(nodes=["n1"]), **cluster)
    assert (made.node.metadata.labels[key], made.host_keys) == (NAME, (key,))
    made = template(group(nodes=["n1"]), **cluster, policy=UPSTREAM)
    assert (made.node.metadata.labels[key], made.host_keys) == ("n1", ())


# From the provider.


@BOTH
def test_a_providers_node_gets_the_deprecated_labels_too(policy):
    labels = {TYPE: "m5.large", "topology.kubernetes.io/region": "eu-1"}
    one = group(provider=declared(node=node("any", zone="eu-1a", labels=labels)))
    found = template(one, policy=policy).node.metadata.labels
    assert found["beta.kubernetes.io/instance-type"] == "m5.large"
    assert found["failure-domain.beta.kubernetes.io/zone"] == "eu-1a"
    assert found["failure-domain.beta.kubernetes.io/region"] == "eu-1"


def test_what_a_declaration_leaves_out_is_filled_in():
    bare = node("any")
    status = msgspec.structs.replace(bare.status, capacity={"cpu": "4"}, allocatable={})
    bare = msgspec.structs.replace(bare, status=status)
    made = template(group(provider=declared(node=bare)))
    assert made.node.status.allocatable == {"cpu": "4", "pods": 110}


def test_a_volume_pinned_to_a_zone_by_its_driver_can_be_helped_from_zero():
    one = group(provider=declared(node=node("any", zone="eu-1a")))
    made = template(one, wanted=[EBS])
    assert made.node.metadata.labels["topology.ebs.csi.aws.com/zone"] == "eu-1a"


def test_upstream_derives_no_topology_label():
    one = group(provider=declared({EBS: 25}, node=node("any", zone="eu-1a")))
    made = template(one, wanted=[EBS], policy=UPSTREAM)
    assert "topology.ebs.csi.aws.com/zone" not in made.node.metadata.labels


def test_every_driver_of_a_template_has_a_node_id():
    made = template(group(limits={EBS: 3}, provider=declared()))
    assert made.csinode is not None
    assert [driver.node_id for driver in made.csinode.spec.drivers] == [NAME]


# Drivers that an early CSINode lacks.


def test_drivers_of_the_provider_win_over_their_absence():
    one = group(nodes=["n1"], provider=declared({EBS: 25}))
    cluster = {"nodes": [aged(node("n1"), created=120)], "csinodes": [csinode("n1")]}
    assert counts(template(one, **cluster)) == {EBS: 25}


def test_drivers_of_siblings_win_over_their_absence():
    made = template(
        group(nodes=["n1", "n2"]),
        nodes=[marked("n1"), marked("n2")],
        csinodes=[csinode("n1"), csinode("n2", {EBS: 25})],
    )
    assert made.node.metadata.labels["from"] == "n2"
    assert counts(made) == {EBS: 25}
    assert made.expected_drivers == (EBS,)


def test_a_driver_of_one_odd_node_is_not_expected_of_the_others():
    made = template(
        group(nodes=["n1", "n2", "n3"]),
        nodes=[marked("n1"), marked("n2"), marked("n3")],
        csinodes=[
            csinode("n1", {EFS: None}),
            csinode("n2", {EFS: None}),
            csinode("n3", {EFS: None, EBS: 25}),
        ],
    )
    assert made.node.metadata.labels["from"] == "n1"
    assert made.expected_drivers == (EFS,)


def test_new_nodes_have_no_say_in_what_is_expected():
    young = [aged(node(f"n{i}"), created=60) for i in (2, 3, 4)]
    made = template(
        group(nodes=["n1", "n2", "n3", "n4"]),
        nodes=[node("n1"), *young],
        csinodes=[csinode("n1", {EBS: 25}), *(csinode(f"n{i}") for i in (2, 3, 4))],
    )
    assert made.expected_drivers == (EBS,)


def test_a_driver_that_dropped_out_just_now_is_still_expected_and_later_forgotten():
    one = group(nodes=["n1"])
    memory = build(one, nodes=[node("n1")], csinodes=[csinode("n1", {EBS: 25})]).memory
    later = {"nodes": [node("n1")], "csinodes": [csinode("n1", {EFS: None})], "memory": memory}
    assert EBS in template(one, **later, now=NOW + 600).expected_drivers
    assert EBS not in template(one, **later, now=NOW + 1200).expected_drivers


def test_upstream_takes_an_empty_csinode_at_its_word():
    made = template(
        group(nodes=["n1", "n2"]),
        nodes=[marked("n1"), marked("n2")],
        csinodes=[csinode("n1"), csinode("n2", {EBS: 25})],
        policy=UPSTREAM,
    )
    assert made.node.metadata.labels["from"] == "n1"
    assert counts(made) == {}


def test_upstreams_template_of_a_node_without_csinode_has_none():
    assert template(group(nodes=["n1"]), nodes=[node("n1")], policy=UPSTREAM).csinode is None


def test_with_csi_awareness_off_a_template_has_no_csinode():
    made = template(
        group(nodes=["n1"], provider=declared({EBS: 25})),
        nodes=[node("n1")],
        csinodes=[csinode("n1")],
        policy=GroupPolicy(csi_aware=False),
    )
    assert made.source == "live"
    assert made.csinode is None


# Pods that come with the node.


@BOTH
def test_daemon_pods_are_kept_and_others_are_not(policy):
    agent = daemon_set("agent")
    pods = [daemon_pod(agent, "n1"), pod("web", on="n1")]
    cluster = {"nodes": [node("n1")], "pods": pods, "daemon_sets": [agent]}
    made = template(group(nodes=["n1"]), **cluster, policy=policy)
    assert [one.metadata.name for one in made.daemon_pods] == [f"agent-abcde-{NAME}"]
    assert made.daemon_pods[0].spec.node_name == NAME


PLAIN, CRITICAL = PodSpec(), PodSpec(priority_class_name="system-node-critical")
FORCED = GroupPolicy(as_upstream=True, force_ds=True)
ADDED = [
    ("all of them, by default", DEFAULT, ["plain", "critical"]),
    ("the critical alone, as upstream", UPSTREAM, ["critical"]),
    ("all of them, as upstream when forced", FORCED, ["plain", "critical"]),
]


@pytest.mark.parametrize(
    ("policy", "added"), [row[1:] for row in ADDED], ids=[row[0] for row in ADDED]
)
def test_a_live_node_gets_the_daemon_sets_it_lacks(policy, added):
    waiting = [daemon_set("plain", spec=PLAIN), daemon_set("critical", spec=CRITICAL)]
    cluster = {"nodes": [node("n1")], "daemon_sets": waiting, "policy": policy}
    found = template(group(nodes=["n1"]), **cluster).daemon_pods
    assert [one.metadata.name for one in found] == [f"{name}-{NAME}" for name in added]


@BOTH
def test_a_providers_node_gets_every_daemon_set_that_would_land(policy):
    elsewhere = daemon_set("elsewhere", spec=PodSpec(node_selector={"pool": "other"}))
    one = group(provider=declared())
    found = template(one, daemon_sets=[daemon_set("a"), elsewhere], policy=policy).daemon_pods
    assert [each.metadata.name for each in found] == [f"a-{NAME}"]


def test_nothing_at_all_gives_nothing_at_all():
    made = build()
    assert (made.by_group, made.problems, made.warnings) == ({}, {}, ())
    assert made.memory == TemplateMemory()
