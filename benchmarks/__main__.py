"""`python -m benchmarks [NAME...] [--quick] [--json]`: runs benchmarks and prints a table."""

import argparse
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator

import msgspec

from benchmarks import (
    board,
    consolidation,
    extender,
    files,
    filter_calls,
    live,
    optimise,
    plans,
    scale_down,
    scheduler,
    simulation,
    snapshot_build,
    snapshot_changes,
    soak,
    soak_real,
    soak_virtual,
    startup,
    sweep,
    trials,
)
from benchmarks.clusters import SEED
from benchmarks.context import Context
from benchmarks.measurement import Row, table

BENCHMARKS: dict[str, Callable[[Context], Iterator[Row]]] = {
    module.NAME: module.run
    for module in (
        startup,
        files,
        snapshot_build,
        filter_calls,
        snapshot_changes,
        trials,
        plans,
        sweep,
        scale_down,
        consolidation,
        optimise,
        live,
        extender,
        scheduler,
        simulation,
        board,
    )
}


ON_REQUEST: dict[str, Callable[[Context], Iterator[Row]]] = {
    "consolidation-full": consolidation.run_full,
    soak.NAME: soak.run,
    soak_virtual.NAME: soak_virtual.run,
    soak_real.NAME: soak_real.run,
    "optimise-full": optimise.run_full,
}
"""Those that take too long to be run with all others."""


def main() -> None:
    options = _options()
    context = Context(quick=options.quick, minutes=options.minutes, nodes=options.nodes)
    started = time.perf_counter()
    rows: list[Row] = []
    for name in options.names or BENCHMARKS:
        print(f"{name} ...", file=sys.stderr, flush=True)
        rows.extend({**BENCHMARKS, **ON_REQUEST}[name](context))
    if options.json:
        for row in rows:
            print(msgspec.json.encode(row).decode())
        return
    print(table(rows))
    print(
        f"\nSeed {SEED}, {context.size.nodes:,} nodes, {context.size.pods:,} pods; "
        f"{os.cpu_count()} cores, Python {platform.python_version()}; "
        f"{time.perf_counter() - started:.0f} s in all."
        "\nPlain Python: the same filters node by node over lists of objects, counting afresh for"
        " every question.\n~ was measured on a part of the work and scaled up."
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(BENCHMARKS)}; all")
    parser.add_argument("--quick", action="store_true", help="a small cluster: does it run at all")
    parser.add_argument("--minutes", type=float, help="how long a soak lasts")
    parser.add_argument("--nodes", type=int, help="how large the cluster of a soak is")
    parser.add_argument("--json", action="store_true", help="a line of JSON per figure")
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in {**BENCHMARKS, **ON_REQUEST}]
    if unknown:
        parser.error(f"no benchmark {unknown[0]!r}; there are {', '.join(BENCHMARKS)}")
    return options


if __name__ == "__main__":
    main()
