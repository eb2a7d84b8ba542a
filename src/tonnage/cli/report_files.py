"""HTML reports: where they go, what made them, and the right-sizing in the report of a run."""

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tonnage.cli import console
from tonnage.errors import InputError, system_errors

if TYPE_CHECKING:
    from tonnage.consolidation.right_size import SizeAdvice
    from tonnage.report.page import Origin
    from tonnage.simulation.ensemble import Ensemble


def check_folder(path: Path | None, option: str = "--html") -> None:
    """Refuse a file without a folder before the work, which may take hours."""
    if path is not None and not path.absolute().parent.is_dir():
        raise InputError(f"{option} {path}: no such folder; expected one that exists")


def write(path: Path, text: str, *, what: str = "") -> None:
    """Write a page, and say where `what` is, on standard error."""
    with system_errors(f"--html {path}"):
        path.write_text(text, encoding="utf-8")
    if what:
        console.echo(f"{what} is in {path}.", err=True)


def origin() -> "Origin":
    """This program, this command line and this moment, for who finds a report later."""
    import importlib.metadata
    from datetime import UTC, datetime

    from tonnage.report.page import Origin

    words = ["tonnage", *sys.argv[1:]]
    return Origin(
        version=importlib.metadata.version("tonnage"),
        command=shlex.join(words),
        date=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
    )


_SECONDS = 1.0
"""For the best mix; a tenth of it for each type. It is counted in work, not by a clock."""


class ReportAdvice:
    """What the last nodes and pods of runs would cost on other types, if anybody wants to read of
    it: takes the clusters that runs end with."""

    def __init__(self, *, wanted: bool) -> None:
        self._wanted = wanted
        self.found: list[tuple[str, SizeAdvice]] = []

    def take(self, ensemble: "Ensemble") -> None:
        """As `ended` of a run. Says nothing where no node is left, or none has a type and a price
        and nothing is stranded."""
        if not self._wanted:
            return
        from tonnage.api import Cluster
        from tonnage.cli import advise

        spec = ensemble.simulation.spec
        cluster = Cluster(
            ensemble.objects,
            kubernetes_version=spec.kubernetes_version,
            feature_gates=spec.feature_gates,
        )
        now = ensemble.clock.now().timestamp()
        prices = advise.group_prices(cluster.inputs(now=now))
        if prices:
            prices = advise.with_list_prices(prices)
        found = cluster.right_size(prices, now=now, seconds=_SECONDS)
        if not found.nodes_now:
            return
        if found.types or any(one.cpu_milli or one.memory for one in found.stranded):
            self.found.append((ensemble.label, found))
