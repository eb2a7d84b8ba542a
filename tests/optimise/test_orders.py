"""The bound of tied items against every order in which they and their bins could come."""

import numpy as np
import pytest

from tests.optimise import orders
from tests.seeds import seeds
from tonnage.optimise import placement_program
from tonnage.optimise.effort import UNITS_PER_SECOND, Effort


@pytest.mark.parametrize("seed", range(seeds(40)))
def test_no_order_is_better_than_the_bound(seed):
    problem, ties = orders.tied_problem(seed)
    (left, price), out = orders.least(problem, ties)
    effort = Effort(UNITS_PER_SECOND)
    found = placement_program.solve(problem, ties, effort)
    assert (sum(found.left), found.bound) <= (left, price + 1e-6)
    assert placement_program.bound(problem, ties, np.array(out), effort) <= price + 1e-6
