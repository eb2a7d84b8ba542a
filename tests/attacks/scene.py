"""Who is attacked, by whom, and where: a control plane, `tonnage run`, `tonnage extender`."""

import itertools
import json
import ssl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.attacks.targets import Target
from tests.e2e import deployed, extender_setup, manifests, scale_up
from tests.e2e.autoscaler import Autoscaler
from tests.e2e.controlplane import NO_KUBELET, ControlPlane, wait_until
from tests.e2e.extender_setup import ASKS, GATES, Extended
from tests.e2e.processes import Watchdog
from tests.e2e.scale_up import Stage
from tests.e2e.tenants import Tenant
from tests.e2e.workspace import workspace

NODES = 300
GROUP = "db"
POOL = {"pool": GROUP}
"""A label that only nodes of the group have."""
LIMIT = 5
PATIENCE = 60.0
"""Seconds until everybody has heard of pods."""


class Scene(NamedTuple):
    """`tenant` has rights in one namespace; `scheduler` is TLS with the scheduler's certificate."""

    plane: Extended
    stage: Stage
    autoscaler: Autoscaler
    tenant: Tenant
    namespace: str
    run: Target
    extender: Target
    scheduler: ssl.SSLContext
    nodes: list[str]

    @property
    def targets(self) -> tuple[Target, Target]:
        return self.run, self.extender

    def wait_known(self, pods: int) -> None:
        """Until both have heard of so many pods."""
        wait_until(
            lambda: self.plane.knows("Pod") == self.autoscaler.knows("Pod") == pods,
            what=f"{pods} pods are known",
            within=PATIENCE,
        )

    def wait_decided(self, pods: int) -> None:
        """Until `run` has decided on so many pods for which the scheduler found no node."""
        wait_until(
            lambda: self.autoscaler.tells("waitingPods") == pods,
            what=f"{pods} pods are decided on",
            within=PATIENCE,
        )

    def mark_unschedulable(self) -> None:
        """Say of the tenant's pods what the scheduler says when it finds no node."""
        kubectl = self.plane.cluster.kubectl
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        patch = json.dumps({"status": {"conditions": [condition]}})
        for name in kubectl("get", "pods", "-n", self.namespace, "-o", "name").split():
            kubectl(
                "patch", name, "-n", self.namespace, "--subresource=status", "--type=merge",
                "-p", patch,
            )  # fmt: skip

    def remove_pods(self) -> None:
        """Those of the tenant, until everybody has heard that they are gone."""
        kubectl = self.plane.cluster.kubectl
        kubectl("delete", "pods", "--all", "-n", self.namespace, *NO_KUBELET)
        self.wait_known(0)
        self.wait_decided(0)


@contextmanager
def scene(directory: Path) -> Iterator[Scene]:
    """Everything runs and is ready, beside many nodes that belong to no group."""
    with ExitStack() as stack:
        plane = stack.enter_context(extender_setup.extended(directory, "built-in-limits-on"))
        cluster = plane.cluster
        watchdog = Watchdog()
        stack.callback(watchdog.close)
        nodes = [f"node-{number}" for number in range(NODES)]
        create_nodes(cluster, nodes)
        deployed.apply(cluster)
        work = stack.enter_context(workspace(cluster, "honest"))
        stage = stack.enter_context(scale_up.stage(work, directory, watchdog=watchdog))
        group = scale_up.group(GROUP, limit=LIMIT)
        group["spec"]["template"]["node"]["metadata"]["labels"] |= POOL
        stage.groups(group)
        stage.storage()
        autoscaler = stage.autoscaler(featureGates=GATES)
        namespace = stack.enter_context(cluster.namespace("tenant"))
        anybody = ssl.create_default_context(cafile=cluster.authority)
        scheduler = ssl.create_default_context(cafile=cluster.authority)
        scheduler.load_cert_chain(*cluster.client_certificate(ASKS))
        yield Scene(
            plane=plane,
            stage=stage,
            autoscaler=autoscaler,
            tenant=Tenant(cluster, namespace),
            namespace=namespace,
            run=Target(autoscaler.program, autoscaler.port),
            extender=Target(plane.extender, plane.port, anybody),
            scheduler=scheduler,
            nodes=nodes,
        )


def create_nodes(cluster: ControlPlane, names: list[str]) -> None:
    objects = itertools.chain.from_iterable(
        (manifests.node(name), manifests.csinode(name, {scale_up.DRIVER: LIMIT})) for name in names
    )
    while part := list(itertools.islice(objects, 200)):
        cluster.create(*part)
