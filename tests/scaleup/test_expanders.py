"""Which option is chosen, and by which rule."""

import math

import pytest

from tests.scaleup.choices import Refusing, chain, chosen, option, possible, reasons
from tonnage.errors import InputError
from tonnage.objects.nodes import Node
from tonnage.scaleup import expanders
from tonnage.scaleup.expanders import Option, PodRates
from tonnage.scaleup.priority_texts import parse_priorities
from tonnage.testing import builders

RANKED = [
    (
        "least-waste takes the group whose nodes are filled best",
        "least-waste",
        [option("big", node_cpu=16000, node_memory=64), option("small", node_cpu=2000)],
        {"small"},
    ),
    (
        "least-waste adds the fraction of memory to that of CPU",
        "least-waste",
        [
            option("cpu-full", cpu=4000, memory=1),
            option("both-half-full", cpu=2500, memory=10),
        ],
        {"both-half-full"},
    ),
    (
        "least-waste counts all of an option's nodes",
        "least-waste",
        [option("one", cpu=4000), option("two", nodes=2, cpu=4000)],
        {"one"},
    ),
    (
        "least-waste keeps what ties to the last bit",
        "least-waste",
        [option("a", cpu=1500), option("b", nodes=2, cpu=3000, memory=2), option("c", cpu=1400)],
        {"a", "b"},
    ),
    (
        "least-waste takes a template that says its capacity before one that does not",
        "least-waste",
        [option("silent", node_memory=0, node_cpu=0), option("clear", node_cpu=16000)],
        {"clear"},
    ),
    (
        "most-pods takes the group that holds the most pods",
        "most-pods",
        [option("two", pods=2), option("three", pods=3), option("also-three", pods=3)],
        {"three", "also-three"},
    ),
    (
        "least-nodes takes the group that needs the fewest nodes",
        "least-nodes",
        [option("two", nodes=2), option("one", nodes=1), option("also-one", nodes=1)],
        {"one", "also-one"},
    ),
    (
        "random takes any",
        "random",
        [option("a"), option("b", nodes=9), option("c", pods=9)],
        {"a", "b", "c"},
    ),
    (
        "in a chain the second decides among what the first left",
        "least-nodes,most-pods",
        [option("a", pods=1), option("b", pods=2), option("c", nodes=2, pods=3)],
        {"b"},
    ),
    (
        "in a chain the second is not asked when one is left",
        "most-pods,least-nodes",
        [option("a", pods=1), option("b", pods=2), option("c", nodes=2, pods=3)],
        {"c"},
    ),
    (
        "random may end a chain",
        "most-pods,random",
        [option("a", pods=1), option("b", pods=2), option("c", nodes=2, pods=2)],
        {"b", "c"},
    ),
    ("no options give no choice", "least-waste,most-pods", [], {None}),
]


@pytest.mark.parametrize(
    ("names", "options", "expected"),
    [row[1:] for row in RANKED],
    ids=[row[0] for row in RANKED],
)
def test_choice(names: str, options: list[Option], expected: set[str | None]) -> None:
    assert possible(names, *options) == expected


WRONG = [
    (
        "a name that is none",
        "least-wast",
        "no expander 'least-wast'; expected one or more of least-",
    ),
    ("no name", "", "no expander ''; expected one or more of"),
    ("a trailing comma", "price,", "no expander ''"),
    ("a name twice", "price,priority,price", "price is named twice"),
    ("something after random", "random,price", "price comes after random"),
    ("grpc without a server", "grpc", "grpc needs the address of its server"),
]


@pytest.mark.parametrize(
    ("names", "message"), [row[1:] for row in WRONG], ids=[row[0] for row in WRONG]
)
def test_wrong_list(names: str, message: str) -> None:
    with pytest.raises(InputError, match=r"^expander: ") as raised:
        chain(names)
    assert message in str(raised.value)


def test_a_wrong_list_names_every_expander_there_is() -> None:
    with pytest.raises(InputError) as raised:
        chain("cheapest")
    assert all(name in str(raised.value) for name in expanders.NAMES)


def test_blanks_around_commas_are_no_matter() -> None:
    assert chosen("least-nodes, most-pods", option("a"), option("b", pods=2)) == "b"


def test_an_outside_expander_takes_its_place_in_the_chain() -> None:
    assert (
        chosen("least-waste,grpc", option("a"), option("b"), outside={"grpc": Refusing()}) is None
    )


def test_even_a_single_option_is_shown_to_the_first_expander() -> None:
    assert chosen("grpc,random", option("a"), outside={"grpc": Refusing()}) is None


def test_a_chain_passes_on_what_outside_expanders_say() -> None:
    assert reasons(chain("grpc", outside={"grpc": Refusing()})) == ["No"]


# Price.

PRICED = [
    (
        "the cheaper of two alike",
        [option("dear", price=0.3), option("cheap", price=0.2)],
        {},
        "cheap",
    ),
    (
        "the one that gives more pods for its money",
        [option("half", price=0.2), option("full", cpu=4000, memory=12, price=0.3)],
        {},
        "full",
    ),
    (
        "small nodes for a small cluster, at the same price by size",
        [
            option("large", cpu=16000, memory=0, node_cpu=16000, price=0.8),
            option("small", cpu=1000, memory=0, node_cpu=1000, price=0.05),
        ],
        {"cluster_size": 2},
        "small",
    ),
    (
        "large nodes for a large cluster, at the same price by size",
        [
            option("large", cpu=16000, memory=0, node_cpu=16000, price=0.8),
            option("small", cpu=1000, memory=0, node_cpu=1000, price=0.05),
        ],
        {"cluster_size": 200},
        "large",
    ),
    (
        "the size of nodes hardly matters when there are many",
        [
            option("large", cpu=16000 * 60, memory=0, nodes=60, node_cpu=16000, price=0.80),
            option("small", cpu=1000 * 960, memory=0, nodes=960, node_cpu=1000, price=0.0499),
        ],
        {"cluster_size": 200},
        "small",
    ),
    (
        "never accelerators while anything else will do",
        [option("gpu", price=0.1, gpu=True), option("plain", price=20.0)],
        {},
        "plain",
    ),
    (
        "what has a price before what has none",
        [option("unknown"), option("dear", price=9.0)],
        {},
        "dear",
    ),
]


@pytest.mark.parametrize(
    ("options", "more", "expected"),
    [row[1:] for row in PRICED],
    ids=[row[0] for row in PRICED],
)
def test_price_takes(options: list[Option], more: dict[str, int], expected: str) -> None:
    assert possible("price", *options, **more) == {expected}


def test_the_score_of_a_price_is_upstreams() -> None:
    # Worked out by hand, with rates of 0.02 and 0.01: the steadying pod of
    # 500m and 500Mi costs 0.01 + 0.0048828125; 2 cores and 4 GiB of pods cost 0.08.
    priced = expanders.Price(cluster_size=7, rates=PodRates(cpu=0.02, memory_gib=0.01))
    steadying = 0.0148828125
    value = (3 * 0.1 + steadying) / (0.08 + steadying)
    unfitness = (16000 / 4000 - 1) * (1 - math.tanh(2 / 15)) + 1
    scored = option("a", nodes=3, cpu=2000, memory=4, node_cpu=16000, price=0.1)
    assert priced.score(scored) == pytest.approx(unfitness * value)


PREFERRED = [
    (None, 4000),
    (0, 1000),
    (2, 1000),
    (3, 2000),
    (6, 2000),
    (7, 4000),
    (20, 4000),
    (21, 8000),
    (60, 8000),
    (61, 16000),
    (200, 16000),
    (201, 32000),
]


@pytest.mark.parametrize(("size", "cpu"), PREFERRED)
def test_the_preferred_node_doubles_when_the_cluster_triples(size: int | None, cpu: int) -> None:
    sizes = [1000 * 2**power for power in range(6)]
    options = [option(str(one), node_cpu=one, price=0.1) for one in sizes]
    assert chosen("price", *options, cluster_size=size) == str(cpu)


def test_without_any_price_nothing_is_filtered_and_that_is_said_once() -> None:
    options = (option("a"), option("b", pods=2))
    found = chain("price,most-pods")
    assert [found.choose(options), found.choose(options)] == [options[1], options[1]]
    assert reasons(found) == ["PriceMissing", "PriceMissing", "NoPrices"]


def test_rates_of_nothing_are_refused() -> None:
    with pytest.raises(InputError, match="expected more than 0"):
        PodRates(cpu=0.0)


def test_a_node_with_a_device_to_allocate_has_a_gpu() -> None:
    assert expanders.has_gpu(builders.node("n", allocatable={"nvidia.com/gpu": "1"}))


def test_a_node_with_the_label_of_a_device_still_to_come_has_a_gpu() -> None:
    assert expanders.has_gpu(builders.node("n", labels={"k8s.amazonaws.com/accelerator": "t4"}))


def test_a_node_whose_devices_are_none_has_no_gpu() -> None:
    assert not expanders.has_gpu(builders.node("n", allocatable={"amd.com/gpu": 0}))
    assert not expanders.has_gpu(Node())


# Priority.

CONFIG_MAP = r"""
10:
  - .*t2\.large.*
  - .*t3\.large.*
50:
  - .*m4\.4xlarge.*
-1:
  - ^last$
-2:
  - ^never$
"""

PREFERENCES = [
    ("the highest priority wins", ["my-t2.large", "my-m4.4xlarge"], {"my-m4.4xlarge"}),
    ("equal priorities tie", ["a-t2.large", "b-t3.large"], {"a-t2.large", "b-t3.large"}),
    ("a group without a match is dropped", ["a-t2.large", "other"], {"a-t2.large"}),
    ("a match may be anywhere in the id", ["asg/m4.4xlarge/eu", "t2.large"], {"asg/m4.4xlarge/eu"}),
    ("the dot was meant as a dot", ["t2-large", "t3.large"], {"t3.large"}),
    ("nothing matched filters nothing", ["x", "y"], {"x", "y"}),
    (
        "the best of several matches counts",
        ["t2.large-m4.4xlarge", "t3.large"],
        {"t2.large-m4.4xlarge"},
    ),
    ("-1 can win", ["last", "other"], {"last"}),
    ("below -1 never wins", ["never", "t2.large"], {"t2.large"}),
    ("below -1 does not even win over no match", ["never", "other"], {"never", "other"}),
]


@pytest.mark.parametrize(
    ("groups", "expected"), [row[1:] for row in PREFERENCES], ids=[row[0] for row in PREFERENCES]
)
def test_priority(groups: list[str], expected: set[str]) -> None:
    options = [option(group) for group in groups]
    assert possible("priority", *options, priorities=parse_priorities(CONFIG_MAP)) == expected


def test_a_dropped_group_is_named() -> None:
    found = chain("priority", priorities={"1": ["a"]})
    found.choose([option("a"), option("other"), option("apart")])
    assert [(notice.reason, notice.group) for notice in found.notices] == [
        ("PriorityConfigMapNotMatchedGroup", "other")
    ]


def test_when_no_group_matches_that_is_said() -> None:
    found = chain("priority", priorities={"1": ["a"]})
    found.choose([option("x")])
    assert reasons(found)[-1] == "PriorityConfigMapNoGroupMatched"


@pytest.mark.parametrize("none", [None, {}])
def test_without_priorities_nothing_is_filtered_and_that_is_said(
    none: dict[str, list[str]],
) -> None:
    found = chain("priority,most-pods", priorities=none)
    choice = found.choose([option("a", pods=2), option("b")])
    assert (choice and choice.group, reasons(found)) == ("a", ["PriorityConfigMapInvalid"])
