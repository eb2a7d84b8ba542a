"""A sweep as an Indexed Job: valid manifests, parts played as the Job would, results gathered."""

import base64
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.conftest import Written
from tests.cli.planning import cluster
from tests.scaleup.groups import group
from tests.sweep.sweeping import NOW, in_file, run
from tonnage.errors import InputError
from tonnage.sweep import job
from tonnage.sweep.job import JobSettings

GRID = ("--vary=max-size=g:0..9", NOW)
PARTS = 3


def rendered(*arguments: str) -> list[dict[str, Any]]:
    ended = run(*arguments, "--render-job")
    assert ended.exit_code == 0, ended.output
    return list(yaml.safe_load_all(ended.stdout))


@pytest.fixture
def file(written: Written) -> str:
    return written(*cluster(pods=3))


def played(manifests: list[dict[str, Any]], index: int, folder: Path) -> str:
    """What a pod of an index prints: its own command line, with its files where they are."""
    *config, found = manifests
    if config:
        (bundle,) = config[0]["binaryData"].items()
        (folder / bundle[0]).write_bytes(base64.b64decode(bundle[1]))
    (container,) = found["spec"]["template"]["spec"]["containers"]
    arguments = [
        one.replace("$(JOB_COMPLETION_INDEX)", str(index))
        .replace("=/sweep/", f"={folder}/")
        .replace("=/results/", f"={folder}/")
        for one in container["args"]
    ]
    assert arguments[0] == "sweep"
    ended = run(*arguments[1:], env={"JOB_COMPLETION_INDEX": str(index)})
    assert ended.exit_code == 0, ended.output
    return ended.stdout


@pytest.mark.parametrize("version", ["1.34", "1.37"])
@pytest.mark.parametrize("more", [(), ("--claim=results",)], ids=["logs", "claim"])
def test_the_manifests_are_valid(file: str, version: str, more: tuple[str, ...]) -> None:
    validator = pytest.importorskip("kubernetes_validate")
    for manifest in rendered("-f", file, *GRID, *more):
        validator.validate(manifest, version, strict=True)


def test_all_parts_together_are_the_whole(file: str, tmp_path: Path) -> None:
    whole = tmp_path / "whole.jsonl"
    run("-f", file, *GRID, f"--results={whole}", "-j1")
    manifests = rendered("-f", file, *GRID, f"--parts={PARTS}")
    logs = [played(manifests, index, tmp_path) for index in range(PARTS)]
    # The first pod was started again, the second said something, the third comes first.
    log = "\n".join([logs[2], "warning: {odd}", logs[1], logs[0][:-40], logs[0]])
    gathered = tmp_path / "gathered.jsonl"
    ended = run("--gather=-", f"--results={gathered}", stdin=log.encode())
    assert ended.exit_code == 0, ended.output
    assert in_file(gathered) == in_file(whole)
    assert gathered.read_bytes() == whole.read_bytes()


def test_what_is_missing_is_told_and_can_be_done_elsewhere(file: str, tmp_path: Path) -> None:
    manifests = rendered("-f", file, *GRID, f"--parts={PARTS}")
    log = played(manifests, 0, tmp_path) + played(manifests, 2, tmp_path)
    gathered = tmp_path / "gathered.jsonl"
    ended = run("--gather=-", f"--results={gathered}", stdin=log.encode())
    assert ended.exit_code == 1
    assert "3 variants without a result, by number 3, 4, 5" in ended.stderr
    assert run("-f", file, *GRID, f"--results={gathered}", "--resume", "-j1").exit_code == 0
    assert [one["position"] for one in in_file(gathered)] == list(range(10))


def test_on_a_volume_a_part_that_is_started_again_goes_on(file: str, tmp_path: Path) -> None:
    manifests = rendered("-f", file, *GRID, f"--parts={PARTS}", "--claim=results")
    played(manifests, 1, tmp_path)
    (part,) = tmp_path.glob("*part-1.jsonl")
    done = part.read_bytes()
    part.write_bytes(done[:-30])
    played(manifests, 1, tmp_path)
    assert part.read_bytes() == done
    for index in (0, 2):
        played(manifests, index, tmp_path)
    assert run(f"--gather={tmp_path}").exit_code == 0


def test_results_of_two_sweeps_do_not_go_together(file: str, tmp_path: Path) -> None:
    folder = tmp_path / "parts"
    folder.mkdir()
    for name, grid in (("a", "0..3"), ("b", "0..4")):
        run("-f", file, f"--vary=max-size=g:{grid}", NOW, f"--results={folder}/{name}.jsonl", "-j1")
    ended = run(f"--gather={folder}")
    assert (ended.exit_code, "results of another sweep" in ended.stderr) == (2, True)


def test_a_sweep_too_large_for_a_configmap_goes_on_the_volume() -> None:
    settings = JobSettings("sweep", "default", "tonnage", 2, 2)
    with pytest.raises(InputError, match=r"put it on a volume as bundle\.json\.gz"):
        job.manifests(settings, bytes(job.LARGEST + 1))
    (only,) = job.manifests(settings._replace(claim="results"), bytes(job.LARGEST + 1))
    (container,) = only["spec"]["template"]["spec"]["containers"]
    assert "--bundle=/results/bundle.json.gz" in container["args"]


def test_a_bundle_is_run_where_its_files_are_not(file: str, tmp_path: Path) -> None:
    bundle, here, there = (tmp_path / name for name in ("b.json.gz", "here.jsonl", "there.jsonl"))
    run("-f", file, *GRID, f"--results={here}", "-j1")
    assert run("-f", file, *GRID, f"--write-bundle={bundle}").exit_code == 0
    shutil.move(file, tmp_path / "gone.json")
    assert run(f"--bundle={bundle}", f"--results={there}", "-j1").exit_code == 0
    assert there.read_bytes() == here.read_bytes()


@pytest.mark.parametrize("count", [0, 1, 7, 10_000])
def test_every_variant_is_in_exactly_one_part(count: int) -> None:
    parts = [job.part_of(count, part, 7) for part in range(7)]
    assert [position for part in parts for position in part] == list(range(count))


def test_objects_without_a_group_are_refused(written: Written) -> None:
    file = written(*(one for one in cluster() if not isinstance(one, type(group("g")))))
    ended = run("-f", file, *GRID)
    assert (ended.exit_code, "no NodeGroup in the input" in ended.stderr) == (2, True)
