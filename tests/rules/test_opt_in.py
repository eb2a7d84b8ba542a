"""Who enforces the opt-in of CSI drivers, as seen from the objects of a cluster."""

import msgspec
import pytest

from tonnage.objects.storage import OPT_IN_ANNOTATION, CSIDriver
from tonnage.rules import features, opt_in
from tonnage.testing.builders import csidriver, node, pod

EBS = "ebs.csi.aws.com"
NAME = "app.kubernetes.io/name"


def annotated(value: str = "true") -> CSIDriver:
    driver = csidriver(EBS)
    meta = msgspec.structs.replace(driver.metadata, annotations={OPT_IN_ANNOTATION: value})
    return msgspec.structs.replace(driver, metadata=meta)


def for_scheduler(name: str) -> object:
    plain = pod("web")
    return msgspec.structs.replace(
        plain, spec=msgspec.structs.replace(plain.spec, scheduler_name=name)
    )


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(annotated(), f"CSIDriver {EBS} has the annotation", id="our annotation"),
        pytest.param(
            pod("x", labels={NAME: "tonnage-extender"}),
            "pod default/x is tonnage extender",
            id="our extender",
        ),
        pytest.param(
            pod("x", labels={NAME: "tonnage-scheduler"}),
            "pod default/x is tonnage scheduler",
            id="our scheduler",
        ),
        pytest.param(
            for_scheduler("tonnage"),
            "pod default/web is for tonnage scheduler",
            id="a pod that names our scheduler",
        ),
    ],
)
def test_it_is_seen_and_said_what_shows_it(found, expected) -> None:
    assert opt_in.seen_in([node("n1"), pod("other"), found]).startswith(expected)


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(annotated("false"), id="an annotation that says no"),
        pytest.param(csidriver(EBS, opt_in=True), id="the field: kube-scheduler reads it too"),
        pytest.param(pod("x", labels={NAME: "tonnage"}), id="our autoscaler enforces nothing"),
        pytest.param(for_scheduler("default-scheduler"), id="another scheduler"),
    ],
)
def test_nothing_else_shows_it(found) -> None:
    assert opt_in.seen_in([node("n1"), pod("other"), found]) == ""


@pytest.mark.parametrize(
    ("setting", "seen", "expected"),
    [
        ("auto", "", False),
        ("auto", "a pod", True),
        ("always", "", True),
        ("as-server", "a pod", False),
    ],
)
def test_the_setting_goes_before_what_is_seen(setting, seen, expected) -> None:
    found = opt_in.settled(features.of_version("1.36"), setting, seen=seen)
    assert found.enforce_opt_in is expected
