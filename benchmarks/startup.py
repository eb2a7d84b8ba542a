"""How long `tonnage --help` spends on imports, once Python has compiled the modules."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator

from benchmarks.context import Context
from benchmarks.measurement import Row

NAME = "startup"
_HELP = "from tonnage.cli.app import program; program(['--help'], standalone_mode=False)"


def run(context: Context) -> Iterator[Row]:
    times = context.times(20)
    with tempfile.TemporaryDirectory() as compiled:
        for case, code, aim in (
            ("tonnage --help", _HELP, 0.15),
            ("nothing, for comparison", "pass", None),
        ):
            _import_time(code, compiled)
            # Not CPU time but time on the clock, so the best is what others disturbed the least.
            best = min(_import_time(code, compiled) for _ in range(times))
            work = f"imports, best of {times}"
            yield Row(benchmark=NAME, case=case, work=work, value=best, aim=aim)


def _import_time(code: str, compiled: str) -> float:
    """Seconds for all imports by `-X importtime`, the interpreter's own among them."""
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": compiled}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    run = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", code],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    own = [line.split(":")[1].split("|")[0] for line in run.stderr.splitlines() if "|" in line]
    return sum(int(microseconds) for microseconds in own[1:]) / 1e6
