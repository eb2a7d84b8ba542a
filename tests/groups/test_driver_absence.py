"""Nodes that lose a driver, and drivers that most nodes lack."""

from tests.groups.group_objects import (
    DEFAULT,
    EBS,
    NOW,
    UPSTREAM,
    aged,
    assess,
    declared,
    group,
    inputs,
)
from tonnage.groups import readiness
from tonnage.testing.builders import csinode, node

HOUR = 3600


def watched(absences, *, created=HOUR, drivers=None, policy=DEFAULT):
    """Node n1 as somebody sees it who has looked before; another node has the driver."""
    return assess(
        group(nodes=["n1"], provider=declared({EBS: 25})),
        nodes=[aged(node("n1"), created=created, ready="True"), node("other"), node("third")],
        csinodes=[
            csinode("n1", drivers or {}),
            csinode("other", {EBS: 25}),
            csinode("third", {EBS: 25}),
        ],
        absences=absences,
        policy=policy,
    )


def test_the_deadline_of_an_old_node_runs_from_when_it_was_first_seen_without_a_driver():
    found = watched({EBS: {"n1": NOW - 600}})
    assert found.nodes["n1"].state == "coming-up"
    assert found.nodes["n1"].deadline == NOW + 300
    assert found.nodes["n1"].lost
    assert watched({EBS: {"n1": NOW - 901}}).nodes["n1"].state == "unready"


def test_a_first_look_gives_every_node_its_time_and_is_kept_for_the_next():
    found = watched({})
    assert found.nodes["n1"].deadline == NOW + 900
    assert found.absences == {EBS: {"n1": NOW}}


def test_the_deadline_of_a_new_node_runs_from_its_birth():
    found = watched({EBS: {"n1": NOW - 70}}, created=60)
    assert (found.nodes["n1"].deadline, found.nodes["n1"].lost) == (NOW + 840, False)


def test_nothing_is_promised_on_a_node_that_lost_a_driver_and_on_a_new_one_it_is():
    assert watched({EBS: {"n1": NOW - 600}}).nodes["n1"].in_doubt
    assert not watched({EBS: {"n1": NOW - 901}}).nodes["n1"].in_doubt  # It counts for nothing.
    assert not watched({EBS: {"n1": NOW - 70}}, created=60).nodes["n1"].in_doubt


def test_a_driver_that_is_there_again_is_no_longer_missed():
    assert watched({EBS: {"n1": NOW - 600}}, drivers={EBS: 25}).absences == {}


def test_a_clock_that_was_set_back_does_not_lengthen_the_wait():
    assert watched({EBS: {"n1": NOW + HOUR}}).nodes["n1"].deadline == NOW + 900


def test_who_sees_no_csinode_at_all_forgets_nothing():
    before = {EBS: {"n1": NOW - 600}}
    old = aged(node("n1"), created=HOUR, ready="True")
    found = assess(group(nodes=["n1"], provider=declared({EBS: 25})), nodes=[old], absences=before)
    assert (found.nodes["n1"].state, found.absences) == ("ready", before)


def test_upstreams_deadline_runs_from_birth_whatever_was_seen():
    assert watched({}, policy=UPSTREAM).nodes["n1"].state == "unready"


def lacking(count, *, having=0, absences=None, created=None):
    """Nodes of a group whose provider lists a driver; the first `having` have it."""
    names = [f"n{number}" for number in range(having + count)]
    return assess(
        group(nodes=names, provider=declared({EBS: 25})),
        nodes=[aged(node(name), created=created, ready="True") for name in names],
        csinodes=[
            csinode(name, {EBS: 25} if index < having else {}) for index, name in enumerate(names)
        ],
        absences=absences,
    )


def test_a_driver_that_most_nodes_lack_is_out():
    (outage,) = lacking(2, having=1).outages
    assert (outage.driver, outage.lacking, outage.late, outage.registered) == (EBS, 2, 2, 1)
    assert (outage.groups, outage.proven, outage.total) == (("g",), True, False)


def test_a_driver_that_half_of_the_nodes_have_is_not_out():
    assert lacking(2, having=2).outages == ()


def test_new_nodes_are_no_evidence_against_a_driver():
    assert lacking(5, having=1, created=60).outages == ()


def test_a_single_node_that_never_had_a_driver_proves_nothing():
    (outage,) = lacking(1).outages
    assert not outage.proven


def test_a_single_node_that_lost_its_driver_does():
    (outage,) = lacking(1, created=HOUR, absences={}).outages
    assert (outage.proven, outage.late) == (True, 0)


def test_nodes_without_a_driver_that_no_node_has_do_no_harm_to_the_cluster():
    found = lacking(5)
    assert {one.state for one in found.nodes.values()} == {"unready"}
    assert (found.healthy, found.groups["g"].healthy) == (True, True)
    assert (found.groups["g"].unready, found.groups["g"].blameless) == (5, 5)
    same = group(nodes=list(found.nodes), provider=declared({EBS: 25}))
    assert found == readiness.with_targets(found, inputs(same))


def test_nodes_without_a_driver_that_another_node_has_do():
    found = lacking(5, having=1)
    assert (found.healthy, found.groups["g"].healthy) == (False, False)
