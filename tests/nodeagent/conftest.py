"""The clock and coroutine tests of the cluster package, and a kubelet's directory."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.conftest import pytest_pyfunc_call
from tonnage.testing.clock import VirtualClock

__all__ = ["pytest_pyfunc_call"]


@pytest.fixture
def kubelet_dir() -> Iterator[Path]:
    """A directory with a short name: the path of a unix socket has about a hundred characters."""
    with tempfile.TemporaryDirectory(prefix="k-") as name:
        (Path(name) / "plugins_registry").mkdir()
        yield Path(name)


@pytest.fixture
def clock() -> VirtualClock:
    """Time that waits for answers of other processes before it goes on."""
    return VirtualClock(grace=0.1, horizon=86_400.0)
