from tests.groups.group_objects import declared, node_group
from tonnage.groups.node_group_objects import from_objects
from tonnage.objects.meta import LabelRequirement
from tonnage.testing.builders import node, selecting


def test_a_group_has_the_nodes_it_names_in_its_order():
    (group,) = from_objects([node_group("g", nodes=["n2", "n1"])], [node("n1"), node("n2")])
    assert group.nodes == ("n2", "n1")


def test_a_group_has_the_nodes_its_selector_matches():
    nodes = [node("n1", labels={"pool": "a"}), node("n2", labels={"pool": "b"})]
    (group,) = from_objects([node_group("g", selector=selecting({"pool": "b"}))], nodes)
    assert group.nodes == ("n2",)


def test_a_selector_of_expressions_alone_looks_at_every_node():
    nodes = [node("n1", labels={"pool": "a"}), node("n2")]
    selector = selecting({}, LabelRequirement(key="pool", operator="Exists"))
    (group,) = from_objects([node_group("g", selector=selector)], nodes)
    assert group.nodes == ("n1",)


def test_every_part_of_a_selector_has_to_match():
    nodes = [
        node("n1", labels={"pool": "a", "gen": "1"}),
        node("n2", labels={"pool": "a", "gen": "2"}),
    ]
    selector = selecting({"pool": "a", "gen": "2"})
    (group,) = from_objects([node_group("g", selector=selector)], nodes)
    assert group.nodes == ("n2",)


def test_a_node_that_is_named_and_selected_counts_once():
    nodes = [node("n1", labels={"pool": "a"})]
    wanted = node_group("g", nodes=["n1"], selector=selecting({"pool": "a"}))
    (group,) = from_objects([wanted], nodes)
    assert group.nodes == ("n1",)


def test_the_target_is_the_number_of_nodes_unless_it_is_given():
    nodes = [node("n1"), node("n2")]
    first, second = from_objects(
        [node_group("a", nodes=["n1"]), node_group("b", nodes=["n2"], target_size=0)], nodes
    )
    assert (first.target, second.target) == (1, 0)


def test_sizes_limits_price_scaling_and_template_are_carried_over():
    template = declared({"d": 3})
    (group,) = from_objects(
        [
            node_group(
                "g",
                min_size=2,
                max_size=7,
                limits={"d": 5},
                price_per_hour="0.504",
                scaling="zeroOrMax",
                template=template,
            )
        ],
        [],
    )
    assert (group.min_size, group.max_size, group.limits) == (2, 7, {"d": 5})
    assert (group.price_per_hour, group.all_or_nothing) == (0.504, True)
    assert group.provider_template == template
    assert group.problems == ()


def test_a_node_that_two_groups_claim_belongs_to_the_first_and_the_second_says_so():
    first, second = from_objects(
        [node_group("a", nodes=["n1"]), node_group("b", nodes=["n1"])], [node("n1")]
    )
    assert (first.nodes, first.problems) == (("n1",), ())
    assert second.nodes == ()
    assert second.problems == ("group b: node n1 already belongs to group a",)


def test_unknown_nodes_are_left_out_and_named():
    (group,) = from_objects([node_group("g", nodes=["n1", "n8", "n9"])], [node("n1")])
    assert group.nodes == ("n1",)
    assert group.problems == ("group g: spec.nodes: no such node: n8, n9",)


def test_a_broken_selector_is_named_and_the_nodes_given_by_name_stay():
    selector = selecting({}, LabelRequirement(key="pool", operator="Near"))
    (group,) = from_objects([node_group("g", nodes=["n1"], selector=selector)], [node("n1")])
    assert group.nodes == ("n1",)
    (problem,) = group.problems
    assert problem.startswith("group g: spec.nodeSelector: ")
    assert "Near" in problem


def test_of_two_groups_of_one_name_the_first_is_kept_and_says_so():
    (group,) = from_objects([node_group("g", max_size=1), node_group("g", max_size=2)], [])
    assert group.max_size == 1
    assert group.problems == ("group g: declared twice; the first is used",)


def test_sizes_that_contradict_each_other_are_named():
    (group,) = from_objects([node_group("g", min_size=3, max_size=2)], [])
    assert group.problems == ("group g: spec.minSize 3 is above spec.maxSize 2",)


def test_an_unknown_way_of_scaling_is_named_and_taken_as_any():
    (group,) = from_objects([node_group("g", scaling="sideways")], [])
    assert not group.all_or_nothing
    assert "spec.scaling 'sideways'" in group.problems[0]


def test_a_price_that_is_no_number_is_named_and_left_out():
    (group,) = from_objects([node_group("g", price_per_hour="cheap")], [])
    assert group.price_per_hour is None
    assert group.problems[0].startswith("group g: spec.pricePerHour: ")
