"""A price that cannot be used is named with its file, and every command goes on without it."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.cli.conftest import Written
from tests.cli.planning import STORAGE, bought, databases, document, run
from tests.consolidation import clusters
from tests.scaledown.clusters import WEB, web
from tests.scaleup.groups import DRIVER, group
from tonnage.cli.app import program
from tonnage.objects.kinds import KubeObject
from tonnage.optimise import highs

BAD = ["0", "-1", "0.9 EUR", "cheap", "NaN", "1e999", True, ["1"], {"EUR": 1}]
WRONG = "spec.pricePerHour: expected a price of an hour, above 0 and below 1,000,000,000, without"
NOT_USED = "least-cost: node group odd has no price and is not used while another has one"
NONE_HAS_ONE = "least-cost: no node group has a price; nodes are counted instead"


def pending(*groups: KubeObject) -> list[KubeObject]:
    return [*STORAGE, *databases(12), *groups]


def odd(price: object, name: str = "odd") -> KubeObject:
    return group(name, slots={DRIVER: 12}, price=price)  # type: ignore[arg-type]


def good(price: str = "0.5") -> KubeObject:
    return group("good", slots={DRIVER: 5}, price=price)


def lines(stderr: str) -> list[str]:
    """What is said of prices, a warning a line."""
    return [one for one in stderr.splitlines() if "pricePerHour" in one]


@pytest.mark.parametrize("price", BAD)
def test_a_plan_is_made_and_the_price_named_once(written: Written, price: object) -> None:
    file = written(*pending(odd(price), good()))
    result = run("-f", file, "-o", "json")
    assert bought(result) == {"odd": 1}
    (said,) = lines(result.stderr)
    assert said.startswith(f"tonnage: warning: {file}: items[26]: NodeGroup odd: {WRONG}")
    assert said.endswith("; not used")
    assert [one for one in document(result)["warnings"] if "group odd: spec.pricePerHour" in one]


@pytest.mark.parametrize("price", BAD)
def test_by_price_the_other_group_is_bought(written: Written, price: object) -> None:
    result = run("-f", written(*pending(odd(price), good())), "--expander", "price", "-o", "json")
    assert bought(result) == {"good": 3}
    assert document(result)["costPerHour"] == 1.5


@pytest.mark.parametrize("price", BAD)
def test_over_all_groups_it_is_said_what_is_not_used_and_why(
    written: Written, price: object
) -> None:
    file = written(*pending(odd(price), good()))
    result = run("-f", file, "--optimise", "1", "-o", "json")
    assert bought(result) == {"good": 3}
    assert len(lines(result.stderr)) == 1
    assert NOT_USED in document(result)["warnings"]
    shown = run("-f", file, "--optimise", "1")
    assert len(lines(shown.stderr)) == 1
    assert NOT_USED in shown.stderr


@pytest.mark.parametrize("price", [None, *BAD])
def test_without_any_good_price_nodes_are_counted(written: Written, price: object) -> None:
    file = written(*pending(odd(price), odd(price, "odder")))
    result = run("-f", file, "--optimise", "1", "-o", "json")
    assert sum(bought(result).values()) == 1
    assert NONE_HAS_ONE in document(result)["warnings"]
    assert len(lines(result.stderr)) == (0 if price is None else 2)


@pytest.mark.parametrize("price", BAD)
def test_nodes_without_a_price_are_not_consolidated(written: Written, price: object) -> None:
    objects = [
        WEB,
        *clusters.group("dear", "a", "b", price="1"),
        *clusters.group("odd", "c", price=price),  # type: ignore[arg-type]
        *clusters.group("cheap", price="0.5"),
        web("w1", "a", cpu="1500m"),
        web("w2", "b", cpu="1500m"),
        web("w3", "c", cpu="500m"),
    ]
    result = run("-f", written(*objects), "--consolidate", "-o", "json")
    plan = document(result)
    assert {one["node"] for one in plan["nodes"] if one["action"] != "keep"} == {"a", "b"}
    assert "no price of odd: its nodes are neither replaced nor bought" in plan["warnings"]
    assert len(lines(result.stderr)) == 1


@pytest.mark.parametrize("price", BAD)
def test_without_any_good_price_the_fewest_nodes_win(written: Written, price: object) -> None:
    objects = [
        WEB,
        *clusters.group("odd", "a", "b", price=price),  # type: ignore[arg-type]
        web("w1", "a", cpu="1500m"),
        web("w2", "b", cpu="500m"),
    ]
    result = run("-f", written(*objects), "--consolidate", "-o", "json")
    assert document(result)["cost"]["unit"] == "nodes"
    (said,) = [one for one in document(result)["warnings"] if "no group has a price" in one]
    assert said == "no group has a price: a node counts as one, whatever its size"


def test_the_place_in_yaml_is_a_line(tmp_path: Path, written: Written) -> None:
    file = tmp_path / "groups.yaml"
    text = "apiVersion: tonnage.dev/v1alpha1\nkind: NodeGroup\nmetadata: {name: odd}\nspec:\n"
    template = "  template: {node: {status: {allocatable: {cpu: 4, memory: 8Gi, pods: 110}}}}\n"
    file.write_text(f"{text}  maxSize: 3\n  pricePerHour: 0.9 EUR\n{template}")
    result = run("-f", written(*pending(good())), "--node-groups", str(file))
    (said,) = lines(result.stderr)
    assert said.startswith(f"tonnage: warning: {file}: document 1, line 6: NodeGroup odd: {WRONG}")
    assert result.exit_code == 0


def test_without_a_solver_the_extra_is_named_and_the_plan_greedy(
    written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(highs, "installed", lambda: False)
    file = written(*pending(odd("-1"), good()))
    result = run("-f", file, "--optimise", "1", "-o", "json")
    assert bought(result) == {"good": 3}
    assert [one for one in document(result)["warnings"] if "extra optimise" in one]
    assert "optimisation" not in document(result)


def test_advice_goes_by_the_prices_that_can_be_used(tmp_path: Path, written: Written) -> None:
    prices = tmp_path / "prices.yaml"
    prices.write_text(
        "m5.large: 0.1\nm5.xlarge: 0.2 EUR\nm5.2xlarge: -1\nm5.4xlarge: 0\nm5.8xlarge:\n"
    )
    file = written(*STORAGE, *databases(3))
    arguments = ["advise", "-f", file, "--prices", str(prices), "--seconds", "1", "-o", "json"]
    result = CliRunner().invoke(program, arguments)
    assert result.exit_code == 0, result.output
    assert [one["instanceType"] for one in json.loads(result.stdout)["types"]] == ["m5.large"]
    said = [one for one in result.stderr.splitlines() if "prices.yaml" in one]
    assert [one.partition(": expected")[0] for one in said] == [
        f"tonnage: warning: {prices}:2: m5.xlarge",
        f"tonnage: warning: {prices}:3: m5.2xlarge",
        f"tonnage: warning: {prices}:4: m5.4xlarge",
        f"tonnage: warning: {prices}:5: m5.8xlarge",
    ]


def test_advice_says_what_is_wrong_with_the_price_of_a_group_once(written: Written) -> None:
    file = written(*pending(odd("0.9 EUR")))
    result = CliRunner().invoke(program, ["advise", "-f", file, "--seconds", "1"])
    assert result.exit_code == 0, result.output
    assert len(lines(result.stderr)) == 1
