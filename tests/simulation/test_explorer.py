"""Seeds of random trouble break no rule, and say everything that is to be said."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.seeds import seeds
from tonnage.simulation import explorer, random_scenarios

SEEDS, TOGETHER = seeds(8), 4
TOOL = Path(__file__).parents[2] / "tools" / "explore"


def explore(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, TOOL, *arguments], capture_output=True, text=True)


@pytest.mark.parametrize("first", range(0, SEEDS, TOGETHER))
def test_random_trouble_breaks_no_rule(first: int) -> None:
    outcomes = explorer.explore(range(first, first + TOGETHER))
    assert {one.seed: one.violations for one in outcomes if one.violations} == {}


def test_a_seed_played_again_comes_to_the_same() -> None:
    assert explorer.explored(4) == explorer.explored(4)


def test_a_seed_says_everything() -> None:
    assert random_scenarios.by_chance(3) == random_scenarios.by_chance(3)


def test_seeds_differ() -> None:
    assert random_scenarios.by_chance(3) != random_scenarios.by_chance(4)


def test_the_tool_sums_up_what_it_played() -> None:
    run = explore("4..4", "1")
    assert (run.returncode, run.stdout.splitlines()[1]) == (0, "seeds with violations: 0")


@pytest.mark.parametrize("seeds", ["many", "9..3"])
def test_the_tool_refuses_seeds_that_make_no_sense(seeds: str) -> None:
    assert explore(seeds).returncode == 2
