"""Whether a plan keeps what it promises: every placement replayed, every sum done again.

    assert violations(objects, plan, options=options, features=features, now=now) == []

Shares the templates of node groups with the decision, and nothing else: placements are judged by
the plain reference of the filters, one pod at a time, in the order the plan lists them.
`plan_judge` has the questions, `context` the cluster they are asked on, `accounts` the sums;
`stores` and `shared_slots` count what kube-scheduler does not.
"""

from tests.scaleup.replay.context import PlanViolation
from tests.scaleup.replay.plan_judge import missed, violations

__all__ = ["PlanViolation", "missed", "violations"]
