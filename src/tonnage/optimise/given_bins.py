"""The master where some whole bins are given: what has to be bought beside them.

If nothing has to be, the items fit into these bins, at least with patterns that are used in part.
If something has, what items are worth then says why the bins do not suffice, and so rules out other
numbers of bins too.
"""

import numpy as np

from tonnage.optimise import highs
from tonnage.optimise.effort import Effort
from tonnage.optimise.master import Duals, Master
from tonnage.optimise.problem import Counts, Numbers, PackingProblem, Pattern


class GivenBins(Master):
    """Has a row for each bin type, which says that no more bins are given than are used."""

    def __init__(self, problem: PackingProblem, *, effort: Effort) -> None:
        super().__init__(problem, effort=effort)
        count = len(problem.bins)
        highs.add_rows(self._highs, [0.0] * count, [highs.INFINITY] * count)
        for bin_type, price in enumerate(problem.prices.tolist()):
            # A bin that is given takes its price off.
            highs.add_column(self._highs, -price, {self.rows + bin_type: -1.0}, upper=0.0)
        self._given = self.first
        self.first += count

    def entries(self, pattern: Pattern) -> dict[int, float]:
        return {**super().entries(pattern), self.rows + pattern.bin_type: 1.0}

    def give(self, bins: Counts) -> None:
        """So many bins of each type."""
        for bin_type, number in enumerate(bins.tolist()):
            self._highs.changeColBounds(self._given + bin_type, 0.0, float(number))

    def duals(self, rows: Numbers) -> Duals:
        """A bin is the cheaper, the more of its type are given that would not be bought."""
        found = super().duals(rows)
        given = rows[self.rows : self.rows + len(self._problem.bins)]
        return found._replace(rents=found.rents - np.maximum(given, 0.0))
