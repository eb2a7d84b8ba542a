"""How long `tonnage --help` spends on imports."""

import subprocess
import sys
from collections.abc import Iterator

from benchmarks.context import Context
from benchmarks.measuring import Row, spread

NAME = "startup"
_HELP = "from tonnage.cli.app import program; program(['--help'], standalone_mode=False)"


def run(context: Context) -> Iterator[Row]:
    taken = spread([_import_time(_HELP) for _ in range(context.times(30))])
    bare = spread([_import_time("import argparse, json") for _ in range(context.times(30))])
    yield Row(
        benchmark=NAME,
        case="tonnage --help",
        work="imports alone",
        value=taken.median,
        p99=taken.p99,
        aim=0.15,
    )
    yield Row(
        benchmark=NAME,
        case="for comparison",
        work="import argparse, json",
        value=bare.median,
        p99=bare.p99,
    )


def _import_time(code: str) -> float:
    """What `-X importtime` says of everything the interpreter was not going to import anyway."""
    return _imported(code) - _imported("pass")


def _imported(code: str) -> float:
    run = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", code],
        capture_output=True,
        text=True,
        check=True,
    )
    own = [line.split(":")[1].split("|")[0] for line in run.stderr.splitlines() if "|" in line]
    return sum(int(microseconds) for microseconds in own[1:]) / 1e6
