"""Settings for all tests."""

from collections import Counter

import pytest
from hypothesis import settings

# Speed is the benchmarks' business, and a run that fails must fail again: examples are the same
# every time, and none fails for being slow on a busy machine.
settings.register_profile("tonnage", deadline=None, derandomize=True)
settings.load_profile("tonnage")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say why tests were skipped, a line for each reason; by itself `-q` only counts them."""
    reasons = Counter(report.longrepr[2] for report in terminalreporter.stats.get("skipped", ()))
    for reason, number in sorted(reasons.items()):
        terminalreporter.write_line(f"{number} skipped: {reason.removeprefix('Skipped: ')}")
