"""Something fails in the middle of a plan: the snapshot it is made on is as it was, to the bit."""

import inspect
import random
import sys
from collections.abc import Callable, Iterable, Mapping
from types import FrameType

import msgspec
import pytest

from tests.scaleup.asking import CLASS, EBS, NOW, created, group, stateful
from tests.snapshot.dumping import differences, exact
from tonnage.groups import options as settings
from tonnage.groups.inputs import Inputs
from tonnage.groups.options import Options
from tonnage.objects.kinds import KubeObject
from tonnage.objects.pods import PodAffinityTerm, TopologySpreadConstraint
from tonnage.rules import features
from tonnage.rules.features import Features
from tonnage.scaleup import assessment, decision
from tonnage.scaleup.assessment import Assessment
from tonnage.scaleup.plan import Plan
from tonnage.snapshot.snapshot import Snapshot
from tonnage.testing import builders as make


class MadeUpError(Exception):
    """Nothing that the planner knows."""


class FailingCall:
    """Lets the n-th call of a function of the planner or of a rule fail."""

    def __init__(self, at: int) -> None:
        self.calls = 0
        self._at = at

    def __enter__(self) -> "FailingCall":
        self._before = sys.gettrace()
        sys.settrace(self._called)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._before)

    def _called(self, frame: FrameType, event: str, arg: object) -> None:  # noqa: ARG002
        # A generator is also called when it is thrown away, and what it raises then is lost.
        generates = frame.f_code.co_flags & inspect.CO_GENERATOR
        if not generates and frame.f_globals.get("__name__", "").startswith(_DECIDING):
            self.calls += 1
            if self.calls == self._at:
                raise MadeUpError("this function does not work")


_DECIDING = ("tonnage.scaleup.", "tonnage.rules.")


def small_world() -> list[KubeObject]:
    """Nodes that come, groups that are balanced, pods that mind each other, claims and pools."""
    db = {"app": "db"}
    apart = PodAffinityTerm(topology_key=make.HOSTNAME, label_selector=make.selecting(db))
    even = TopologySpreadConstraint(
        max_skew=1, topology_key=make.ZONE, label_selector=make.selecting(db)
    )
    return [
        CLASS,
        created(make.node("a-1", zone="a"), 30),
        make.node("b-1", zone="b"),
        make.csinode("b-1", {EBS: 1}),
        group("a", slots={EBS: 2}, zone="a", nodes=["a-1"], target=2),
        group("b", slots={EBS: 2}, zone="b", nodes=["b-1"]),
        group("whole", slots={EBS: 4}, whole=True, most=2),
        *stateful("disks", 6, cpu="1500m"),
        *(make.pod(f"db-{number}", cpu=2, labels=db, apart=[apart]) for number in range(2)),
        make.pod("even", cpu=2, labels=db, spread=[even]),
        make.pod("with", cpu=2, near=[apart]),
    ]


def assessed(objects: Iterable[KubeObject], options: Options, version: Features) -> Assessment:
    inputs = Inputs.of_objects(objects, options=options, features=version, now=NOW)
    return assessment.assess(msgspec.structs.replace(inputs, skipped={}))


def standing(options: Mapping[str, object]) -> tuple[Callable[[], Plan], Snapshot]:
    """A decision on a snapshot that goes on living, as it is when it was made once."""
    found = assessed(small_world(), settings.of(options), features.of_version())
    decision.decide_on(found)
    return lambda: decision.decide_on(found).plan, found.inputs.cluster.snapshot


BALANCED = {
    "balanceSimilarNodeGroups": True,
    "pools": [{"name": "bus", "size": 3, "members": {EBS: 1}}],
}


def test_a_plan_that_fails_anywhere_leaves_nothing_behind() -> None:
    again, snapshot = standing(BALANCED)
    before = exact(snapshot)
    with FailingCall(0) as counted:
        again()
    for at in random.Random(15).sample(range(1, counted.calls), 25):
        with pytest.raises(MadeUpError), FailingCall(at):
            again()
        assert differences(before, exact(snapshot)) == {}, f"call {at}"
