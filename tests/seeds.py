"""How many random clusters are played: few in `make test`, as many times more as are asked for."""

import os

TIMES = int(os.environ.get("TONNAGE_SEEDS", "1"))


def seeds(number: int) -> int:
    """The number that `make test` plays, times `TONNAGE_SEEDS`."""
    return number * TIMES
