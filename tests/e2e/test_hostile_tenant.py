"""What a tenant with rights in one namespace can do to everybody else, on a real API server."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.autoscaler import Autoscaler
from tests.e2e.controlplane import wait_until
from tests.e2e.extender_setup import extender
from tests.e2e.hostile_pods import LEVELS, absurd, nested
from tests.e2e.processes import Watchdog
from tests.e2e.scale_up import DRIVER, Stage, group, stateful_set
from tests.e2e.tenants import Tenant
from tonnage.cluster.watch_events import TOO_DEEP
from tonnage.embedded.world.behaviour import DriverBehaviour

pytestmark = pytest.mark.patience(600)

FLOOD = 50


@pytest.fixture
def tenant(stage: Stage) -> Iterator[Tenant]:
    with stage.cluster.namespace(f"{stage.work.namespace}-tenant") as namespace:
        yield Tenant(stage.cluster, namespace)


def set_up(stage: Stage) -> None:
    stage.play(DriverBehaviour(name=DRIVER, limit=5))
    stage.groups(group("db", limit=5))
    stage.storage()


def test_nested_pods_and_absurd_amounts_stop_neither_a_start_nor_purchases_for_others(
    stage: Stage, tenant: Tenant
) -> None:
    set_up(stage)
    tenant.post_pod(nested("before"))
    tenant.post_pod(absurd("huge", "18446744073709551616"))
    autoscaler = stage.autoscaler()
    tenant.post_pod(nested("after", levels=1_500))
    tenant.post_pod(nested("later"))
    tenant.post_pod(absurd("vast", '"9e99"'))

    def named() -> bool:
        told = [one for one in autoscaler.tells("problems") or () if one.endswith(TOO_DEEP)]
        return all(any(f"/{name}:" in one for one in told) for name in ("before", "later"))

    stage.wait(named, "both nested pods are named in the status")
    stage.cluster.create(stateful_set("db", 5, namespace=stage.work.namespace))
    stage.wait_running(5)
    assert autoscaler.requests() == [("db", 1)]
    assert autoscaler.healthy
    assert autoscaler.says("listening") == 1


def test_a_flood_of_nested_pods_leaves_memory_and_health_as_they_were(
    stage: Stage, tenant: Tenant, figure: Callable[[str], None]
) -> None:
    set_up(stage)
    autoscaler = stage.autoscaler()
    before = resident(autoscaler)
    looks = [look(autoscaler)]
    for number in range(FLOOD):
        tenant.post_pod(nested(f"flood-{number}"))
        looks.append(look(autoscaler))

    def all_named() -> bool:
        looks.append(look(autoscaler))
        return bool(autoscaler.tells("problemCount") == FLOOD)

    stage.wait(all_named, "all are named in the status")
    stage.cluster.create(stateful_set("db", 5, namespace=stage.work.namespace))
    stage.wait_running(5)
    after = resident(autoscaler)
    assert after - before < 100
    assert autoscaler.requests() == [("db", 1)]
    figure(
        f"{FLOOD} pods nested {LEVELS:,} deep: {before:.0f} MB before, {after:.0f} MB after, all"
        f" named; the longest look at its health took {max(looks):.2f} s"
    )


def look(autoscaler: Autoscaler) -> float:
    """Seconds that it takes to be told that it is well."""
    began = time.monotonic()
    assert autoscaler.healthy
    return time.monotonic() - began


def resident(autoscaler: Autoscaler) -> float:
    """Megabytes of memory."""
    told = Path(f"/proc/{autoscaler.program.pid}/status").read_text()
    return int(told.partition("VmRSS:")[2].split()[0]) / 1024


def test_nested_pods_stop_neither_the_extender_nor_a_command(
    stage: Stage, tenant: Tenant, tmp_path: Path, watchdog: Watchdog
) -> None:
    tenant.post_pod(nested("before"))
    with extender(stage.cluster, tmp_path, watchdog=watchdog) as extending:
        begun = extending.knows("Pod")
        tenant.post_pod(nested("after"))
        wait_until(lambda: extending.knows("Pod") == begun + 1, what="the second pod is known")
        assert extending.ready()
        tonnage = Path(sys.executable).with_name("tonnage")
        command = [str(tonnage), "slots", "--kubeconfig", str(stage.cluster.kubeconfig())]
        run = subprocess.run(command, capture_output=True, text=True, timeout=120.0)
        assert run.returncode == 0, run.stderr
        assert run.stderr.count(TOO_DEEP) == 2
