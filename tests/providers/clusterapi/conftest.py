"""Coroutine tests and virtual time, as in the tests of the cluster client."""

from tests.cluster.conftest import clock, pytest_pyfunc_call

__all__ = ["clock", "pytest_pyfunc_call"]
