"""Something fails in the middle of a plan: the snapshot it is made on is as it was, to the bit."""

import random
import sys
from collections.abc import Callable, Iterable, Mapping
from types import FrameType

import pytest

from tests.scaleup.asking import CLASS, EBS, NOW, created, group, stateful
from tests.snapshot.dumping import differences, exact
from tonnage.groups.memory import TemplateMemory
from tonnage.objects.kinds import KubeObject
from tonnage.objects.pods import PodAffinityTerm, TopologySpreadConstraint
from tonnage.rules import features
from tonnage.rules.features import Features
from tonnage.scaleup import deciding, gathering, looking
from tonnage.scaleup import options as settings
from tonnage.scaleup.looking import Look
from tonnage.scaleup.options import Options
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
        if frame.f_globals.get("__name__", "").startswith(_DECIDING):
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


def look(objects: Iterable[KubeObject], options: Options, version: Features) -> Look:
    cluster = gathering.cluster_of(list(objects), options, version)
    return looking.look(cluster, options=options, now=NOW, memory=TemplateMemory(), live=False)


def decide(found: Look, options: Options, version: Features) -> Plan:
    upcoming = {name: one.upcoming for name, one in found.readiness.groups.items()}
    return deciding.decide_standing(
        found, options=options, features=version, skipped={}, upcoming=upcoming
    )


def standing(options: Mapping[str, object]) -> tuple[Callable[[], Plan], Snapshot]:
    """A decision on a snapshot that goes on living, as it is when it was made once."""
    chosen, version = settings.of(options), features.of_version()
    found = look(small_world(), chosen, version)
    decide(found, chosen, version)
    return lambda: decide(found, chosen, version), found.cluster.snapshot


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
