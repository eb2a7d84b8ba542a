"""One control plane for the session, one workspace for each test, and a bound on its time."""

import asyncio
import inspect
import itertools
import signal
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from types import FrameType

import pytest

from tests.e2e import deployed, scale_up
from tests.e2e.controlplane import ControlPlane
from tests.e2e.processes import Watchdog
from tests.e2e.scale_up import Stage
from tests.e2e.workspace import Workspace, workspace

PATIENCE = 400.0
"""Seconds a test may take, unless it is marked with `patience(seconds)`."""

FIGURE = "figure"

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Shared by all tests, and mended before each if the last one broke it."""
    with ControlPlane(tmp_path_factory.mktemp("control-plane")) as started:
        yield started


@pytest.fixture
def work(cluster: ControlPlane) -> Iterator[Workspace]:
    cluster.mend()
    with workspace(cluster, f"e2e-{next(_numbers)}") as made:
        yield made


@pytest.fixture(scope="session")
def watchdog() -> Iterator[Watchdog]:
    made = Watchdog()
    yield made
    made.close()


@pytest.fixture(scope="session")
def rights(cluster: ControlPlane) -> None:
    """The autoscaler may do what the shipped manifests say, and nothing else."""
    deployed.apply(cluster)


@pytest.fixture
def stage(
    work: Workspace,
    rights: None,  # noqa: ARG001 - they have to be there
    watchdog: Watchdog,
    tmp_path: Path,
) -> Iterator[Stage]:
    with scale_up.stage(work, tmp_path, watchdog=watchdog) as made:
        yield made


@pytest.fixture
def figure(record_property: Callable[[str, object], None]) -> Callable[[str], None]:
    """Something measured, to be read at the end of the run."""
    return lambda text: record_property(FIGURE, text)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    told = [
        str(value)
        for report in terminalreporter.getreports("passed")
        for name, value in getattr(report, "user_properties", ())
        if name == FIGURE and report.when == "call"
    ]
    if told:
        terminalreporter.section("measured")
        for line in told:
            terminalreporter.line(line)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "patience(seconds): how long the test may take")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run coroutine tests."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """A test that hangs fails, so that the session ends and takes the control plane with it."""
    marker = item.get_closest_marker("patience")
    seconds = float(marker.args[0]) if marker else PATIENCE

    def over(_number: int, _frame: FrameType | None) -> None:
        raise TimeoutError(f"not finished after {seconds:.0f} s")

    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """What the components had to say, with every failure."""
    report = yield
    cluster = getattr(item, "funcargs", {}).get("cluster")
    if report.failed and isinstance(cluster, ControlPlane):
        report.sections += [(f"log of {name}", text) for name, text in cluster.logs()]
    stage = getattr(item, "funcargs", {}).get("stage")
    if report.failed and isinstance(stage, Stage):
        report.sections += [(f"log of {name}", text) for name, text in stage.logs()]
    return report
