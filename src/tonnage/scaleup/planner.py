"""The decision: given a cluster, its node groups and what waits, what to buy.

An attempt is made by `plan_builder`; here it is decided how many there are, and which is kept.
"""

from tonnage.scaleup import gang_plan, prepaid, wait_or_buy
from tonnage.scaleup.attempts import Attempts
from tonnage.scaleup.plan import Bounds, Plan
from tonnage.scaleup.plan_builder import PlanBuilder
from tonnage.scaleup.request import Request


def plan(request: Request) -> Plan:
    """Decide. The snapshot is left as it was.

    Who goes first decides who is left out and what is left to buy for, so several attempts are
    planned to the end and the best plan is kept, unless one cannot be bettered.
    """
    best = _whole(request)
    best = prepaid.without_buying(request, best, plan_anew=_whole) or best
    return wait_or_buy.instead(request, best, plan_anew=_whole) or best


def _whole(request: Request, *, most_attempts: int | None = None) -> Plan:
    return gang_plan.plan(request, _best, most_attempts=most_attempts)


def _best(request: Request, *, most_attempts: int | None = None) -> Plan:
    best: Plan | None = None
    least: tuple[int, ...] | None = None
    chosen: Bounds | None = None
    tries = Attempts(request, most=most_attempts)
    for attempt in tries:
        with request.snapshot.trial():
            planner = PlanBuilder(request, attempt)
            planner.run()
            better = best is None or least is None or planner.lacks < least
            if best is None or better:
                best, least, chosen = planner.result(), planner.lacks, None
            unlucky = planner.unlucky(chosen)
            if not unlucky.pods:
                break
            chosen = chosen or planner.least(of_chosen=True)
        tries.put_first(unlucky, better=better)
    assert best is not None
    return best
