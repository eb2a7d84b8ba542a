"""A group may say itself how its nodes are given back, as upstream's groups may."""

import pytest

from tests.scaledown.clusters import group, nodes, plan, web
from tests.scaleup.groups import owned_by
from tonnage.groups.scale_down_options import GroupScaleDown, ScaleDownOptions
from tonnage.testing import builders as make

BUSY = (make.node("a", cpu="1"), make.node("b", cpu="4"), web("w", "a", cpu="600m"))
"""One node at 60 %, one that is empty and would have room."""

HIGHER = {"scaleDownUtilizationThreshold": 0.7}


@pytest.mark.parametrize(
    ("own", "everywhere", "code"),
    [
        ({}, {}, "in-use"),
        (HIGHER, {}, None),
        ({"scaleDownUtilizationThreshold": 0.5}, HIGHER, "in-use"),
        ({**HIGHER, "scaleDownUnneededTime": "5m"}, {}, "unneeded-too-short"),
    ],
    ids=["nothing of its own", "a higher threshold", "a lower threshold", "a time of its own"],
)  # fmt: skip
def test_what_a_group_says_goes_before_what_holds_for_all(
    own: dict[str, object], everywhere: dict[str, object], code: str | None
) -> None:
    made = plan(group("a", least=0, options=own), *BUSY, **everywhere)
    assert nodes(made)["a"].code == code


def test_daemon_sets_may_be_left_out_for_a_group_alone() -> None:
    daemon = make.pod("d", on="a", cpu="500m", owner=owned_by("DaemonSet", "d"))
    for own, value in ({}, 0.5), ({"ignoreDaemonSetsUtilization": True}, 0.0):
        made = plan(group("a", options=own), make.node("a", cpu="1"), daemon)
        shares = nodes(made)["a"].utilisation
        assert shares is not None
        assert shares.cpu == value


@pytest.mark.parametrize(
    ("own", "told"),
    [
        ({"scaleDownUtilizationThreshold": "much"}, "spec.options.scaleDownUtilizationThreshold"),
        ({"scaleDownUnneededTime": "soon"}, "spec.options.scaleDownUnneededTime"),
        ({"expander": "price"}, "spec.options.expander: expected one of scaleDownUtilizationThr"),
    ],
)
def test_what_a_group_says_wrongly_is_told_and_the_rest_counts(
    own: dict[str, object], told: str
) -> None:
    options = {**own, "scaleDownGpuUtilizationThreshold": 0.1}
    made = plan(group("a", options=options), *BUSY)
    assert any(f"group g: {told}" in warning for warning in made.warnings)
    assert nodes(made)["a"].code == "in-use"


def test_what_a_group_does_not_say_holds_as_for_all() -> None:
    options = ScaleDownOptions(scale_down_unneeded_time=60.0, scale_down_unready_time=90.0)
    own = GroupScaleDown(scale_down_unready_time=0.0).over(options)
    assert (own.scale_down_unneeded_time, own.scale_down_unready_time) == (60.0, 0.0)
