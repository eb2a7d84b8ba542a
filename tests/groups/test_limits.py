"""Where the limit of a driver on a node that does not exist comes from."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.groups.group_objects import (
    EBS,
    EFS,
    NOW,
    TYPE,
    UPSTREAM,
    aged,
    build,
    counts,
    declared,
    group,
    sources,
    template,
)
from tonnage.groups import limits
from tonnage.groups.memory import TemplateMemory
from tonnage.groups.model import Limit
from tonnage.groups.policy import GroupPolicy
from tonnage.objects.nodes import Node
from tonnage.testing.builders import csinode, node

M5 = "m5.large"  # 26 volumes by the catalogue


def machine(name: str, kind: str = M5) -> Node:
    return node(name, labels={TYPE: kind})


def past(count: int, kind: str) -> TemplateMemory:
    """The memory of group g after it had a node with this limit."""
    nodes, csinodes = [machine("n0", kind)], [csinode("n0", {EBS: count})]
    return build(group(nodes=["n0"]), nodes=nodes, csinodes=csinodes, now=NOW - 86400).memory


def limit_without(*missing: str) -> tuple[dict[str, object], dict[str, object]]:
    """What comes out when every source has a number of its own, but the missing ones."""
    kind = "unheard.of" if "catalogue" in missing else M5
    live, elsewhere = "live" not in missing, "learned" not in missing
    one = group(
        nodes=["n1"] if live else [],
        limits={EBS: 1} if "override" not in missing else {},
        provider=declared({EBS: 3 if "provider" not in missing else None}, node=machine("p", kind)),
    )
    made = template(
        one,
        nodes=[machine("n1", kind)] * live + [machine("n2", kind)] * elsewhere,
        csinodes=[csinode("n1", {EBS: 2}), csinode("n2", {EBS: 5})],
        memory=past(4, kind) if "remembered" not in missing else None,
    )
    return {**sources(made)}, {**counts(made)}


ORDER = ["override", "live", "provider", "remembered", "learned", "catalogue"]
NUMBERS = [1, 2, 3, 4, 5, 26]


@pytest.mark.parametrize("place", range(6), ids=ORDER)
def test_the_first_source_with_a_number_wins(place):
    found, enforced = limit_without(*ORDER[:place])
    assert found == {EBS: (NUMBERS[place], ORDER[place])}
    assert enforced == {EBS: NUMBERS[place]}


def test_a_driver_that_is_listed_and_has_no_number_anywhere_is_unlimited():
    found, enforced = limit_without(*ORDER)
    assert found == {EBS: (None, "provider")}
    assert enforced == {EBS: None}


def test_a_driver_that_nobody_lists_is_unknown_and_not_on_the_node():
    made = template(group(provider=declared()), wanted=["strange.example"])
    assert sources(made) == {"strange.example": (None, "unknown")}
    assert counts(made) == {}


def test_an_unknown_limit_is_a_problem_of_the_group():
    made = build(group(provider=declared()), wanted=["strange.example"])
    (problem,) = made.problems["g"]
    assert problem.startswith("group g: nothing tells how many volumes of driver strange.example")


def test_a_driver_that_is_listed_without_any_number_is_unlimited():
    made = template(group(provider=declared({EFS: None})))
    assert sources(made) == {EFS: (None, "provider")}
    assert counts(made) == {EFS: None}


def test_a_live_entry_without_a_number_lets_the_search_go_on():
    one = group(nodes=["n1"], provider=declared({EBS: 25}))
    made = template(one, nodes=[node("n1")], csinodes=[csinode("n1", {EBS: None})])
    assert sources(made) == {EBS: (25, "provider")}


def test_a_limit_of_zero_is_a_number():
    one = group(nodes=["n1"], provider=declared({EBS: 25}))
    made = template(one, nodes=[node("n1")], csinodes=[csinode("n1", {EBS: 0})])
    assert sources(made) == {EBS: (0, "live")}


def test_a_sibling_gives_the_number_that_the_first_node_does_not():
    one = group(nodes=["n1", "n2", "n3", "n4"], provider=declared({EBS: 25}))
    made = template(
        one,
        nodes=[node(f"n{i}") for i in range(1, 5)],
        csinodes=[csinode(f"n{i}", {EBS: c}) for i, c in enumerate([None, 39, 27, 27], start=1)],
    )
    assert sources(made) == {EBS: (27, "live")}


def test_a_wanted_driver_is_learned_from_the_same_type_elsewhere_and_put_on_the_node():
    made = template(
        group(provider=declared(node=machine("any", "x1"))),
        nodes=[machine("n1", "x1"), machine("n2", "x2")],
        csinodes=[csinode("n1", {EBS: 11}), csinode("n2", {EBS: 12})],
        wanted=[EBS],
    )
    assert sources(made) == {EBS: (11, "learned")}
    assert counts(made) == {EBS: 11}


def test_nodes_that_are_not_ready_teach_nothing():
    made = template(
        group(provider=declared(node=machine("any", "x1"))),
        nodes=[aged(machine("n1", "x1"), ready="False")],
        csinodes=[csinode("n1", {EBS: 11})],
        wanted=[EBS],
    )
    assert sources(made) == {EBS: (None, "unknown")}


def test_drivers_elsewhere_that_nobody_wants_are_not_put_on_the_node():
    made = template(
        group(provider=declared(node=machine("any", "x1"))),
        nodes=[machine("n1", "x1")],
        csinodes=[csinode("n1", {EBS: 11})],
    )
    assert counts(made) == {}


def test_without_any_csi_template_a_wanted_driver_falls_back_to_the_catalogue():
    made = build(group(provider=declared(node=machine("any"))), wanted=[EBS])
    assert sources(made.by_group["g"]) == {EBS: (26, "catalogue")}
    assert made.problems == {}


def test_the_catalogue_knows_drivers_that_depend_on_the_memory():
    provider = declared(node=node("any", memory="15900Mi", labels={TYPE: "g6-standard-6"}))
    made = template(group(provider=provider), wanted=["linodebs.csi.linode.com"])
    assert sources(made) == {"linodebs.csi.linode.com": (14, "catalogue")}


def test_a_driver_the_operator_gives_a_number_for_is_on_the_node():
    made = template(group(limits={EBS: 24}, provider=declared()))
    assert counts(made) == {EBS: 24}


def test_a_driver_that_old_nodes_of_the_group_do_not_have_is_not_assumed():
    made = build(
        group(nodes=["n1"]),
        nodes=[machine("n1")],
        csinodes=[csinode("n1", {EFS: None})],
        wanted=[EBS],
    )
    assert sources(made.by_group["g"])[EBS] == (None, "unknown")
    assert counts(made.by_group["g"]) == {EFS: None}
    assert made.problems["g"] == (
        f"group g: its nodes do not register driver {EBS}, which pending pods want",
    )


def test_a_driver_that_new_nodes_do_not_have_yet_is_assumed():
    made = template(
        group(nodes=["n1"]),
        nodes=[aged(machine("n1"), created=120)],
        csinodes=[csinode("n1", {EFS: None})],
        wanted=[EBS],
    )
    assert sources(made)[EBS] == (26, "catalogue")


def test_an_empty_csinode_proves_nothing():
    made = template(
        group(nodes=["n1"]), nodes=[machine("n1")], csinodes=[csinode("n1")], wanted=[EBS]
    )
    assert sources(made) == {EBS: (26, "catalogue")}


def test_as_upstream_limits_are_what_the_csinode_says_and_nothing_else():
    one = group(nodes=["n1"], limits={EBS: 1}, provider=declared())
    made = template(
        one,
        nodes=[machine("n1")],
        csinodes=[csinode("n1", {EBS: None, EFS: 7})],
        wanted=[EBS, "other"],
        policy=UPSTREAM,
    )
    assert counts(made) == {EBS: None, EFS: 7}
    assert sources(made) == {EBS: (None, "live"), EFS: (7, "live"), "other": (None, "unknown")}


def test_with_csi_awareness_off_nothing_is_known():
    made = template(
        group(nodes=["n1"], limits={EBS: 1}),
        nodes=[machine("n1")],
        csinodes=[csinode("n1", {EBS: 25})],
        wanted=[EBS],
        policy=GroupPolicy(csi_aware=False),
    )
    assert made.csinode is None
    assert sources(made) == {EBS: (None, "unknown")}


numbers = st.one_of(st.none(), st.integers(0, 100))
told = st.lists(
    st.builds(Limit, driver=st.just("d"), count=numbers, source=st.text("abc", min_size=1))
)


@given(told)
def test_a_limit_is_the_first_number_or_else_the_first_listing(given_limits):
    numbered = [limit for limit in given_limits if limit.count is not None]
    unknown = Limit(driver="d", count=None, source="unknown")
    assert limits.resolve("d", given_limits) == [*numbered, *given_limits, unknown][0]


@given(st.lists(numbers))
def test_the_typical_number_is_one_of_the_most_common_and_never_the_higher_of_two(given_counts):
    given_numbers = [count for count in given_counts if count is not None]
    found = limits.typical(given_counts)
    if not given_numbers:
        assert found is None
    else:
        most = max(given_numbers.count(n) for n in given_numbers)
        assert found == min(n for n in given_numbers if given_numbers.count(n) == most)
