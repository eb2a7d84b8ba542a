"""Scenarios in files, and names that an enhancement has for fields."""

import json

import pytest

from tests.files.manifests import NODE, POD, from_stdin, lines, message, names, scenario
from tonnage.errors import InputError
from tonnage.files import ScenarioOptions
from tonnage.objects.storage import CSIDriver


def test_a_scenario_gives_its_objects_name_and_settings() -> None:
    loaded = from_stdin(
        json.dumps(
            scenario(
                "two-databases",
                NODE,
                POD,
                kubernetesVersion="1.37",
                featureGates={"VolumeLimitScaling": True},
                options={"expander": "least-waste"},
            )
        )
    )
    assert (loaded.name, names(loaded)) == ("two-databases", ["n1", "web-1"])
    assert loaded.scenario == ScenarioOptions(
        kubernetes_version="1.37",
        feature_gates={"VolumeLimitScaling": True},
        options={"expander": "least-waste"},
    )


def test_plain_manifests_have_no_scenario() -> None:
    assert from_stdin(json.dumps(POD)).scenario is None


def test_objects_beside_a_scenario_belong_to_it() -> None:
    assert names(from_stdin(lines(NODE, scenario("s", POD)))) == ["n1", "web-1"]


def test_scenarios_with_the_same_settings_are_read_together() -> None:
    loaded = from_stdin(lines(scenario("a", NODE), scenario("b", POD)))
    assert (names(loaded), loaded.name) == (["n1", "web-1"], "")


def test_scenarios_with_other_settings_are_refused() -> None:
    text = message(lines(scenario("a"), scenario("b", options={"csiAware": False})))
    assert "options of Scenario a, found others in Scenario b" in text


def test_a_scenario_inside_a_scenario_is_refused() -> None:
    text = message(scenario("outer", scenario("inner")))
    assert text == (
        "spec.objects[0]: kind: expected no Scenario inside a Scenario, found Scenario inner"
    )


def test_a_version_without_quotes_says_that_it_needs_them() -> None:
    head = "apiVersion: tonnage.dev/v1alpha1\nkind: Scenario\nmetadata: {name: s}\n"
    text = message(f"{head}spec:\n  kubernetesVersion: 1.37\n")
    assert text == (
        "document 1, line 5: Scenario s: spec.kubernetesVersion: "
        "expected a string (in quotes), found 1.37"
    )


# The name that the text of an enhancement has for a field


def driver(**spec: object) -> dict[str, object]:
    head = {"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": "disk"}}
    return {**head, "spec": spec}


@pytest.mark.parametrize("opted_in", [True, False])
def test_the_name_of_the_enhancement_means_the_field_and_is_noted(opted_in: bool) -> None:
    loaded = from_stdin(lines(driver(preventPodPlacementWithoutDriver=opted_in)))
    (one,) = loaded.objects
    assert isinstance(one, CSIDriver)
    assert one.spec.prevent_pod_scheduling_if_missing is opted_in
    (note,) = loaded.notes
    assert note == (
        "CSIDriver disk: spec.preventPodPlacementWithoutDriver is read as"
        " preventPodSchedulingIfMissing, which API servers call it; they drop any other name"
    )


def test_two_names_that_say_different_things_are_refused() -> None:
    both = driver(preventPodPlacementWithoutDriver=True, preventPodSchedulingIfMissing=False)
    with pytest.raises(InputError) as raised:
        from_stdin(lines(both))
    assert "CSIDriver disk: spec" in str(raised.value)
    assert "expected preventPodSchedulingIfMissing alone, which says false" in str(raised.value)
