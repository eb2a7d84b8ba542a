"""What is wrong with a file of settings, in words of people."""

import re
from pathlib import Path

import msgspec
import pytest

from tonnage.autoscaler.config import AutoscalerConfig
from tonnage.errors import InputError
from tonnage.objects import durations
from tonnage.scheduler.config import SchedulerConfig
from tonnage.scheduler.extender.config import ExtenderConfig
from tonnage.service import config_file


def wrong(text: str, type_: type[msgspec.Struct] = AutoscalerConfig) -> str:
    with pytest.raises(InputError) as raised:
        config_file.parse(text.encode(), type_, where="c.yaml", given={})
    return str(raised.value)


@pytest.mark.parametrize(
    "field",
    ["scanInterval", "maxNodeProvisionTime", "timeBudget", "newPodScaleUpDelay", "maxInactivity"],
)
def test_a_time_that_is_none_is_told_what_one_looks_like(field: str) -> None:
    said = f'c.yaml:1: {field}: expected a duration such as 10s or 1m30s, found "soon"'
    assert wrong(f"{field}: soon") == said


def test_a_time_of_another_type_is_told_the_same() -> None:
    assert wrong("scanInterval: [1]").startswith(
        "c.yaml:1: scanInterval: expected a duration such as 10s or 1m30s, found a list"
    )


@pytest.mark.parametrize(
    ("written", "seconds"), [("10", 10.0), ("1.5", 1.5), ("10s", 10.0), ("1m30s", 90.0)]
)
def test_times_are_seconds_or_durations(written: str, seconds: float) -> None:
    data = f"scanInterval: {written}".encode()
    assert config_file.parse(data, AutoscalerConfig, where="", given={}).scan_interval == seconds


@pytest.mark.parametrize("written", [".s", "²s", "1.2.3s", "s", "5", "5 s", "1m-3s"])
def test_what_is_no_duration_is_refused(written: str) -> None:
    assert "expected a duration such as 10s" in wrong(f'scanInterval: "{written}"')


@pytest.mark.parametrize(
    ("written", "seconds"), [("500ms", 0.5), (".5s", 0.5), ("1.s", 1.0), ("1h0m1.5s", 3601.5)]
)
def test_durations_are_written_as_in_go(written: str, seconds: float) -> None:
    assert durations.seconds(written) == seconds


def test_the_line_is_that_of_the_very_field_inside_another() -> None:
    text = (
        "pools:\n  - name: a\n    members: {d: 1}\n    sise: 3\nfeatureGates:\n  A: true\n  B: 1\n"
    )
    assert wrong(text).startswith("c.yaml:4: pools[0].sise:")
    assert wrong(text.replace("sise", "size")).startswith("c.yaml:7: featureGates.B:")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("kubernetesVersion: banana", "`kubernetesVersion`: 'banana': expected a version such as"),
        ("statusConfigMapName: My Status", "expected the name of a ConfigMap"),
        ("priorities: {a: [b]}", "`priorities`: 'a': expected a whole number"),
        ("priorities: {'1': ['(']}", "`priorities`[1]: '(': missing ), unterminated"),
        ("expander: grpc", "`expander`: grpc asks whom `grpcExpanderUrl` names"),
        ("startupTaintPrefixes: ['']", "`startupTaintPrefixes`: an empty entry"),
        ("decisionFileSize: 0", "`decisionFileSize`: 0: expected 1 or more"),
    ],
)
def test_what_no_round_could_go_by_is_refused_when_the_file_is_read(text: str, said: str) -> None:
    assert wrong(f"csiAware: true\n{text}").startswith("c.yaml:2: ")
    assert said in wrong(text)


def test_a_share_is_no_time() -> None:
    assert wrong("maxTotalUnreadyPercentage: 10s") == (
        'c.yaml:1: maxTotalUnreadyPercentage: expected a number, found "10s"'
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("expander: random\nmaxNodesTotal: many", "c.yaml:2: maxNodesTotal: expected a whole numb"),
        ("csiAware: maybe", "c.yaml:1: csiAware: expected true or false, found"),
        ("scanIntervall: 5s", "c.yaml:1: scanIntervall: expected scanInterval or another known"),
        ("pools: [{name: a}]", "c.yaml:1: pools[0]: members: expected drivers with weights"),
        (
            "limits: {groups: {g: {d: -1}}}",
            "c.yaml:1: limits: groups.g.d: -1: expected 0 or more",
        ),
        (
            "limits:\n  groups:\n    a: {d: 1}\n    g: {d: 3, e: x}",
            "c.yaml:4: limits.groups.g.e: expected a whole number, found",
        ),
        (
            "limits:\n  instanceType: {m5.large: {d: 1}}",
            "c.yaml:2: limits.instanceType: expected instanceTypes or another known",
        ),
        (
            "pools: [{name: a, members: {d: 1}, nodeSelector: {matchlabels: {a: b}}}]",
            "c.yaml:1: pools[0].nodeSelector.matchlabels: expected matchLabels or another known",
        ),
    ],
)
def test_a_wrong_field_is_named_with_its_line(text: str, said: str) -> None:
    assert wrong(text).startswith(said)


def test_a_field_inside_another_is_named_whole() -> None:
    said = "c.yaml:1: weights.freeSlot: expected freeSlots or another known field"
    assert wrong("weights: {freeSlot: 1}", SchedulerConfig).startswith(said)


def test_a_word_that_is_none_of_those_there_are_is_told_which_there_are() -> None:
    said = 'c.yaml:1: unknownLimits: expected allow or warn or hold, found "never"'
    assert wrong("unknownLimits: never", ExtenderConfig) == said


def test_what_was_given_is_told_as_of_where_it_was_given() -> None:
    with pytest.raises(InputError, match=re.escape("flags: maxNodesTotal: expected a whole")):
        config_file.parse(
            b"", AutoscalerConfig, where="c.yaml", given={"maxNodesTotal": "x"}, given_where="flags"
        )


def test_what_changes_nothing_is_said_when_a_file_is_read_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "c.yaml"
    path.write_text("")
    file = config_file.ConfigFile(path, AutoscalerConfig)
    assert file.remarks == ()
    path.write_text("featureGates: {WatchList: true}")
    assert file.check()
    warned = [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]
    assert warned == list(file.remarks) != []


def test_a_misspelt_gate_leaves_the_old_settings_in_force(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text("featureGates: {VolumeLimitScaling: false}")
    file = config_file.ConfigFile(path, AutoscalerConfig)
    path.write_text("featureGates: {VolumeLimitScalin: true}")
    assert not file.check()
    assert f"{path}:1: `featureGates`: there is no feature gate VolumeLimitScalin" in file.problem


def test_a_setting_that_is_written_twice_is_refused() -> None:
    said = wrong("expander: random\nscanInterval: 5s\nexpander: price")
    assert said == "c.yaml:3: expander: written for the second time"


def test_a_file_that_was_gone_and_is_back_is_no_problem_any_more(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text("scanInterval: 5s")
    file = config_file.ConfigFile(path, AutoscalerConfig)
    path.rename(tmp_path / "away")
    assert not file.check()
    assert "No such file" in file.problem
    (tmp_path / "away").rename(path)
    assert not file.check()
    assert file.problem == ""


def test_a_file_that_stays_bad_stays_a_problem(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text("")
    file = config_file.ConfigFile(path, AutoscalerConfig)
    path.write_text("expander: 7")
    assert not file.check()
    problem = file.problem
    assert problem
    assert not file.check()
    assert file.problem == problem
