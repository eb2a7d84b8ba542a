"""Samples as CSV: one row each, every run below the other, for spreadsheets and plotting."""

import csv
import io
from collections.abc import Sequence

from tonnage.report.figures import run_name
from tonnage.report.timeline import NODE_STATES, Timeline, drivers, storage_drivers


def text(runs: Sequence[Timeline]) -> str:
    """All samples of all runs; columns are the same for all of them."""
    names, local = drivers(runs), storage_drivers(runs)
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(
        [
            "run", "seconds", "podsPending", "podsStarting", "podsStuck", "podsRunning",
            *(f"nodes{state[0].upper()}{state[1:]}" for state in NODE_STATES),
            "cost", "costPerHour",
            *(f"{driver} {what}" for driver in names for what in ("used", "free", "limit")),
            *(f"{driver} {what}" for driver in local for what in ("usedBytes", "totalBytes")),
        ]
    )  # fmt: skip
    for run in runs:
        for sample in run.samples:
            uses = {use.driver: (use.used, use.free, use.limit) for use in sample.slots}
            stored = {use.driver: (use.used_bytes, use.total_bytes) for use in sample.local_storage}
            pods = sample.pods
            writer.writerow(
                [
                    run_name(run), f"{sample.at:.10g}",
                    pods.pending, pods.starting, pods.stuck, pods.running,
                    *(sample.nodes.get(state, 0) for state in NODE_STATES),
                    f"{sample.cost:.4f}", f"{sample.cost_per_hour:.4f}",
                    *(n for driver in names for n in uses.get(driver, ("", "", ""))),
                    *(n for driver in local for n in stored.get(driver, ("", ""))),
                ]
            )  # fmt: skip
    return stream.getvalue()
