"""Real-looking flag sets and NodePools, and what `tonnage migrate` makes of them.

With TONNAGE_WRITE_GOLDEN=1 the expected files are written anew, to be read before they are kept.
"""

import os
from pathlib import Path

import msgspec
import pytest
import yaml
from click.testing import CliRunner

from tonnage.autoscaler.config import AutoscalerConfig
from tonnage.cli.app import program
from tonnage.objects import codec, kinds
from tonnage.service import config_file

GOLDEN = Path(__file__).parent / "golden"
CASES = sorted(path.name for path in GOLDEN.iterdir())


def migrated(case: str, *options: str) -> str:
    directory = GOLDEN / case
    types = directory / "instance-types.json"
    given = ["--instance-types", str(types)] if types.exists() else []
    run = CliRunner().invoke(
        program, ["migrate", "-f", str(directory / "input.yaml"), *given, *options]
    )
    assert run.exit_code == 0, run.stderr
    return run.stdout


def test_there_are_five_flag_sets_and_three_sets_of_node_pools() -> None:
    karpenter = [case for case in CASES if case.startswith("karpenter")]
    assert (len(CASES) - len(karpenter), len(karpenter)) == (5, 3)


@pytest.mark.parametrize("case", CASES)
def test_what_it_becomes_is_what_was_agreed_on(case: str) -> None:
    expected = GOLDEN / case / "expected.yaml"
    made = migrated(case, "-o", "yaml")
    if os.environ.get("TONNAGE_WRITE_GOLDEN"):
        expected.write_text(made)
    assert made == expected.read_text()


@pytest.mark.parametrize("case", CASES)
def test_its_settings_and_groups_are_accepted(case: str, tmp_path: Path) -> None:
    migrated(case, "--write", str(tmp_path))
    config_file.parse((tmp_path / "config.yaml").read_bytes(), AutoscalerConfig, where="", given={})
    row = kinds.by_kind("tonnage.dev/v1alpha1", "NodeGroup")
    assert row is not None
    groups = tmp_path / "node-groups.yaml"
    for document in yaml.safe_load_all(groups.read_text()) if groups.exists() else ():
        codec.convert(document, row)


@pytest.mark.parametrize("case", CASES)
def test_the_arguments_are_options_of_run(case: str) -> None:
    made = msgspec.json.decode(migrated(case, "-o", "json"))
    run = program.get_command(None, "run")  # type: ignore[arg-type]
    assert run is not None
    known = {name for param in run.params for name in (*param.opts, *param.secondary_opts)}
    assert {one.partition("=")[0] for one in made["arguments"]} <= known
