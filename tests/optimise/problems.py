"""Random small problems with everything that links bins: maxima, quotas, spreads."""

import random

from tonnage.optimise.problem import BinQuota, BinType, EvenSpread, ItemClass, PackingProblem

ANY = 10**6


def problem_of(seed: int) -> PackingProblem:
    """Kinds with volumes of two drivers, types with maxima, a quota, a spread over two zones."""
    rng = random.Random(seed)
    items = [
        ItemClass(
            f"c{n}",
            rng.randint(1, 4),
            (rng.randint(1, 5), rng.choice((0, 1, 2)), rng.choice((0, 0, 1))),
        )
        for n in range(rng.randint(1, 3))
    ]
    bins = [
        BinType(
            f"t{n}",
            (rng.randint(5, 12), rng.randint(2, 5), rng.randint(1, 3)),
            round(rng.uniform(0.1, 1.0), 3),
            tuple(rng.choice((1, 2, ANY, ANY, ANY)) for _ in items),
            rng.choice((1, 2, None, None)),
        )
        for n in range(rng.randint(2, 3))
    ]
    quotas, spreads = [], []
    if rng.random() < 0.4:
        quotas.append(BinQuota(tuple(float(rng.randint(1, 3)) for _ in bins), rng.randint(4, 9)))
    if rng.random() < 0.4:
        zones = tuple(n % 2 for n in range(len(bins)))
        heights = rng.choice(((0, 0), (0, 1), (1, 0), (2, 1)))
        spreads.append(EvenSpread(0, zones, heights, max_skew=rng.randint(1, 2)))
    return PackingProblem(items, bins, quotas=quotas, spreads=spreads)
