"""Features: what a Kubernetes version and its gates switch."""

import pytest

from tonnage.errors import InputError
from tonnage.rules import features


@pytest.mark.parametrize(
    ("text", "number"),
    [
        pytest.param("1.37", (1, 37), id="a minor version"),
        pytest.param("v1.36.2", (1, 36), id="a release as servers report it"),
        pytest.param("1.35.0-eks-1", (1, 35), id="a vendor's"),
        pytest.param("1.34+", (1, 34), id="a vendor's minor with a plus"),
    ],
)
def test_a_version_is_major_and_minor(text, number) -> None:
    assert features.parse_version(text) == number


@pytest.mark.parametrize("text", ["", "1", "one.two", "1.x", "latest", "1.33", "1.38", "2.0"])
def test_other_versions_are_refused_by_name(text) -> None:
    with pytest.raises(InputError, match=f"^Kubernetes version {text!r}: "):
        features.parse_version(text)


def test_the_newest_version_is_the_default() -> None:
    assert features.of_version() == features.of_version("1.37") == features.Features()


@pytest.mark.parametrize(
    ("version", "scaling", "declared", "name_first", "leak"),
    [
        pytest.param("1.34", False, False, False, True, id="1.34"),
        pytest.param("1.35", False, False, False, True, id="1.35"),
        pytest.param("1.36", False, True, False, True, id="1.36"),
        pytest.param("1.37", True, True, True, False, id="1.37"),
    ],
)
def test_versions_differ(version, scaling, declared, name_first, leak) -> None:
    found = features.of_version(version)

    assert (
        found.volume_limit_scaling,
        found.node_declared_features,
        found.node_name_first,
        found.namespace_selectors_leak,
    ) == (scaling, declared, name_first, leak)


def test_only_1_35_opts_in_by_the_existence_of_a_driver() -> None:
    by_existence = [
        version
        for version in ("1.34", "1.35", "1.36", "1.37")
        if features.of_version(version).opt_in_by_existence
    ]

    assert by_existence == ["1.35"]


@pytest.mark.parametrize(
    ("gate", "field"),
    [
        ("VolumeLimitScaling", "volume_limit_scaling"),
        ("NodeDeclaredFeatures", "node_declared_features"),
        ("TaintTolerationComparisonOperators", "taint_comparison_operators"),
        ("AttachVolumeLimit", "attach_volume_limit"),
    ],
)
@pytest.mark.parametrize("switched", [True, False])
def test_a_gate_goes_before_the_versions_default(gate, field, switched) -> None:
    found = features.of_version("1.36", {gate: switched})

    assert getattr(found, field) is switched


def test_gates_that_do_not_matter_to_scheduling_are_passed_over() -> None:
    assert features.of_version("1.37", {"SomethingElse": True}) == features.of_version("1.37")


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        pytest.param("VolumeLimitScalin", "VolumeLimitScaling", id="a letter is missing"),
        pytest.param("VolumeLimitsScaling", "VolumeLimitScaling", id="a letter too many"),
        pytest.param("volumeLimitScaling", "VolumeLimitScaling", id="other letters"),
        pytest.param("NodeDeclaredFeature", "NodeDeclaredFeatures", id="the singular"),
        pytest.param("VolumeLimitScaling", "", id="a gate"),
        pytest.param("VolumeAttributesClass", "", id="the nearest gate of Kubernetes"),
        pytest.param("CSIVolumeHealth", "", id="another one"),
        pytest.param("X", "", id="nothing near"),
    ],
)
def test_only_what_is_surely_one_of_ours_is_misspelt(name, meant) -> None:
    assert features.misspelt(name) == meant


def test_a_misspelt_gate_is_refused_with_those_there_are_nearest_first() -> None:
    message = "no feature gate AttachVolumeLimits; expected AttachVolumeLimit, VolumeLimitScaling"
    with pytest.raises(InputError, match=message):
        features.of_version(gates={"AttachVolumeLimits": True})


def test_gates_of_no_effect_are_named_together() -> None:
    told = features.without_effect(["WatchList", "VolumeLimitScaling", "ImageVolume"])
    assert told.startswith("feature gates WatchList, ImageVolume: of no effect here; ")


def test_of_gates_that_have_an_effect_nothing_is_said() -> None:
    assert features.without_effect(features.GATES) == ""


def test_our_own_options_are_off_by_default() -> None:
    found = features.of_version()

    assert (found.legacy_attach_limits, found.returning_volume_once) == (False, False)


@pytest.mark.parametrize(
    ("told", "nearest"),
    [
        ("v1.36.2-eks-1", "1.36"),
        ("1.35", "1.35"),
        ("v1.37+", "1.37"),
        ("v1.20.0", "1.34"),
        ("v2.0.0", "1.37"),
        ("nonsense", "1.37"),
        ("", "1.37"),
    ],
)
def test_a_server_of_any_version_is_taken_for_the_nearest_modelled_one(
    told: str, nearest: str
) -> None:
    assert features.nearest_version(told) == nearest
