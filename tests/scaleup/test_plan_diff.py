"""The difference between two plans."""

from collections.abc import Iterable, Mapping

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.scaleup.plan import (
    Bounds,
    GroupDelta,
    GroupLimit,
    NewNode,
    NotHelped,
    Placement,
    Plan,
    ScaleUp,
    Step,
)
from tonnage.scaleup.plan_diff import GroupChange, LimitValue, Place, PlanDiff, compare


def plan(
    *,
    bought: Mapping[str, Iterable[Iterable[str]]] | None = None,
    there: Mapping[str, str] | None = None,
    left: Iterable[str] = (),
    never: Iterable[str] = (),
    limits: Iterable[tuple[str, str, int | None, str]] = (),
    warnings: Iterable[str] = (),
    bound: int = 0,
    partial: bool = False,
) -> Plan:
    """A plan that puts pods on new nodes by group, or on nodes that are there by pod."""
    ups = {group: [tuple(pods) for pods in nodes] for group, nodes in (bought or {}).items()}
    return Plan(
        steps=tuple(
            Step(
                chosen=group,
                scale_ups=(GroupDelta(group=group, delta=len(nodes)),),
                pods=tuple(pod for pods in nodes for pod in pods),
            )
            for group, nodes in ups.items()
        ),
        scale_ups=tuple(
            ScaleUp(
                group=group,
                delta=len(nodes),
                nodes=tuple(
                    NewNode(name=f"{group}-new-{number}", pods=pods)
                    for number, pods in enumerate(nodes, start=1)
                ),
            )
            for group, nodes in ups.items()
        ),
        fit_on_existing=tuple(Placement(pod=p, node=n) for p, n in (there or {}).items()),
        not_helped=(
            *(NotHelped(pod=pod, never_fits=True) for pod in never),
            *(NotHelped(pod=pod) for pod in left),
        ),
        limits=tuple(
            GroupLimit(group=group, driver=driver, count=count, source=source)
            for group, driver, count, source in limits
        ),
        bounds=Bounds(nodes=bound, cost_per_hour=None, gap=0.0),
        partial=partial,
        warnings=tuple(warnings),
    )


def test_a_plan_is_equal_to_itself() -> None:
    one = plan(bought={"g": [["p"]]}, there={"q": "n1"}, left=["r"], warnings=["w"])
    assert compare(one, one) == PlanDiff(equal=True)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (plan(bought={"g": [["p"], ["q"]]}), plan(bought={"g": [["q"], ["p"]]})),
        (plan(left=["p", "q"]), plan(left=["q", "p"])),
        (plan(warnings=["a", "b"]), plan(warnings=["b", "a"])),
    ],
    ids=["new nodes in another order", "pods in another order", "warnings in another order"],
)
def test_order_is_no_difference(before: Plan, after: Plan) -> None:
    assert compare(before, after).equal


def test_groups_bought_more_and_less_are_found() -> None:
    before, after = plan(bought={"g": [["p"], ["q"]]}), plan(bought={"h": [["p", "q"]]})
    assert compare(before, after).groups == (
        GroupChange(group="g", before=2, after=0),
        GroupChange(group="h", before=0, after=1),
    )


def test_a_pod_left_out_before_is_newly_helped() -> None:
    found = compare(plan(left=["p"]), plan(there={"p": "n1"}))
    assert (found.newly_helped, found.equal) == (("p",), False)


def test_a_pod_left_out_after_is_no_longer_helped() -> None:
    found = compare(plan(bought={"g": [["p"]]}), plan(never=["p"]))
    assert found.no_longer_helped == ("p",)


def test_a_pod_on_a_new_node_of_another_group_has_moved() -> None:
    (move,) = compare(plan(bought={"g": [["p"]]}), plan(bought={"h": [["p"]]})).moved
    assert (move.pod, move.before, move.after) == ("p", Place(group="g"), Place(group="h"))


def test_a_pod_on_another_node_that_is_there_has_moved() -> None:
    (move,) = compare(plan(there={"p": "n1"}), plan(there={"p": "n2"})).moved
    assert (move.before, move.after) == (Place(node="n1"), Place(node="n2"))


def test_pods_that_wait_in_one_plan_only_are_neither_helped_nor_lost() -> None:
    found = compare(plan(there={"old": "n1"}), plan(there={"new": "n1"}, left=["sad"]))
    assert (found.newly_helped, found.no_longer_helped) == ((), ())
    assert (found.added, found.added_not_helped, found.gone) == (("new", "sad"), ("sad",), ("old",))


def test_a_pod_that_no_group_can_hold_any_more_is_found() -> None:
    found = compare(plan(left=["p"], never=["q"]), plan(never=["p"], left=["q"]))
    assert (found.never_fits, found.may_fit) == (("p",), ("q",))


def test_limits_differ_by_number_and_by_source() -> None:
    before = plan(limits=[("g", "d", 5, "live"), ("h", "d", 5, "live"), ("i", "d", 5, "live")])
    after = plan(limits=[("g", "d", 6, "live"), ("h", "d", 5, "provider"), ("i", "d", 5, "live")])
    found = compare(before, after).limits
    assert [(one.group, one.before, one.after) for one in found] == [
        ("g", LimitValue(count=5, source="live"), LimitValue(count=6, source="live")),
        ("h", LimitValue(count=5, source="live"), LimitValue(count=5, source="provider")),
    ]


def test_a_limit_that_only_one_plan_has_is_a_difference() -> None:
    (found,) = compare(plan(), plan(limits=[("g", "d", None, "unknown")])).limits
    assert (found.before, found.after) == (None, LimitValue(count=None, source="unknown"))


def test_warnings_come_and_go() -> None:
    found = compare(plan(warnings=["a", "b"]), plan(warnings=["b", "c"]))
    assert (found.warnings_new, found.warnings_gone) == (("c",), ("a",))


def test_another_bound_is_a_difference() -> None:
    found = compare(plan(bound=1), plan(bound=2))
    assert found.bounds is not None
    assert (found.bounds.before.nodes, found.bounds.after.nodes) == (1, 2)


def test_a_plan_that_became_partial_is_a_difference() -> None:
    found = compare(plan(), plan(partial=True))
    assert found.partial is not None
    assert found.partial.after


def test_the_difference_can_be_written_and_read() -> None:
    found = compare(plan(left=["p"]), plan(bought={"g": [["p"]]}, warnings=["w"]))
    assert msgspec.json.decode(msgspec.json.encode(found), type=PlanDiff) == found


PODS = st.sampled_from(["a", "b", "c", "d", "e"])


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """Each pod is on a new node, on a node that is there, left out, or not mentioned."""
    fates = draw(st.dictionaries(PODS, st.sampled_from(["g", "h", "n1", "n2", "out", "never"])))
    groups = sorted({fate for fate in fates.values() if fate in "gh"})
    return plan(
        bought={g: [[pod for pod, fate in fates.items() if fate == g]] for g in groups},
        there={pod: fate for pod, fate in fates.items() if fate in ("n1", "n2")},
        left=[pod for pod, fate in fates.items() if fate == "out"],
        never=[pod for pod, fate in fates.items() if fate == "never"],
    )


@given(before=plans(), after=plans())
def test_backwards_what_was_gained_is_lost(before: Plan, after: Plan) -> None:
    there, back = compare(before, after), compare(after, before)
    assert set(there.newly_helped) == set(back.no_longer_helped)
    assert set(there.added) == set(back.gone)
    assert set(there.never_fits) == set(back.may_fit)
    assert {one.pod for one in there.moved} == {one.pod for one in back.moved}
    assert there.equal == back.equal


@given(before=plans(), after=plans())
def test_no_pod_changes_in_two_ways(before: Plan, after: Plan) -> None:
    found = compare(before, after)
    named = [
        *found.newly_helped,
        *found.no_longer_helped,
        *(one.pod for one in found.moved),
        *found.added,
        *found.gone,
        *found.never_fits,
        *found.may_fit,
    ]
    assert len(named) == len(set(named))
