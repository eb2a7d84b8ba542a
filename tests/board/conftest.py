"""The same clock and coroutine tests as for the cluster package."""

from tests.cluster.conftest import clock, pytest_pyfunc_call

__all__ = ["clock", "pytest_pyfunc_call"]
