"""cluster-autoscaler's flags, and how they are read off a command line."""

import pytest

from tonnage.errors import InputError
from tonnage.migration import cluster_autoscaler, flags
from tonnage.migration.cluster_autoscaler import Command


def migrated(*arguments: str):
    return cluster_autoscaler.migrate(Command("Deployment a/b", arguments))


@pytest.mark.parametrize("flag", flags.FLAGS.values(), ids=lambda flag: flag.name)
def test_every_flag_has_a_target_or_a_reason(flag: flags.Flag) -> None:
    assert flag.target or flag.reason


@pytest.mark.parametrize(
    "words",
    ["--expander=price", "--expander price", "-expander=price", "--expander price --v 2"],
)
def test_a_value_may_follow_with_or_without_a_sign(words: str) -> None:
    assert migrated(*words.split()).config["expander"] == "price"


def test_underscores_do_for_dashes() -> None:
    assert migrated("--max_nodes_total=5").config["maxNodesTotal"] == 5


def test_a_switch_does_not_take_the_next_flag_for_its_value() -> None:
    config = migrated("--balance-similar-node-groups", "--max-nodes-total=5").config
    assert (config["balanceSimilarNodeGroups"], config["maxNodesTotal"]) == (True, 5)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("--max-nodes-total=many", "a whole number"),
        ("--scan-interval=soon", "a duration such as 10s or 1m30s"),
        ("--cores-total=8", "MIN:MAX"),
        ("--nodes=5:1:g", "MIN:MAX:NAME"),
        ("--balance-similar-node-groups=perhaps", "true or false"),
        ("--max-total-unready-percentage=x", "a number"),
        ("--feature-gates=VolumeLimitScaling", "NAME=true,..."),
    ],
)
def test_a_wrong_value_names_object_flag_and_what_is_expected(given: str, expected: str) -> None:
    with pytest.raises(InputError) as raised:
        migrated(given)
    assert str(raised.value) == f"Deployment a/b: {given}: expected {expected}"


def test_a_word_that_is_no_flag_is_named() -> None:
    with pytest.raises(InputError, match="Deployment a/b: argument 'now'"):
        migrated("--v=2", "now")


def test_an_expander_that_is_unknown_here_is_not_followed() -> None:
    row, *_ = migrated("--expander=cheapest").followed
    assert (row.outcome, "cheapest" in row.note) == ("not supported", True)


def test_what_a_flag_with_a_field_means_follows_the_fields_there_are() -> None:
    flag = flags.FLAGS["scale-down-unneeded-time"]
    assert flag.outcome_with(set()) == "not supported"
    assert flag.outcome_with({"scaleDownUnneededTime"}) == "setting"
