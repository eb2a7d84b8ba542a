"""Two autoscalers' words about pods and groups, held against each other."""

from tonnage.autoscaler.report import Done, LoggedDecision
from tonnage.migration import comparison
from tonnage.migration.comparison import AutoscalerEvent
from tonnage.scaleup.plan import GroupLimit, NewNode, NotHelped, Placement, Plan, ScaleUp


def bought(pod: str, group: str = "g", nodes: int = 1, *, dry_run: bool = True) -> LoggedDecision:
    made = ScaleUp(group=group, delta=nodes, nodes=(NewNode(name="new", pods=(pod,)),))
    done = Done(deed="increase", group=group, nodes=nodes, reason="", dry_run=dry_run)
    return LoggedDecision(time="2026-01-01T00:00:00Z", plan=Plan(scale_ups=(made,)), done=(done,))


def triggered(pod: str, *changes: str) -> AutoscalerEvent:
    text = " ".join(f"{{{change}}}" for change in changes)
    message = f"pod triggered scale-up: [{text}]"
    return AutoscalerEvent(reason="TriggeredScaleUp", subject=pod, message=message, time="1")


def refused(pod: str, time: str = "0") -> AutoscalerEvent:
    return AutoscalerEvent(reason="NotTriggerScaleUp", subject=pod, message="no", time=time)


def same(decisions: list[LoggedDecision], events: list[AutoscalerEvent]) -> bool:
    return comparison.compare(decisions, events, {}).same


def test_the_same_group_and_number_is_no_difference() -> None:
    assert same([bought("a/p")], [triggered("a/p", "g 0->1 (max: 5)")])


def test_another_group_is_a_difference() -> None:
    assert not same([bought("a/p")], [triggered("a/p", "h 0->1 (max: 5)")])


def test_another_number_is_a_difference() -> None:
    assert not same([bought("a/p", nodes=2)], [triggered("a/p", "g 0->1 (max: 5)")])


def test_a_purchase_told_by_many_pods_counts_once() -> None:
    events = [triggered(pod, "g 0->1 (max: 5)") for pod in ("a/p", "a/q")]
    (row,) = comparison.compare([], events, {}).groups
    assert row.theirs == 1


def test_a_group_is_known_by_the_last_part_of_an_address() -> None:
    url = "https://compute.example.com/zones/z/instanceGroups/g"
    assert same([bought("a/p")], [triggered("a/p", f"{url} 0->1 (max: 5)")])


def test_a_refusal_before_a_purchase_is_forgotten() -> None:
    assert same([bought("a/p")], [refused("a/p"), triggered("a/p", "g 0->1 (max: 5)")])


def test_who_sees_room_agrees_with_who_says_nothing() -> None:
    plan = Plan(fit_on_existing=(Placement(pod="a/p", node="n"),))
    assert same([LoggedDecision(time="1", plan=plan)], [])


def test_who_is_left_out_by_both_is_no_difference() -> None:
    plan = Plan(not_helped=(NotHelped(pod="a/p"),))
    assert same([LoggedDecision(time="1", plan=plan)], [refused("a/p")])


def test_a_group_that_only_they_know_is_told_with_its_target() -> None:
    status = {"nodeGroups": [{"name": "h", "health": {"cloudProviderTarget": 3}}]}
    limit = GroupLimit(group="g", driver="d", count=1, source="live")
    decision = LoggedDecision(time="1", plan=Plan(limits=(limit,)))
    (row,) = comparison.compare([decision], [], status).groups
    assert (row.group, row.their_target, row.ours) == ("h", 3, None)


def test_tonnage_that_acts_itself_is_warned_about() -> None:
    warnings = comparison.compare([bought("a/p", dry_run=False)], [], {}).warnings
    assert any("did not run in dry-run" in text for text in warnings)


def test_a_status_of_plain_text_has_no_groups() -> None:
    assert comparison.read_status("Cluster-autoscaler status at 2026") == {}
