"""What holds for any options: order does not matter, and what cannot win need not be packed."""

import random
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.scaleup.choices import GIB, Refusing, chain, chosen, option
from tonnage.scaleup.expanders import Option, Prospect

CHAINS = [
    "least-waste",
    "most-pods",
    "least-nodes",
    "random",
    "price",
    "priority",
    "least-waste,most-pods",
    "priority,least-nodes,price",
    "most-pods,random",
]

amounts = st.integers(0, 12)
options_of_groups = st.lists(
    st.builds(
        option,
        st.sampled_from("abcdefgh"),
        nodes=st.integers(1, 4),
        pods=st.integers(1, 4),
        cpu=amounts.map(lambda n: n * 500),
        memory=amounts,
        node_cpu=st.sampled_from([0, 2000, 4000, 16000]),
        node_memory=st.sampled_from([0, 8, 16]),
        price=st.sampled_from([None, 0.0, 0.1, 0.4]),
        gpu=st.booleans(),
    ),
    max_size=6,
    unique_by=lambda one: one.group,
)
PRIORITIES = {"1": ["[a-d]"], "2": ["[cd]"], "-2": ["e"]}


@given(options_of_groups, st.sampled_from(CHAINS), st.integers(0, 5), st.randoms())
def test_the_choice_does_not_depend_on_the_order_of_options(
    options: list[Option], names: str, seed: int, shuffler: random.Random
) -> None:
    shuffled = list(options)
    shuffler.shuffle(shuffled)
    assert chosen(names, *shuffled, seed=seed, priorities=PRIORITIES) == chosen(
        names, *options, seed=seed, priorities=PRIORITIES
    )


@given(options_of_groups.filter(bool), st.sampled_from(CHAINS), st.integers(0, 5))
def test_what_is_chosen_ranks_no_worse_than_any_other(
    options: list[Option], names: str, seed: int
) -> None:
    found = chain(names, seed=seed, priorities=PRIORITIES)
    choice = found.choose(options)
    assert choice is not None
    assert found.score(choice) == min(found.score(one) for one in options)


def test_every_order_gives_every_tied_option_the_same_chance() -> None:
    tied = [option(group) for group in "abc"]
    picks = [
        [chosen("least-waste", *order, seed=seed) for seed in range(8)]
        for order in permutations(tied)
    ]
    assert all(pick == picks[0] for pick in picks)


def prospect_of(one: Option, *, more_pods: int, fewer_nodes: int, exact: bool) -> Prospect:
    """A prospect that the option could have come of."""
    return Prospect(
        group=one.group,
        pod_count_max=one.pod_count + (0 if exact else more_pods),
        cpu_milli=one.cpu_milli + (0 if exact else more_pods * 700),
        memory=one.memory + (0 if exact else more_pods * GIB),
        # Not exact, it is the least number of nodes for more pods than the option has.
        nodes_min=one.node_count - fewer_nodes if exact else one.node_count + more_pods,
        node_cpu_milli=one.node_cpu_milli,
        node_memory=one.node_memory,
        price=one.price_per_hour,
        gpu=one.gpu,
        exact=exact,
    )


large_options = st.builds(
    option,
    st.sampled_from("abcdefgh"),
    nodes=st.integers(1, 10**5),
    pods=st.integers(1, 10**6),
    cpu=st.integers(0, 10**9),
    memory=st.integers(0, 10**9),
    node_cpu=st.integers(0, 10**6),
    node_memory=st.integers(0, 10**6),
    price=st.none() | st.floats(0, 1000),
    gpu=st.booleans(),
)


@given(
    large_options,
    st.sampled_from(CHAINS),
    st.integers(0, 50),
    st.integers(0, 10**5),
    st.booleans(),
)
def test_no_option_ranks_below_the_best_case_of_its_prospect(
    one: Option, names: str, more_pods: int, fewer_nodes: int, exact: bool
) -> None:
    found = chain(names, priorities=PRIORITIES)
    prospect = prospect_of(one, more_pods=more_pods, fewer_nodes=fewer_nodes, exact=exact)
    assert found.best_case(prospect) <= found.score(one)


@given(
    options_of_groups.filter(bool),
    st.sampled_from(CHAINS),
    st.integers(0, 5),
    st.integers(0, 2),
    st.booleans(),
)
def test_leaving_out_what_cannot_win_does_not_change_the_choice(
    options: list[Option], names: str, seed: int, more_pods: int, exact: bool
) -> None:
    found = chain(names, seed=seed, priorities=PRIORITIES)
    first, *others = options
    packed = [first] + [
        one
        for one in others
        if not found.best_case(prospect_of(one, more_pods=more_pods, fewer_nodes=0, exact=exact))
        > found.score(first)
    ]
    assert chosen(names, *packed, seed=seed, priorities=PRIORITIES) == chosen(
        names, *options, seed=seed, priorities=PRIORITIES
    )


PRUNED = [
    (
        "least-waste",
        {"nodes": 1, "cpu": 4000, "memory": 16},
        {"nodes": 3, "cpu": 4000, "memory": 16},
    ),
    ("least-nodes", {"nodes": 2}, {"nodes": 3}),
    ("most-pods", {"pods": 3}, {"pods": 2}),
    ("price", {"price": 0.1}, {"price": 0.9}),
    ("least-nodes,most-pods", {"pods": 3}, {"pods": 2}),
]


@pytest.mark.parametrize(("names", "good", "bad"), PRUNED, ids=[row[0] for row in PRUNED])
def test_what_clearly_cannot_win_is_seen_before_it_is_packed(
    names: str, good: dict[str, int], bad: dict[str, int]
) -> None:
    found = chain(names)
    bad_prospect = prospect_of(
        option("bad", **bad),  # type: ignore[arg-type]
        more_pods=0,
        fewer_nodes=0,
        exact=True,
    )
    assert found.best_case(bad_prospect) > found.score(option("good", **good))  # type: ignore[arg-type]


def test_nothing_after_grpc_is_compared_since_it_may_keep_anything() -> None:
    found = chain("most-pods,grpc,least-nodes", outside={"grpc": Refusing()})
    assert found.score(option("a", pods=2)) == (-2.0,)
