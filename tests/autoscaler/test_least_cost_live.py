"""The expander least-cost at work does not hold up what else `tonnage run` does."""

import threading
from typing import Any

from tests.autoscaler.harness import Cloud, a_program, put_pod, started
from tests.autoscaler.test_status import fetched
from tests.cluster.apiserver import ApiServer
from tests.cluster.programs import running
from tonnage.clock import SystemClock
from tonnage.optimise import solver
from tonnage.service import workers


async def test_health_is_answered_while_the_solver_works(monkeypatch: Any) -> None:
    working, may_end = threading.Event(), threading.Event()
    solve = solver.solve

    def slow(*given: Any, **named: Any) -> Any:
        working.set()
        assert may_end.wait(60)
        return solve(*given, **named)

    monkeypatch.setattr(solver, "solve", slow)
    clock: Any = SystemClock()
    async with ApiServer() as server:
        started(server)
        put_pod(server, "web")
        program = a_program(
            server, Cloud(server), clock, worker=workers.in_thread, expander="least-cost"
        )
        async with running(program, server, clock):
            try:
                while not working.is_set():
                    await clock.sleep(0.02)
                assert await fetched(program.server.port, "/healthz") == (200, "ok")
                assert program.autoscaler.report is None or program.autoscaler.report.plan is None
            finally:
                may_end.set()
            while program.autoscaler.report is None or program.autoscaler.report.plan is None:
                await clock.sleep(0.02)
            assert [one.delta for one in program.autoscaler.report.plan.scale_ups] == [1]
