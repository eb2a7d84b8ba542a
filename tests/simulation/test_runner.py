"""Runs are repeatable, can be compared, and can be watched."""

import os
import subprocess
import sys

import msgspec
import pytest

from tests.simulation.scenarios import EXAMPLES, example, played
from tonnage.errors import InputError
from tonnage.report.timeline import Sample
from tonnage.simulation import comparison, runner
from tonnage.simulation.scenario import NodeOutage, Scaling, ScenarioAction, Simulation, Target


def printed(name: str, *, hash_seed: str) -> bytes:
    main = "from tonnage.cli import main; main()"
    file = str(EXAMPLES / f"{name}.yaml")
    command = [sys.executable, "-c", main, "simulate", file, "-o", "json"]
    env = {**os.environ, "PYTHONHASHSEED": hash_seed}
    return subprocess.run(command, env=env, check=True, capture_output=True).stdout


def test_the_same_seed_gives_the_same_bytes_whatever_the_order_of_sets() -> None:
    assert printed("zone-out-of-stock", hash_seed="1") == printed(
        "zone-out-of-stock", hash_seed="2"
    )


def test_another_seed_gives_another_course() -> None:
    other = runner.simulate(example("scale-from-zero").with_seed(2))
    assert other.samples != played("scale-from-zero").timeline().samples


def test_every_sample_can_be_watched() -> None:
    seen: list[Sample] = []
    timeline = runner.simulate(example("scale-from-zero").with_duration(120.0), watch=seen.append)
    assert all(one in seen for one in timeline.samples)


def test_without_csi_awareness_nobody_is_helped_from_zero() -> None:
    aware, blind = comparison.compare(example("scale-from-zero"), {"csiAware": "false"})
    assert (aware.summary.pending_at_end, blind.summary.pending_at_end) == (0, 12)


def test_pods_that_never_run_count_as_waiting_longest() -> None:
    blind = runner.simulate(example("scale-from-one").with_options({"csiAware": False}))
    waits = blind.summary.time_to_running
    assert (waits.count, waits.waiting, waits.p50) == (14, 9, None)


def test_compared_runs_are_called_by_what_differs() -> None:
    short = example("scale-from-zero").with_duration(1.0)
    runs = comparison.compare(short, {"csiAware": "false"})
    assert [one.label for one in runs] == ["csiAware=true", "csiAware=false"]


def test_an_option_that_there_is_not_is_named() -> None:
    with pytest.raises(InputError, match="speed"):
        comparison.compare(example("scale-from-zero"), {"speed": "3"})


def test_the_bill_is_machines_times_hours() -> None:
    timeline = played("scale-from-zero").timeline()
    hours = 3 * (900 - timeline.decisions[0].at) / 3600
    assert timeline.summary.cost == pytest.approx(hours * 0.5, abs=1e-4)


def with_script(name: str, *actions: ScenarioAction) -> Simulation:
    simulation = example(name)
    spec = msgspec.structs.replace(simulation.spec, script=(*simulation.spec.script, *actions))
    return msgspec.structs.replace(simulation, spec=spec)


def test_a_script_that_scales_what_is_not_there_says_so() -> None:
    nobody = Scaling(kind="StatefulSet", name="nobody", replicas=1)
    with pytest.raises(InputError, match="there is no StatefulSet default/nobody"):
        runner.simulate(with_script("scale-from-zero", ScenarioAction(at=5.0, scale=nobody)))


def test_an_object_that_the_api_refuses_is_named() -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "Big"}, "spec": {}}
    with pytest.raises(InputError, match="Pod Big"):
        runner.simulate(with_script("scale-from-zero", ScenarioAction(at=5.0, apply=(pod,))))


def test_a_deleted_workload_takes_its_pods_along() -> None:
    gone = Target(kind="StatefulSet", name="db")
    timeline = runner.simulate(
        with_script("scale-from-zero", ScenarioAction(at=400.0, delete=(gone,)))
    )
    assert timeline.samples[-1].pods.running == 0


def test_nodes_that_are_not_ready_are_told_apart_from_new_ones() -> None:
    down = ScenarioAction(at=400.0, not_ready=NodeOutage(nodes=("db",), lasts=60.0))
    timeline = runner.simulate(with_script("scale-from-zero", down))
    assert max(one.nodes["notReady"] for one in timeline.samples) == 3
    assert timeline.samples[-1].nodes["notReady"] == 0


def test_a_restarted_autoscaler_buys_nothing_twice() -> None:
    restarts = [ScenarioAction(at=60.5 + 20 * n, restart="autoscaler") for n in range(6)]
    timeline = runner.simulate(with_script("registration-race", *restarts))
    assert timeline.summary.nodes_bought == 4
