"""Groups whose nodes are all young, whose provider lists no driver, and a state that is lost."""

import msgspec

from tonnage.embedded.cloud import CloudBehaviour
from tonnage.embedded.world import Delay, DriverBehaviour, WorldBehaviour
from tonnage.objects.scenarios import GroupTemplate, NodeGroup
from tonnage.simulation import random_scenarios, runner, scenario
from tonnage.simulation.scenario import ScenarioAction, Simulation, Spec, Tree
from tonnage.testing import builders
from tonnage.testing.provider_contract import declared

DRIVER = "ebs.csi.aws.com"
POOL = "example.com/pool"
STATE = scenario.Target(kind="ConfigMap", name="tonnage-state", namespace="kube-system")


def a_group(name: str, *, nodes: int) -> NodeGroup:
    """Of a type whose limit the catalogue knows; its template says nothing of drivers."""
    labels = {POOL: name, "node.kubernetes.io/instance-type": "m5.large"}
    node = builders.node("t", labels=labels, cpu="8")
    made = declared(name, template=GroupTemplate(node=node), max_size=10)
    return msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, target_size=nodes))


def driver_daemon() -> Tree:
    """A DaemonSet that brings the driver to every node, as its registrar mounts its directory."""
    labels = {"app": "driver"}
    directory = {"name": "plugin", "hostPath": {"path": f"/var/lib/kubelet/plugins/{DRIVER}/"}}
    pod = {"containers": [{"name": "registrar"}], "volumes": [directory]}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "driver", "namespace": "kube-system"},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def losing_the_state(*others: Tree, elsewhere: int, at: float) -> Simulation:
    """Ten databases for the group `db`, whose node has no driver yet when the state is lost."""
    workload = random_scenarios.workload("db", {DRIVER: "1Gi"})
    workload["spec"]["template"]["spec"]["nodeSelector"] = {POOL: "db"}
    spec = Spec(
        duration=at + 900,
        world=WorldBehaviour(
            start=Delay(5.0, 5.0),
            drivers=(DriverBehaviour(name=DRIVER, limit=25, registers_after=Delay(200.0, 200.0)),),
        ),
        cloud=CloudBehaviour(start=Delay(30.0, 30.0)),
        script=(
            ScenarioAction(
                at=at, scale=scenario.Scaling(kind="StatefulSet", name="db", replicas=10)
            ),
            ScenarioAction(at=at + 60, delete=(STATE,)),
            ScenarioAction(at=at + 60, restart="autoscaler"),
        ),
    )
    return Simulation(
        name="young",
        spec=spec,
        groups=(a_group("db", nodes=0), a_group("web", nodes=elsewhere)),
        objects=(
            *random_scenarios.storage(DRIVER, preventPodSchedulingIfMissing=True),
            workload,
            *others,
        ),
    )


def test_a_node_that_waits_for_the_driver_which_nodes_elsewhere_have_is_not_bought_twice() -> None:
    timeline = runner.simulate(losing_the_state(elsewhere=2, at=1800))
    assert [(one.group, one.nodes) for one in timeline.decisions] == [("db", 1)]
    assert timeline.summary.pending_at_end == 0


def test_nor_where_those_nodes_are_young_too() -> None:
    timeline = runner.simulate(losing_the_state(elsewhere=2, at=300))
    assert [(one.group, one.nodes) for one in timeline.decisions] == [("db", 1)]


def test_nor_where_there_is_no_other_node_and_a_daemon_set_brings_the_driver() -> None:
    timeline = runner.simulate(losing_the_state(driver_daemon(), elsewhere=0, at=300))
    assert [(one.group, one.nodes) for one in timeline.decisions] == [("db", 1)]
    assert timeline.summary.pending_at_end == 0
