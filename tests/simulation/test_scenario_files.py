"""Files are checked before anything runs, and every error says where."""

from pathlib import Path

import pytest

from tests.simulation.scenarios import example, names
from tonnage.embedded.world import Delay
from tonnage.errors import InputError
from tonnage.simulation import scenario_files
from tonnage.simulation.scenario import Simulation

HEAD = """\
apiVersion: tonnage.dev/v1alpha1
kind: Simulation
metadata: {name: s}
spec:
"""
BAD_NAMESPACE = "{apiVersion: v1, kind: Namespace, metadata: {name: UP}}"
HOMELESS = "{apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: nowhere}}"


def parsed(spec: str, *, more: str = "", beside: Path = Path()) -> Simulation:
    body = "".join(f"  {line}\n" for line in spec.splitlines())
    return scenario_files.parse((HEAD + body + more).encode(), file="s.yaml", beside=beside)


@pytest.mark.parametrize("name", names())
def test_examples_are_read(name: str) -> None:
    assert example(name).name == name


def test_times_may_be_seconds_or_durations() -> None:
    spec = parsed("duration: 90m\nstuckAfter: 30").spec
    assert (spec.duration, spec.stuck_after) == (5400.0, 30.0)


def test_a_delay_may_be_one_time_or_two() -> None:
    world = parsed(
        "duration: 1m\nworld: {start: 40s, attach: [1s, 2s], detach: {least: 3}}"
    ).spec.world
    assert (world.start, world.attach, world.detach) == (Delay(40.0), Delay(1.0, 2.0), Delay(3.0))


def test_further_documents_are_objects() -> None:
    more = "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: home}\n"
    assert [one["kind"] for one in parsed("duration: 1m", more=more).objects] == ["Namespace"]


def test_files_are_found_beside_the_scenario(tmp_path: Path) -> None:
    (tmp_path / "n.yaml").write_text("apiVersion: v1\nkind: Namespace\nmetadata: {name: home}\n")
    assert len(parsed("duration: 1m\nfiles: [n.yaml]", beside=tmp_path).objects) == 1


def test_lists_in_files_are_taken_apart(tmp_path: Path) -> None:
    item = '{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "home"}}'
    (tmp_path / "l.json").write_text(f'{{"apiVersion": "v1", "kind": "List", "items": [{item}]}}')
    assert len(parsed("duration: 1m\nfiles: [l.json]", beside=tmp_path).objects) == 1


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("seed: 1", "s.yaml:4: spec.duration: expected a value, found none"),
        ("duration: 1m\nseed: x", 's.yaml:6: spec.seed: expected a whole number, found "x"'),
        ("duration: soon", 's.yaml:5: spec.duration: "soon": expected seconds, or a duration'),
        ("duration: 0", "s.yaml:5: spec.duration: 0: expected more than 0"),
        (
            "duration: 1m\nspeed: 3",
            "s.yaml:6: spec.speed: expected seed or another known field, found an unknown field",
        ),
        (
            "duration: 1m\nworld:\n  starts: 3",
            "s.yaml:7: spec.world.starts: expected start or another known field",
        ),
        (
            "duration: 1m\nworld:\n  drivers:\n  - {name: a, limt: 3}",
            "s.yaml:8: spec.world.drivers[0].limt: expected limit or another known field",
        ),
        (
            "duration: 1m\nworld:\n  drivers:\n  - {name: a, limit: many}",
            's.yaml:8: spec.world.drivers[0].limit: expected a whole number, found "many"',
        ),
        (
            "duration: 1m\nworld:\n  drivers:\n  - {name: a, limit: -1}",
            "s.yaml:8: spec.world.drivers[0].limit: -1: expected 0 or more",
        ),
        (
            "duration: 1m\nworld: {attachFailureChance: 5}",
            "s.yaml:6: spec.world.attachFailureChance: 5: expected a chance from 0 to 1",
        ),
        (
            "duration: 1m\ncloud: {failureChance: often}",
            's.yaml:6: spec.cloud.failureChance: expected a number, found "often"',
        ),
        (
            "duration: 1m\ncloud: {neverRegisterChance: 1.5}",
            "s.yaml:6: spec.cloud.neverRegisterChance: 1.5: expected a chance from 0 to 1",
        ),
        (
            "duration: 1m\noptions: {expander: 3}",
            "s.yaml:6: spec.options: expander: expected a string",
        ),
        (
            "duration: 1m\noptions: {speed: 3}",
            "spec.options: speed: expected a known field",
        ),
        (
            "duration: 1m\nfeatureGates: {VolumeLimitScalin: true}",
            "s.yaml:6: spec.featureGates: there is no feature gate VolumeLimitScalin; expected",
        ),
        ("duration: 1m\nkubernetesVersion: '1.2'", "s.yaml:6: spec.kubernetesVersion: "),
        ("duration: 1m\nscript:\n- at: 1m", "s.yaml:7: spec.script[0]: expected exactly one of"),
        (
            "duration: 1m\nscript:\n- {at: 2m, restart: autoscaler}",
            "s.yaml:7: spec.script[0].at: 120 s: expected a time within the duration",
        ),
        (
            "duration: 1m\nscript:\n- {at: 0, crash: {driver: x}}",
            "spec.script[0].crash.driver: 'x': expected a driver of spec.world.drivers",
        ),
        (
            "duration: 1m\nscript:\n- {at: 0, restart: kubelet}",
            's.yaml:7: spec.script[0].restart: expected autoscaler or scheduler, found "kubelet"',
        ),
        (
            "duration: 1m\nscript:\n- {at: 0, scale: {kind: StatefulSet, name: db}}",
            "spec.script[0].scale.replicas: expected either replicas or by",
        ),
        (
            "duration: 1m\nobjects:\n- {kind: Pod}",
            "s.yaml:7: spec.objects[0].apiVersion: expected a manifest with apiVersion and kind",
        ),
        (
            "duration: 1m\nobjects:\n- {apiVersion: v1, kind: Banana, metadata: {name: b}}",
            "spec.objects[0].kind: v1 Banana: the embedded API does not serve this kind",
        ),
        (
            "duration: 1m\nobjects:\n- {apiVersion: v1, kind: Pod, metadata: {name: p}, spec: 3}",
            "spec.objects[0]: Pod default/p: spec: expected a mapping",
        ),
        (
            f"duration: 1m\nobjects:\n- {BAD_NAMESPACE}",
            's.yaml:7: spec.objects[0]: Namespace "UP" is invalid: metadata.name: Invalid value',
        ),
        (
            f"duration: 1m\nscript:\n- at: 0\n  apply:\n  - {BAD_NAMESPACE}",
            's.yaml:9: spec.script[0].apply[0]: Namespace "UP" is invalid: metadata.name',
        ),
        (
            f"duration: 1m\nobjects:\n- {HOMELESS}",
            's.yaml:7: spec.objects[0]: namespaces "nowhere" not found',
        ),
        (
            "duration: 1m\nscript:\n- {at: 0, scale: {kind: StatefulSet, name: db, by: 1}}",
            "s.yaml:7: spec.script[0].scale: there is no StatefulSet default/db then",
        ),
        (
            "duration: 1m\nworld:\n  attach: [3s, 1s]",
            "s.yaml:7: spec.world.attach: delay from 3 to 1 s: expected 0 <= least <= most",
        ),
        (
            "duration: 1m\nfiles: [nowhere.yaml]",
            "s.yaml:6: spec.files[0]: nowhere.yaml: no such file",
        ),
    ],
)
def test_what_is_wrong_is_named_with_line_and_field(spec: str, message: str) -> None:
    with pytest.raises(InputError) as error:
        parsed(spec)
    assert message in str(error.value)


def test_a_file_without_a_simulation_is_refused() -> None:
    with pytest.raises(InputError, match=r"s.yaml: there is no Simulation in it"):
        scenario_files.parse(
            b"apiVersion: v1\nkind: Namespace\nmetadata: {name: home}\n",
            file="s.yaml",
            beside=Path(),
        )


def test_broken_yaml_is_named_with_its_line() -> None:
    with pytest.raises(InputError, match=r"s.yaml:2: not YAML"):
        scenario_files.parse(b"kind: Simulation\nspec: [\n", file="s.yaml", beside=Path())


def test_repeated_actions_happen_until_they_end() -> None:
    script = "script:\n- {at: 10, every: 20, until: 60, restart: autoscaler}"
    spec = parsed(f"duration: 5m\n{script}").spec
    assert spec.script[0].times(spec.duration) == [10.0, 30.0, 50.0]
