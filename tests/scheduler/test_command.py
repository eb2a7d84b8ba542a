"""`tonnage scheduler`: what it accepts, and that its documentation tells all settings."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from tonnage.cli.app import program
from tonnage.errors import InputError
from tonnage.scheduler.config import SchedulerConfig, Weights
from tonnage.service import config_file

DOCUMENTATION = Path(__file__).parent.parent.parent / "docs" / "scheduler.md"


@pytest.mark.parametrize("name", ["", "default-scheduler"])
def test_the_pods_of_kube_scheduler_are_not_taken(name: str) -> None:
    ran = CliRunner().invoke(program, ["scheduler", "--scheduler-name", name])
    assert ran.exit_code == 2
    assert "expected a name of its own" in ran.stderr


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("nonsense: 1", "config:1: nonsense: expected one of apiVersion, kind, weights, "),
        ("batch: 0", "expected 1 or more"),
        ("podInitialBackoff: 20s", "expected at least podInitialBackoff"),
        ("weights: {freeSlots: -1}", "expected 0 or more"),
        ("kind: Other", "expected tonnage.dev/v1alpha1, SchedulerConfig"),
    ],
)
def test_settings_that_make_no_sense_are_refused(text: str, told: str) -> None:
    with pytest.raises(InputError, match=re.escape(told)):
        config_file.parse(text.encode(), SchedulerConfig, where="config", given={})


def test_times_may_be_written_as_durations() -> None:
    made = config_file.parse(b"podMaxBackoff: 1m", SchedulerConfig, where="config", given={})
    assert made.pod_max_backoff == 60.0


def _shown(value: bool | float | None) -> str:
    if value is None:
        return "none"
    return str(value).lower() if isinstance(value, bool) else f"{value:g}"


def test_every_setting_is_documented_with_its_default() -> None:
    import msgspec

    text = DOCUMENTATION.read_text()
    documented = dict(re.findall(r"^\| `([\w.]+)` \| `?([^|`]+?)`? \|", text, re.MULTILINE))
    expected = {}
    for prefix, record in (("", SchedulerConfig()), ("weights.", Weights())):
        for field in msgspec.structs.fields(type(record)):
            if field.name not in ("api_version", "kind", "weights"):
                expected[prefix + field.encode_name] = _shown(getattr(record, field.name))
    assert {name: documented.get(name) for name in expected} == expected
