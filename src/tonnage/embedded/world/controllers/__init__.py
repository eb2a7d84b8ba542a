"""Workload controllers: what makes pods of Deployments, StatefulSets, DaemonSets and Jobs.

One module each (`deployments`, `replicasets`, `statefulsets`, `daemonsets`, `jobs`), on the
workloads of `workload_records` and with the pods of `pod_control`: enough of the real ones for
clusters to live on: pods are made, made again when they or their node are gone, updated, and
counted.
"""

from tonnage.cluster.mirror import Mirror
from tonnage.embedded.world.caches import WorldCaches
from tonnage.embedded.world.controllers import workload_records
from tonnage.embedded.world.controllers.daemonsets import DaemonSets
from tonnage.embedded.world.controllers.deployments import Deployments
from tonnage.embedded.world.controllers.jobs import Jobs
from tonnage.embedded.world.controllers.replicasets import ReplicaSets
from tonnage.embedded.world.controllers.statefulsets import StatefulSets
from tonnage.embedded.world.keyed_tasks import WorldContext
from tonnage.embedded.world.pod_index import OwnedPods

__all__ = ["begin"]


def begin(context: WorldContext, caches: WorldCaches, mirror: Mirror) -> None:
    """Let all of them live on the mirror's caches; before it runs."""
    owned = OwnedPods(caches.pods, context.clock)
    replica_sets = mirror.add(workload_records.REPLICA_SETS)
    ReplicaSets(context, owned=owned, replica_sets=replica_sets)
    deployments = mirror.add(workload_records.DEPLOYMENTS)
    Deployments(context, owned=owned, replica_sets=replica_sets, deployments=deployments)
    sets = mirror.add(workload_records.STATEFUL_SETS)
    StatefulSets(context, owned=owned, claims=caches.claims, sets=sets)
    daemon_sets = mirror.add(workload_records.DAEMON_SETS)
    DaemonSets(context, owned=owned, nodes=caches.nodes, sets=daemon_sets)
    Jobs(context, owned=owned, jobs=mirror.add(workload_records.JOBS))
