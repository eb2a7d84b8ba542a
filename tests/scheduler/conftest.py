"""Coroutine tests in virtual time, with nothing on sockets."""

import pytest

from tests.cluster.conftest import pytest_pyfunc_call
from tonnage.testing.clock import VirtualClock

__all__ = ["clock", "pytest_pyfunc_call"]


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(horizon=86_400.0)
