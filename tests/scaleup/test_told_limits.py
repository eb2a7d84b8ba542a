"""Plans by what is told of limits: by the operator, and by nodes that do not all say the same."""

import msgspec
import pytest

from tests.scaleup.asking import (
    CLASS,
    EBS,
    NOW,
    TYPE,
    UPSTREAM,
    assessed,
    bought,
    decide,
    group,
    stateful,
)
from tonnage.groups import options
from tonnage.groups.inputs import Inputs
from tonnage.objects import limit_keys
from tonnage.objects.kinds import KubeObject
from tonnage.rules import features
from tonnage.scaleup import decision
from tonnage.scaleup.plan import Plan
from tonnage.testing import builders as make


def full_nodes(*slots: int) -> list[KubeObject]:
    """Nodes with no CPU left, each with its number of slots; and their group."""
    made: list[KubeObject] = []
    for number, count in enumerate(slots, start=1):
        name = f"n{number}"
        made += [make.node(name, cpu="4"), make.csinode(name, {EBS: count})]
        made.append(make.pod(f"busy-{number}", cpu="4", on=name))
    names = [f"n{number}" for number in range(1, len(slots) + 1)]
    return [*made, group("g", nodes=names, described=False)]


def said(plan: Plan) -> list[tuple[int | None, str, int | None, int | None]]:
    return [(one.count, one.source, one.votes, one.voters) for one in plan.limits]


@pytest.mark.parametrize(
    ("slots", "pods", "nodes"),
    [
        pytest.param((2, 26, 26), 12, 1, id="the first says too little"),
        pytest.param((26, 2, 26), 12, 1, id="another says too little"),
        pytest.param((10, 3, 3, 3, 3), 20, 7, id="the first says too much"),
        pytest.param((26, 2), 12, 6, id="as many say one as the other: the lower"),
    ],
)
def test_what_most_nodes_of_a_group_say_holds_for_new_ones(
    slots: tuple[int, ...], pods: int, nodes: int
) -> None:
    plan = decide(CLASS, full_nodes(*slots), stateful("db", pods, cpu="10m"))

    assert bought(plan) == {"g": nodes}


def test_a_plan_says_how_many_nodes_agree_and_names_the_odd_one() -> None:
    plan = decide(CLASS, full_nodes(2, 26, 26), stateful("db", 12, cpu="10m"))

    assert said(plan) == [(26, "live", 2, 3)]
    (warning,) = plan.warnings
    assert warning == (
        f"group g: new nodes are taken to have 26 slots of driver {EBS}, as 2 of 3 nodes say;"
        " not n1 (2)"
    )


def test_a_plan_does_not_warn_where_all_agree() -> None:
    plan = decide(CLASS, full_nodes(26, 26), stateful("db", 12, cpu="10m"))

    assert said(plan) == [(26, "live", 2, 2)]
    assert plan.warnings == ()


def test_upstream_goes_by_the_node_it_copies() -> None:
    plan = decide(
        CLASS, full_nodes(2, 26, 26), stateful("db", 12, cpu="10m"), compatibility=UPSTREAM
    )

    assert bought(plan) == {"g": 6}
    assert said(plan) == [(2, "live", None, None)]


# The operator.


@pytest.mark.parametrize(
    ("limits", "nodes"),
    [
        pytest.param({"groups": {"g": {EBS: 4}}}, 3, id="by group"),
        pytest.param({"instanceTypes": {"m5.large": {EBS: 3}}}, 4, id="by instance type"),
        pytest.param(
            {"groups": {"g": {EBS: 4}}, "instanceTypes": {"m5.large": {EBS: 3}}},
            3,
            id="a group goes before its type",
        ),
        pytest.param({"groups": {"h": {EBS: 4}}}, 1, id="another group"),
        pytest.param({"groups": {"g": {"x.csi": 4}}}, 1, id="another driver"),
    ],
)
def test_the_operator_sets_limits_for_groups_of_any_provider(
    limits: dict[str, object], nodes: int
) -> None:
    made = group("g", kind="m5.large", slots={EBS: 25}), group("h", cpu="1m")

    plan = decide(CLASS, made, stateful("db", 12, cpu="10m"), limits=limits)

    assert bought(plan) == {"g": nodes}


def test_a_node_groups_own_limit_goes_before_the_options() -> None:
    made = group("g", limits={EBS: 6})

    plan = decide(CLASS, made, stateful("db", 12), limits={"groups": {"g": {EBS: 4}}})

    assert said(plan) == [(6, "override", None, None)]


def test_a_limit_for_a_group_that_is_not_there_is_warned_about() -> None:
    plan = decide(CLASS, group("g"), stateful("db", 1), limits={"groups": {"typo": {EBS: 4}}})

    assert "limits.groups: there is no node group typo" in plan.warnings


# Resources of nodes, as the KEP of 2018 has them.

KEY = f"attachable-volumes-csi-{EBS}"
LEGACY = features.of_version("", legacy_attach_limits=True)


def keyed_node(key: str = KEY, *, slots: int = 3) -> list[KubeObject]:
    """A full node of a group, whose limit is among its resources and nowhere else."""
    made = make.node("n1", cpu="4", allocatable={key: slots}, labels={TYPE: "m5.large"})
    busy = make.pod("busy", cpu="4", on="n1")
    return [made, make.csinode("n1", {EBS: None}), busy, group("g", nodes=["n1"], described=False)]


def keys(plan: Plan) -> list[tuple[str, int | None, str, str | None]]:
    return [(one.driver, one.count, one.source, one.key) for one in plan.limits]


def judged(*objects: KubeObject, **settings: object) -> Plan:
    """A plan by a scheduler that goes by the KEP of 2018."""
    chosen = options.of({"csiAware": False, **settings})
    return decision.decide(
        Inputs.of_objects(objects, options=chosen, features=LEGACY, now=NOW)
    ).plan


def test_a_live_key_goes_before_the_catalogue() -> None:
    plan = decide(CLASS, keyed_node(), stateful("db", 6, cpu="10m"))

    assert keys(plan) == [(EBS, 3, "live", KEY)]
    assert bought(plan) == {"g": 2}


def test_a_csinodes_number_goes_before_a_key() -> None:
    node, _, *others = keyed_node()

    plan = decide(CLASS, node, make.csinode("n1", {EBS: 6}), others, stateful("db", 6, cpu="10m"))

    assert keys(plan) == [(EBS, 6, "live", None)]


def test_a_key_in_a_providers_template_goes_before_the_catalogue() -> None:
    made = group("g", kind="m5.large")
    assert made.spec.template is not None
    described = make.node("template", allocatable={KEY: 3}, labels={TYPE: "m5.large"})
    template = msgspec.structs.replace(made.spec.template, node=described)
    spec = msgspec.structs.replace(made.spec, template=template)

    plan = decide(CLASS, msgspec.structs.replace(made, spec=spec), stateful("db", 6, cpu="10m"))

    assert keys(plan) == [(EBS, 3, "provider", KEY)]
    assert bought(plan) == {"g": 2}


def test_the_key_of_an_in_tree_plugin_is_a_source_too() -> None:
    plan = decide(CLASS, keyed_node("attachable-volumes-aws-ebs"), stateful("db", 6, cpu="10m"))

    assert keys(plan) == [(EBS, 3, "live", "attachable-volumes-aws-ebs")]


def test_the_key_a_csidriver_names_is_read_in_plans() -> None:
    driver = make.csidriver(EBS)
    annotations = {limit_keys.KEY_ANNOTATION: "attachable-volumes-mine"}
    metadata = msgspec.structs.replace(driver.metadata, annotations=annotations)
    named = msgspec.structs.replace(driver, metadata=metadata)

    nodes, pods = keyed_node("attachable-volumes-mine"), stateful("db", 6, cpu="10m")
    plan = decide(CLASS, named, nodes, pods)

    assert keys(plan) == [(EBS, 3, "live", "attachable-volumes-mine")]


def test_a_key_that_is_gone_with_its_node_is_remembered() -> None:
    nodes = keyed_node()
    before = assessed([CLASS, *nodes]).templates.memory

    empty = group("g", described=False)
    plan = decide(CLASS, empty, stateful("db", 6, cpu="10m"), memory=before)

    assert [(one.count, one.source) for one in plan.limits] == [(3, "remembered")]


def test_without_csi_awareness_legacy_limits_still_hold_and_are_named() -> None:
    plan = judged(CLASS, *keyed_node(), *stateful("db", 6, cpu="10m"))

    assert keys(plan) == [(EBS, 3, "live", KEY)]
    assert bought(plan) == {"g": 2}


def test_without_csi_awareness_and_keys_any_number_of_csi_volumes_fits() -> None:
    made = group("g", kind="m5.large")

    plan = judged(CLASS, made, *stateful("db", 50, cpu="10m"))

    assert keys(plan) == [(EBS, None, "unknown", None)]
    assert bought(plan) == {"g": 1}


def test_in_tree_volumes_have_the_number_of_old_in_plans() -> None:
    plugin = "kubernetes.io/aws-ebs"
    old, made = make.storage_class("fast", plugin), group("g", kind="m5.large")

    plan = judged(old, made, *stateful("db", 50, cpu="10m"))

    assert (plugin, 25, "catalogue", None) in keys(plan)
    assert bought(plan) == {"g": 2}
