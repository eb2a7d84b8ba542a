"""Two pods that have to change places before a third one fits beside them, with no room to do so.

`first` fills node a, `second` has all memory of node b, and `third` is alone on the dear node c. If
the first two change places, the third fits beside the second. Neither has a place while the other
is there, so that a spare node is bought, on which one of them stops.
"""

from functools import cache
from pathlib import Path

import pytest

from tests.simulation.scenarios import EXAMPLES
from tests.simulation.test_consolidation_told import told
from tonnage.embedded.apiserver.store import Collection, Occurrence
from tonnage.groups.passing_taints import MAKING_ROOM
from tonnage.simulation import runner, scenario_files
from tonnage.simulation.ensemble import Ensemble

GROUP = """
  - apiVersion: tonnage.dev/v1alpha1
    kind: NodeGroup
    metadata: {{name: {name}}}
    spec:
      minSize: {least}
      maxSize: {most}
      targetSize: {least}
      pricePerHour: "{price}"
      template:
        node:
          status:
            capacity: {{cpu: "{cpu}", memory: {memory}Gi, pods: "110"}}
            allocatable: {{cpu: "{cpu}", memory: {memory}Gi, pods: "110"}}
        csiNode:
          spec: {{drivers: [{{name: ebs.csi.aws.com, nodeID: t, allocatable: {{count: 2}}}}]}}
"""

SET = """
  - apiVersion: apps/v1
    kind: StatefulSet
    metadata: {{name: {name}}}
    spec:
      replicas: 0
      serviceName: {name}
      selector: {{matchLabels: {{app: {name}}}}}
      template:
        metadata: {{labels: {{app: {name}}}}}
        spec:
          containers:
          - {{name: c, resources: {{requests: {{cpu: "{cpu}", memory: {memory}Gi}}}}}}
      volumeClaimTemplates:
      - metadata: {{name: data}}
        spec:
          accessModes: [ReadWriteOnce]
          storageClassName: fast
          resources: {{requests: {{storage: 10Gi}}}}
"""

SIMULATION = (
    """
apiVersion: tonnage.dev/v1alpha1
kind: Simulation
metadata: {name: spare}
spec:
  duration: 22m
  options:
    expander: price
    scaleDownEnabled: true
    scanInterval: 20
    consolidation: {enabled: true, minAge: 2m, horizon: 48h, budgets: [{nodes: 1}]}
  world:
    start: [20s, 40s]
    detach: [5s, 10s]
    podStop: [2s, 5s]
    drivers: [{name: ebs.csi.aws.com, limit: 2}]
  cloud: {start: [30s, 40s]}
  files: [STORAGE]
  objects:
  - apiVersion: apps/v1
    kind: Deployment
    metadata: {name: second}
    spec:
      replicas: 0
      selector: {matchLabels: {app: second}}
      template:
        metadata: {labels: {app: second}}
        spec:
          containers:
          - {name: c, resources: {requests: {cpu: "1", memory: 4Gi}}}
"""
    + GROUP.format(name="a", least=1, most=1, price="0.3", cpu=3, memory=8)
    + GROUP.format(name="b", least=0, most=1, price="0.3", cpu=3, memory=4)
    + GROUP.format(name="c", least=0, most=2, price="1.0", cpu=2, memory=8)
    + SET.format(name="first", cpu="3", memory=1)
    + SET.format(name="third", cpu="2", memory=4)
    + """
  script:
  - {at: 10s, scale: {kind: StatefulSet, name: first, replicas: 1}}
  - {at: 2m, scale: {kind: Deployment, name: second, replicas: 1}}
  - {at: 5m, scale: {kind: StatefulSet, name: third, replicas: 1}}
RESTART"""
)


class Course:
    """Where each pod began to run, in order, and which nodes were kept free for a while."""

    def __init__(self) -> None:
        self.places: dict[str, list[str]] = {}
        self.marked: set[str] = set()
        self.unmarked: set[str] = set()

    def listen(self, ensemble: Ensemble) -> None:
        ensemble.accounts.listeners.append(self._take)

    def _take(self, collection: Collection, occurrence: Occurrence) -> None:
        before, after = occurrence.before, occurrence.after
        if collection.kind.plural == "pods" and after is not None:
            node = after.tree["spec"].get("nodeName", "")
            if node and (before is None or not before.tree["spec"].get("nodeName")):
                app = after.tree["metadata"]["labels"]["app"]
                self.places.setdefault(app, []).append(node.rpartition("-")[0])
        if collection.kind.plural == "nodes" and before is not None and after is not None:
            was, now = (
                any(taint["key"] == MAKING_ROOM for taint in one.tree["spec"].get("taints", ()))
                for one in (before, after)
            )
            if was != now:
                (self.marked if now else self.unmarked).add(occurrence.subject.name)


FULL = "{at: 12m30s, setLimit: {driver: ebs.csi.aws.com, nodes: ['b-*'], limit: 0}}"
"""Node b takes no volume any more: the first pod cannot go there."""


@cache
def played(action: str = "") -> tuple[Ensemble, Course]:
    import tempfile

    text = SIMULATION.replace("STORAGE", str(EXAMPLES / "parts" / "storage.yaml"))
    line = f"  - {action}" if action else ""
    course = Course()
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "spare.yaml"
        file.write_text(text.replace("RESTART", line))
        simulation = scenario_files.read(file)
    return runner.played(simulation, prepare=course.listen), course


def test_pods_change_places_by_way_of_a_spare_node_and_the_dear_one_goes() -> None:
    ensemble, course = played()
    summary = ensemble.timeline().summary
    assert (summary.nodes_at_end, summary.pending_at_end) == (2, 0)
    assert course.places == {"first": ["a", "b"], "second": ["b", "c", "a"], "third": ["c", "a"]}
    deeds = [(one.deed, one.group) for one in ensemble.decisions if one.at > 400]
    assert deeds == [("increase", "c"), ("delete", "c"), ("delete", "c")]


def test_a_node_whose_pods_make_room_takes_none_meanwhile_and_is_free_afterwards() -> None:
    _, course = played()
    assert len(course.marked) == 3
    assert course.unmarked == course.marked


@pytest.mark.parametrize("at", ["12m58s", "13m2s"])
def test_who_is_killed_in_the_middle_goes_on_after_the_restart(at: str) -> None:
    ensemble, course = played(f"{{at: {at}, restart: autoscaler}}")
    assert ensemble.timeline().summary.nodes_at_end == 2
    assert course.places == {"first": ["a", "b"], "second": ["b", "c", "a"], "third": ["c", "a"]}
    assert course.unmarked == course.marked


def test_where_a_place_is_gone_by_then_the_step_is_given_up_and_nobody_is_left_out() -> None:
    ensemble, course = played(FULL)
    (message,) = told(ensemble, "ConsolidationGivenUp")
    assert "pod default/first-0 no longer fits on node b-" in message
    assert course.places["first"] == ["a"]
    assert course.unmarked == course.marked
    assert ensemble.timeline().summary.pending_at_end == 0
