"""Coroutine tests run in virtual time if they ask for `clock`, in real time otherwise."""

import asyncio
import inspect

import pytest

from tonnage.testing.clock import VirtualClock, run


@pytest.fixture
def clock() -> VirtualClock:
    """Time that waits a little for bytes between sockets, and never longer than a day."""
    return VirtualClock(grace=0.005, alone=True, horizon=86_400.0)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    arguments = {name: pyfuncitem.funcargs[name] for name in names}
    clock = arguments.get("clock")
    if isinstance(clock, VirtualClock):
        run(lambda: pyfuncitem.obj(**arguments), clock=clock)
    else:
        asyncio.run(pyfuncitem.obj(**arguments))
    return True
