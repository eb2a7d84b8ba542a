"""Settings for all tests."""

from collections import Counter

import pytest
from hypothesis import settings

# Speed is the benchmarks' business, and a run that fails must fail again: examples are the same
# every time, and none fails for being slow on a busy machine.
settings.register_profile("tonnage", deadline=None, derandomize=True)
settings.load_profile("tonnage")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with the type checker, and keep tests of one `xdist_group` in one process.

    The checker is the longest test of all; at the end the other processes would wait for it.
    pytest-xdist 3.8 writes the group where pytest 9.1 and older kept a test's name; here it is
    written where pytest keeps it now.
    """
    items.sort(key=lambda item: item.path.name != "test_quality.py")
    if not getattr(config.option, "loadgroup", False):
        return
    for item in items:
        group = item.get_closest_marker("xdist_group")
        if group is not None and not item.nodeid.endswith(f"@{group.args[0]}"):
            item._id = type(item._id).parse(f"{item.nodeid}@{group.args[0]}")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say why tests were skipped, a line for each reason; by itself `-q` only counts them."""
    reasons = Counter(report.longrepr[2] for report in terminalreporter.stats.get("skipped", ()))
    for reason, number in sorted(reasons.items()):
        terminalreporter.write_line(f"{number} skipped: {reason.removeprefix('Skipped: ')}")
