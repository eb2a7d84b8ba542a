"""How long `tonnage --help` spends on imports."""

import subprocess
import sys
from collections.abc import Iterator

from benchmarks.context import Context
from benchmarks.measuring import Row

NAME = "startup"
_HELP = "from tonnage.cli.app import program; program(['--help'], standalone_mode=False)"


def run(context: Context) -> Iterator[Row]:
    times = context.times(20)
    for case, code, aim in (
        ("tonnage --help", _HELP, 0.15),
        ("nothing, for comparison", "pass", None),
    ):
        # Not CPU time but time on the clock, so the best is what others disturbed the least.
        best = min(_import_time(code) for _ in range(times))
        yield Row(benchmark=NAME, case=case, work=f"imports, best of {times}", value=best, aim=aim)


def _import_time(code: str) -> float:
    """Seconds for all imports by `-X importtime`, the interpreter's own among them."""
    run = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", code],
        capture_output=True,
        text=True,
        check=True,
    )
    own = [line.split(":")[1].split("|")[0] for line in run.stderr.splitlines() if "|" in line]
    return sum(int(microseconds) for microseconds in own[1:]) / 1e6
