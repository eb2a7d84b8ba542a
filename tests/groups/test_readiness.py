"""Which nodes count as ready, and which groups may be scaled."""

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
    assess,
    build,
    declared,
    group,
    inputs,
    tainted,
)
from tonnage.groups import readiness
from tonnage.groups.policy import GroupPolicy
from tonnage.testing.builders import csinode, node

HOUR = 3600
BOTH = pytest.mark.parametrize("policy", [DEFAULT, UPSTREAM], ids=["default", "upstream"])
SKIP = "not ready for scale-up"


def state(one, **cluster):
    """The state and reason of a single node of a group that expects nothing."""
    found = assess(group(nodes=["n1"]), nodes=[one], **cluster).nodes["n1"]
    return found.state, found.reason


NODES = [
    ("no conditions", node("n1"), "ready", ""),
    ("Ready", aged(node("n1"), ready="True"), "ready", ""),
    ("a Ready nobody filled in", aged(node("n1"), ready=""), "ready", ""),
    ("not Ready", aged(node("n1"), ready="False"), "unready", "condition Ready is False"),
    ("gone quiet", aged(node("n1"), ready="Unknown"), "unready", "condition Ready is Unknown"),
    (
        "no word of readiness",
        aged(node("n1"), conditions={"MemoryPressure": "False"}),
        "unready",
        "it has no condition Ready",
    ),
    (
        "a full disk",
        aged(node("n1"), ready="True", conditions={"DiskPressure": "True"}),
        "unready",
        "condition DiskPressure is True",
    ),
    (
        "no network",
        aged(node("n1"), ready="True", conditions={"NetworkUnavailable": "True"}),
        "unready",
        "condition NetworkUnavailable is True",
    ),
    (
        "little memory",
        aged(node("n1"), ready="True", conditions={"MemoryPressure": "True"}),
        "ready",
        "",
    ),
    (
        "a taint of its conditions",
        node("n1", taints=[tainted("node.kubernetes.io/disk-pressure")]),
        "unready",
        "taint node.kubernetes.io/disk-pressure",
    ),
    (
        "a startup taint",
        node("n1", taints=[tainted("startup-taint.cluster-autoscaler.kubernetes.io/x")]),
        "unready",
        "taint startup-taint.cluster-autoscaler.kubernetes.io/x",
    ),
    ("a cordon", node("n1", unschedulable=True), "ready", ""),
    (
        "a deletion taint",
        node("n1", taints=[tainted("ToBeDeletedByClusterAutoscaler")]),
        "deleting",
        "",
    ),
    ("not Ready, but young", aged(node("n1"), ready="False", created=60), "coming-up",
     "condition Ready is False"),
    ("not Ready, and not young", aged(node("n1"), ready="False", created=901), "unready",
     "condition Ready is False"),
]  # fmt: skip


@BOTH
@pytest.mark.parametrize(
    ("one", "found", "reason"), [row[1:] for row in NODES], ids=[row[0] for row in NODES]
)
def test_a_node_by_its_own_account(one, found, reason, policy):
    assert state(one, policy=policy) == (found, reason)


def test_a_node_that_is_being_deleted_is_leaving_though_upstream_waits_for_its_taint():
    leaving = aged(node("n1"), ready="True", deleting=True)
    assert state(leaving)[0] == "deleting"
    assert state(leaving, policy=UPSTREAM)[0] == "ready"


def test_in_a_live_cluster_a_node_without_conditions_is_only_just_there():
    policy = GroupPolicy(conditions_required=True)
    assert state(aged(node("n1"), created=10), policy=policy) == (
        "coming-up",
        "it has no condition Ready",
    )


def test_a_suspended_node_is_unready_and_nobodys_fault():
    asleep = aged(node("n1"), ready="False", conditions={"Suspended": "True"})
    found = assess(group(nodes=["n1"]), nodes=[asleep])
    assert found.nodes["n1"].state == "unready"
    assert (found.groups["g"].suspended, found.groups["g"].unready) == (1, 0)


# Drivers.


def expecting(*, created=None, drivers=None, policy=DEFAULT, provider=None, labels=None, **more):
    """The readiness of node n1, of a group whose provider lists drivers; another node has one."""
    one = aged(node("n1", labels=labels), created=created)
    cluster = assess(
        group(nodes=["n1"], provider=declared(provider or {EBS: 25})),
        nodes=[one, node("other")],
        csinodes=[
            csinode("other", {EBS: 25}),
            *([csinode("n1", drivers)] if drivers is not None else []),
        ],
        policy=policy,
        **more,
    )
    return cluster.nodes["n1"]


def test_a_node_with_its_drivers_is_ready():
    assert expecting(drivers={EBS: 25, EFS: None}).state == "ready"


def test_a_young_node_without_its_drivers_is_coming_up_until_a_deadline():
    found = expecting(created=60, drivers={EFS: None})
    assert (found.state, found.missing_drivers) == ("coming-up", (EBS,))
    assert found.reason == f"not registered: {EBS}"
    assert found.deadline == NOW - 60 + 900


def test_a_node_without_csinode_lacks_its_drivers():
    assert expecting(created=60).state == "coming-up"


def test_past_the_deadline_a_node_without_its_drivers_is_unready():
    found = expecting(created=901, drivers={})
    assert (found.state, found.missing_drivers, found.deadline) == ("unready", (EBS,), None)


def test_the_deadline_is_an_option():
    policy = GroupPolicy(driver_registration_timeout=30)
    assert expecting(created=60, drivers={}, policy=policy).state == "unready"


def test_a_node_that_has_been_there_for_long_is_past_its_deadline():
    assert expecting(drivers={}).state == "unready"


def test_without_a_creation_time_the_deadline_runs_from_the_last_change_of_readiness():
    fresh = aged(node("n1"), ready="True", since=60)
    found = assess(
        group(nodes=["n1"], provider=declared({EBS: 25})), nodes=[fresh], csinodes=[csinode("n1")]
    )
    assert found.nodes["n1"].state == "coming-up"


def test_drivers_of_siblings_are_expected_where_the_provider_knows_none():
    found = assess(
        group(nodes=["n1", "n2"]),
        nodes=[node("n1"), aged(node("n2"), created=60)],
        csinodes=[csinode("n1", {EBS: 25}), csinode("n2")],
    )
    assert found.nodes["n2"].missing_drivers == (EBS,)


def young(name, *, age=60, kind=""):
    return aged(node(name, labels={TYPE: kind} if kind else None), created=age, ready="True")


def without(one):
    """A node that lists no driver."""
    return (one, dict[str, int | None]())


def expected_of_n1(*others, own=None, provider=None, nodes=("n1",), kind=""):
    """What a young node of a young group lacks; others are nodes with their drivers."""
    found = assess(
        group(nodes=nodes, provider=provider),
        nodes=[young("n1", kind=kind), *(one for one, _ in others)],
        csinodes=[
            csinode("n1", own or {}),
            *(csinode(one.metadata.name, listed) for one, listed in others),
        ],
    ).nodes["n1"]
    assert found.state == ("coming-up" if found.missing_drivers else "ready")
    return found.missing_drivers


def test_in_a_young_group_siblings_that_have_begun_to_register_speak_for_the_others():
    sibling = (young("n2", age=300), {EBS: 25})
    fresh = without(young("n3"))
    assert expected_of_n1(sibling, fresh, nodes=["n1", "n2", "n3"]) == (EBS,)


def test_of_a_young_group_is_expected_what_most_nodes_elsewhere_have():
    others = [(node(f"o{number}"), {EBS: 25}) for number in range(3)]
    odd = (node("odd"), {EFS: None})
    assert expected_of_n1(*others, odd) == (EBS,)


def test_nodes_that_list_no_driver_at_all_have_no_say_in_that():
    bare = [without(node(f"bare{number}")) for number in range(3)]
    assert expected_of_n1((node("o1"), {EBS: 25}), *bare) == (EBS,)


def test_nodes_of_the_same_instance_type_know_better_than_others():
    others = [(node(f"o{number}"), {EBS: 25}) for number in range(3)]
    same = (node("same", labels={TYPE: "gpu"}), {EFS: None})
    assert expected_of_n1(*others, same, kind="gpu") == (EFS,)


def test_in_a_young_cluster_nodes_that_have_begun_to_register_speak_for_all():
    assert expected_of_n1((young("o1"), {EBS: 25})) == (EBS,)


def test_a_provider_that_lists_drivers_knows_better_than_other_groups():
    assert expected_of_n1((node("o1"), {EBS: 25}), provider=declared({EFS: 1})) == (EFS,)


def test_a_group_whose_own_nodes_had_time_to_register_speaks_for_itself():
    settled = without(aged(node("n2"), created=HOUR))
    assert expected_of_n1(settled, (node("o1"), {EBS: 25}), nodes=["n1", "n2"]) == ()


def test_of_the_first_node_after_long_is_expected_what_the_last_one_had():
    later = 100 * HOUR
    before = build(
        group(nodes=["n0"]),
        nodes=[aged(node("n0"), created=HOUR, ready="True")],
        csinodes=[csinode("n0", {EBS: 25})],
    ).memory
    made = build(
        group(nodes=["n1"]),
        nodes=[young("n1", age=60 - later)],
        csinodes=[csinode("n1")],
        memory=before,
        now=NOW + later,
    )
    assert made.by_group["g"].expected_drivers == (EBS,)


def test_upstream_asks_no_other_nodes():
    found = assess(
        group(nodes=["n1"]), nodes=[young("n1"), node("o1")],
        csinodes=[csinode("n1"), csinode("o1", {EBS: 25})], policy=UPSTREAM,
    )  # fmt: skip
    assert found.nodes["n1"].state == "ready"


def test_a_node_may_say_itself_what_it_is_not_ready_without():
    labels = {"tonnage.dev/expected-csi-drivers": f"{EBS}_{EFS}"}
    found = assess(
        nodes=[aged(node("n1", labels=labels), created=60)], csinodes=[csinode("n1", {EBS: 25})]
    )
    assert (found.nodes["n1"].state, found.nodes["n1"].missing_drivers) == ("coming-up", (EFS,))


def test_an_annotation_may_say_it_with_commas_which_no_label_can_hold():
    one = aged(node("n1"), created=60)
    told = {"tonnage.dev/expected-csi-drivers": f"{EBS}, {EFS}"}
    one = msgspec.structs.replace(
        one, metadata=msgspec.structs.replace(one.metadata, annotations=told)
    )
    found = assess(nodes=[one], csinodes=[csinode("n1", {EBS: 25})])
    assert found.nodes["n1"].missing_drivers == (EFS,)


def test_a_driver_without_its_number_will_do_unless_numbers_are_required():
    strict = GroupPolicy(require_driver_counts=True)
    assert expecting(created=60, drivers={EBS: None}).state == "ready"
    found = expecting(created=60, drivers={EBS: None}, policy=strict)
    assert (found.state, found.reason) == ("coming-up", f"registered without a limit: {EBS}")


def test_a_driver_that_never_gives_a_number_is_not_waited_for():
    strict = GroupPolicy(require_driver_counts=True)
    assert expecting(drivers={EBS: None}, provider={EBS: None}, policy=strict).state == "ready"


def test_a_driver_that_is_only_assumed_is_not_waited_for():
    found = assess(group(nodes=["n1"], limits={EBS: 24}), nodes=[node("n1")],
                   csinodes=[csinode("n1")])  # fmt: skip
    assert found.nodes["n1"].state == "ready"


def test_where_no_csinode_is_known_at_all_old_nodes_are_ready_and_young_ones_coming_up():
    one = group(nodes=["n1", "n2"], provider=declared({EBS: 25}))
    found = assess(one, nodes=[node("n1"), aged(node("n2"), created=60)])
    assert [found.nodes[name].state for name in ("n1", "n2")] == ["ready", "coming-up"]


def test_with_csi_awareness_off_drivers_do_not_matter():
    assert expecting(drivers={}, policy=GroupPolicy(csi_aware=False)).state == "ready"


UPSTREAM_RULES = [
    ("all drivers", {EBS: None, EFS: None}, None, "ready"),
    ("one missing, age unknown", {EFS: None}, None, "unready"),
    ("none, age unknown", {}, None, "unready"),
    ("one missing, young", {EFS: None}, 60, "coming-up"),
    ("one missing, old", {EFS: None}, 901, "unready"),
    ("no CSINode", None, None, "ready"),
    ("more drivers than expected", {EBS: 1, EFS: 1, "x": 1}, None, "ready"),
]


@pytest.mark.parametrize(
    ("drivers", "created", "found"),
    [row[1:] for row in UPSTREAM_RULES],
    ids=[row[0] for row in UPSTREAM_RULES],
)
def test_upstream_goes_by_the_names_in_the_providers_template(drivers, created, found):
    provider = {EBS: 25, EFS: None}
    one = expecting(drivers=drivers, created=created, provider=provider, policy=UPSTREAM)
    assert one.state == found


def test_upstream_expects_nothing_that_only_siblings_have():
    found = assess(
        group(nodes=["n1", "n2"]),
        nodes=[node("n1"), node("n2")],
        csinodes=[csinode("n1", {EBS: 25}), csinode("n2")],
        policy=UPSTREAM,
    )
    assert found.nodes["n2"].state == "ready"


# Groups.


def of_group(*nodes, target=None, policy=DEFAULT):
    names = [one.metadata.name for one in nodes]
    return assess(group(nodes=names, target=target), nodes=nodes, policy=policy).groups["g"]


def ready(count):
    return [node(f"r{i}") for i in range(count)]


def unready(count):
    return [aged(node(f"u{i}"), ready="False") for i in range(count)]


def starting(count):
    return [aged(node(f"s{i}"), ready="False", created=60) for i in range(count)]


def test_a_group_counts_its_nodes_by_state():
    leaving = node("d", taints=[tainted("ToBeDeletedByClusterAutoscaler")])
    found = of_group(*ready(3), *unready(2), *starting(1), leaving)
    assert (found.ready, found.unready, found.coming_up, found.deleting) == (3, 2, 1, 1)
    assert found.coming_up_nodes == ("s0",)


def test_upcoming_are_nodes_not_yet_registered_and_those_coming_up():
    assert of_group(*ready(1), *starting(2), target=5).upcoming == 4


def test_a_target_below_the_nodes_there_are_takes_nothing_off():
    assert of_group(*ready(3), *starting(1), target=2).upcoming == 1


def test_to_upstream_nothing_is_upcoming_without_a_request_it_remembers():
    found = of_group(*ready(1), *starting(2), target=5, policy=UPSTREAM)
    assert (found.upcoming, found.coming_up) == (0, 2)


HEALTH = [
    # ready, unready, target, healthy by default, healthy as upstream
    ("nothing asked for and nothing there", 0, 0, 0, True, True),
    ("asked for and not there", 0, 0, 2, True, False),
    ("all there", 5, 0, 5, True, True),
    ("three amiss", 0, 3, 3, True, True),
    ("four amiss of four", 0, 4, 4, False, False),
    ("four amiss of nine, which is under 45 %", 5, 4, 9, True, True),
    ("five amiss of eleven, which is over 45 %", 6, 5, 11, False, False),
    ("five short of their target", 1, 0, 6, True, False),
]


@pytest.mark.parametrize("row", HEALTH, ids=[row[0] for row in HEALTH])
def test_a_group_with_too_much_amiss_is_not_scaled(row):
    _, good, bad, target, by_default, as_upstream = row
    nodes = [*ready(good), *unready(bad)]
    found = of_group(*nodes, target=target)
    assert (found.healthy, found.skip_reason) == (by_default, "" if by_default else SKIP)
    found = of_group(*nodes, target=target, policy=UPSTREAM)
    assert (found.healthy, found.skip_reason) == (as_upstream, "" if as_upstream else SKIP)


# The cluster.

CLUSTERS = [
    ("three unready of three", 0, 3, True),
    ("four unready of four", 0, 4, False),
    ("four unready of nine", 5, 4, True),
    ("five unready of eleven", 6, 5, False),
]


@BOTH
@pytest.mark.parametrize(
    ("good", "bad", "healthy"), [row[1:] for row in CLUSTERS], ids=[row[0] for row in CLUSTERS]
)
def test_a_cluster_with_too_many_unready_nodes_is_not_scaled(good, bad, healthy, policy):
    found = assess(nodes=[*ready(good), *unready(bad)], policy=policy)
    assert found.healthy is healthy
    assert bool(found.reason) is not healthy


def test_the_thresholds_are_options():
    policy = GroupPolicy(ok_total_unready_count=0, max_total_unready_percentage=10)
    assert not assess(nodes=[*ready(5), *unready(1)], policy=policy).healthy


def test_the_reason_says_how_many():
    found = assess(nodes=unready(4))
    assert found.reason == "4 of 4 nodes are unready, more than 3 and more than 45 %"


def test_nodes_coming_up_do_no_harm():
    assert assess(nodes=starting(10)).healthy


def test_a_node_of_no_group_is_assessed_too():
    found = assess(nodes=unready(1)).nodes["u0"]
    assert (found.state, found.group) == ("unready", None)


@BOTH
@pytest.mark.parametrize("target", [0, 1, 5])
def test_other_targets_leave_nodes_as_they_are_and_weigh_groups_anew(policy, target):
    nodes = [aged(node("n1"), ready="True"), aged(node("n2"), ready="False")]
    before = assess(group(nodes=["n1", "n2"], target=2), nodes=nodes, policy=policy)
    wanted = group(nodes=["n1", "n2"], target=target)
    anew = assess(wanted, nodes=nodes, policy=policy)
    assert readiness.with_targets(before, inputs(wanted, policy=policy)) == anew
