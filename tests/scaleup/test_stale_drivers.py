"""A driver that a provider's template lists and no node of the cluster has registered."""

import pytest

from tests.scaleup.asking import CLASS, EBS, bought, decide, group, helped, left_out, stateful
from tonnage.objects.kinds import KubeObject
from tonnage.scaleup.plan import Plan
from tonnage.testing import builders as make

STALE = "stale.example.com"
STALE_CLASS = make.storage_class("stale", STALE)


def decided(*pods: KubeObject, nodes: int, slots: dict[str, int] | None = None) -> Plan:
    """For pods and a group of full nodes whose template lists a driver that none of them has."""
    names = [f"n{number}" for number in range(nodes)]
    return decide(
        CLASS,
        STALE_CLASS,
        make.csidriver(STALE, opt_in=True),
        [make.node(name) for name in names],
        [make.csinode(name, {EBS: 25}) for name in names],
        [make.pod(f"full-{name}", on=name, cpu="4") for name in names],
        group("g", slots=slots or {EBS: 25, STALE: 10}, nodes=names),
        pods,
    )


@pytest.mark.parametrize("nodes", [1, 3, 8])
def test_pods_that_do_not_need_it_are_planned_for(nodes: int) -> None:
    plan = decided(make.pod("web", cpu="1"), *stateful("db", 3, cpu="100m"), nodes=nodes)
    assert (helped(plan), bought(plan)) == (4, {"g": 1})


@pytest.mark.parametrize("nodes", [1, 3, 8])
def test_the_warning_names_driver_and_group(nodes: int) -> None:
    plan = decided(make.pod("web", cpu="1"), nodes=nodes)
    assert any("group g" in one and STALE in one for one in plan.warnings)


def test_after_many_nodes_have_waited_for_it_in_vain_none_is_bought_for_pods_that_need_it() -> None:
    needy = stateful("needy", 2, cpu="100m", storage_class="stale")
    plan = decided(*needy, nodes=8)
    assert bought(plan) == {}
    (reason,) = left_out(plan, "needy-0").reasons
    assert reason.plugin == "NodeVolumeLimits"


def test_before_that_another_node_is_given_a_try() -> None:
    needy = stateful("needy", 2, cpu="100m", storage_class="stale")
    assert bought(decided(*needy, nodes=2)) == {"g": 1}


def test_a_driver_that_another_group_has_is_not_stale() -> None:
    plan = decide(
        CLASS,
        [make.node("n1"), make.node("other")],
        make.csinode("n1"),
        make.csinode("other", {EBS: 25}),
        group("g", slots={EBS: 25}, nodes=["n1"]),
    )
    assert plan.warnings == ()
