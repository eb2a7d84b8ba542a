import pytest

from tests.groups.group_objects import daemon_pod, daemon_set, tainted
from tonnage.groups import daemons
from tonnage.objects.pods import (
    Affinity,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PodSpec,
    Toleration,
)
from tonnage.objects.volume_sources import HostPathSource, VolumeSource
from tonnage.testing.builders import node, nodes_with, pod


def required(selector):
    return Affinity(node_affinity=NodeAffinity(required=selector))


def pinned_to(name):
    field = NodeSelectorRequirement(key="metadata.name", operator="In", values=(name,))
    return NodeSelector(node_selector_terms=(NodeSelectorTerm(match_fields=(field,)),))


SSD = {"disk": "ssd"}
LANDING = [
    ("no wishes at all", PodSpec(), node("n"), True),
    ("a matching selector", PodSpec(node_selector=SSD), node("n", labels=SSD), True),
    ("a selector that does not match", PodSpec(node_selector=SSD), node("n"), False),
    (
        "matching affinity",
        PodSpec(affinity=required(nodes_with("disk"))),
        node("n", labels=SSD),
        True,
    ),
    (
        "affinity that does not match",
        PodSpec(affinity=required(nodes_with("disk"))),
        node("n"),
        False,
    ),
    ("affinity without terms", PodSpec(affinity=required(NodeSelector())), node("n"), False),
    ("another node's name", PodSpec(node_name="other"), node("n"), False),
    ("the node's own name", PodSpec(node_name="n"), node("n"), True),
    ("a taint", PodSpec(), node("n", taints=[tainted("dedicated")]), False),
    ("a mere preference", PodSpec(), node("n", taints=[tainted("d", "PreferNoSchedule")]), True),
    (
        "a tolerated taint",
        PodSpec(tolerations=(Toleration(key="dedicated", operator="Exists"),)),
        node("n", taints=[tainted("dedicated")]),
        True,
    ),
    (
        "a taint that every daemon pod tolerates",
        PodSpec(),
        node("n", taints=[tainted("node.kubernetes.io/unschedulable")]),
        True,
    ),
    (
        "a missing network",
        PodSpec(),
        node("n", taints=[tainted("node.kubernetes.io/network-unavailable")]),
        False,
    ),
    (
        "a missing network that it does not need",
        PodSpec(host_network=True),
        node("n", taints=[tainted("node.kubernetes.io/network-unavailable")]),
        True,
    ),
]


@pytest.mark.parametrize(
    ("spec", "on", "lands"), [row[1:] for row in LANDING], ids=[row[0] for row in LANDING]
)
def test_a_daemon_set_runs_where_its_controller_puts_it(spec, on, lands):
    assert daemons.runs_on(daemon_set("agent", spec=spec), on) is lands


def test_pods_of_daemon_sets_and_of_the_kubelet_stay_and_all_others_go():
    agent = daemon_pod(daemon_set("agent"), "n1")
    mirror = pod("etcd", on="n1")
    mirror.metadata.annotations["kubernetes.io/config.mirror"] = "hash"
    marked = pod("agent-like", on="n1")
    marked.metadata.annotations["cluster-autoscaler.kubernetes.io/daemonset-pod"] = "true"
    assert daemons.staying([agent, mirror, marked, pod("web", on="n1")]) == [agent, mirror, marked]


def test_pods_that_are_leaving_or_finished_do_not_stay():
    agent = daemon_set("agent")
    leaving = daemon_pod(agent, "n1", deleting=True)
    evicted = daemon_pod(agent, "n1", phase="Failed")
    assert daemons.staying([leaving, evicted]) == []


def test_a_moved_pod_is_another_pod_on_the_other_node():
    before = daemon_pod(daemon_set("agent"), "n1", node_affinity=pinned_to("n1"))
    after = daemons.moved(before, "t")
    assert after.metadata.name == "agent-abcde-t"
    assert after.metadata.uid != before.metadata.uid
    assert after.spec.node_name == "t"


def test_a_moved_pod_is_pinned_to_the_other_node():
    after = daemons.moved(daemon_pod(daemon_set("a"), "n1", node_affinity=pinned_to("n1")), "t")
    assert after.spec.affinity == required(pinned_to("t"))


def test_a_daemon_set_without_a_pod_gets_one_that_is_its_own():
    (added,) = daemons.missing(node("t"), [], [daemon_set("agent")], critical_only=False)
    assert (added.metadata.name, added.metadata.namespace) == ("agent-t", "kube-system")
    assert added.spec.node_name == "t"
    assert daemons.is_daemon(added.metadata)


def test_a_daemon_set_with_a_pod_gets_no_second():
    agent = daemon_set("agent")
    present = [daemon_pod(agent, "t")]
    assert daemons.missing(node("t"), present, [agent], critical_only=False) == []


def test_a_pod_without_uids_is_known_by_the_name_of_its_daemon_set():
    present = [daemon_pod(daemon_set("agent", uid=""), "t")]
    assert daemons.missing(node("t"), present, [daemon_set("agent")], critical_only=False) == []


CRITICAL = [
    (PodSpec(priority_class_name="system-node-critical"), True),
    (PodSpec(priority_class_name="system-node-critical", preemption_policy="Never"), False),
    (PodSpec(priority_class_name="system-cluster-critical"), False),
    (PodSpec(), False),
]


@pytest.mark.parametrize(("spec", "added"), CRITICAL)
def test_of_the_critical_alone_those_are_added_that_can_make_room(spec, added):
    found = daemons.missing(node("t"), [], [daemon_set("a", spec=spec)], critical_only=True)
    assert bool(found) is added


# Drivers that come with a DaemonSet.

EBS, EFS = "ebs.csi.aws.com", "efs.csi.aws.com"


def mounting(*paths, **spec):
    volumes = tuple(VolumeSource(host_path=HostPathSource(path=path)) for path in paths)
    return daemon_set("ds", spec=PodSpec(volumes=volumes, **spec))


def brought_by(daemon, drivers=(EBS, EFS)):
    return daemons.registering(node("n"), [daemon], drivers)


def test_a_daemon_set_brings_the_driver_whose_plugin_directory_it_mounts():
    assert brought_by(mounting("/var/lib/kubelet/plugins/ebs.csi.aws.com/")) == {EBS}


def test_wherever_the_kubelet_has_its_directory():
    assert brought_by(mounting("/data/k0s/kubelet/plugins/ebs.csi.aws.com")) == {EBS}


@pytest.mark.parametrize(
    "path",
    ["/var/lib/kubelet/plugins_registry/", "/var/lib/kubelet/plugins", "/dev", "/ebs.csi.aws.com"],
)
def test_other_directories_name_no_driver(path):
    assert brought_by(mounting(path)) == set()


def test_a_directory_that_is_called_otherwise_than_any_driver_tells_nothing():
    assert brought_by(mounting("/var/lib/kubelet/plugins/csi-ebs/")) == set()


def test_a_daemon_set_for_other_nodes_brings_nothing():
    path = "/var/lib/kubelet/plugins/ebs.csi.aws.com/"
    assert brought_by(mounting(path, node_selector=SSD)) == set()
