"""What Tonnage says of a waiting pod is what kube-scheduler says of it, word for word.

Each case makes a small cluster; the scheduler writes its reasons into the pod, and the model is
asked about the same objects, read back through our client.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import pytest

from tests.e2e import manifests
from tests.e2e.connections import connected
from tests.e2e.controlplane import FEATURE_GATES, ControlPlane, wait_until
from tests.e2e.manifests import Manifest
from tests.e2e.workspace import Workspace
from tonnage.api import Cluster
from tonnage.cluster.client import Client
from tonnage.objects import kinds, scenarios
from tonnage.objects.kinds import KubeObject

DRIVER = "disk.example.com"

Case: TypeAlias = Callable[[Workspace], list[Manifest]]


async def everything(client: Client) -> list[KubeObject]:
    ours = scenarios.API_VERSION.partition("/")[0]
    served: list[type[Any]] = [
        row.type for row in kinds.ALL if row.group != ours and not row.optional
    ]
    listings = [await client.list(kind) for kind in served]
    return [obj for listing in listings for obj in listing.items]


def tonnage_says(cluster: ControlPlane, pod: str) -> str:
    async def ask() -> str:
        async with connected(cluster.kubeconfig()) as client:
            model = Cluster(
                await everything(client),
                kubernetes_version=await client.version(),
                feature_gates=FEATURE_GATES,
            )
        return model.explain(pod).summary

    return asyncio.run(ask())


def agree(theirs: str, ours: str) -> bool:
    """Past its reasons, the scheduler goes on about preemption; a model of filters does not."""
    return theirs == ours or theirs.startswith(f"{ours} ")


def disk(work: Workspace, *, opt_in: bool | None = None) -> list[Manifest]:
    """A driver, its class, and an unbound claim `data`."""
    return [
        manifests.csidriver(DRIVER, opt_in=opt_in),
        manifests.storage_class("disk", DRIVER),
        manifests.claim("data", "disk", namespace=work.namespace),
    ]


def bound(work: Workspace, claim: str) -> list[Manifest]:
    """A claim and the volume it is bound to."""
    name = work.name(claim)
    asked = manifests.claim(claim, "disk", namespace=work.namespace, volume=name)
    # The volume first: a claim for one that is not there yet is looked at again much later.
    return [manifests.volume(name, "disk", driver=DRIVER, claim=asked), asked]


def asking(work: Workspace, **wishes: object) -> Manifest:
    return manifests.pod("asked", namespace=work.namespace, **wishes)  # type: ignore[arg-type]


def too_little_cpu(work: Workspace) -> list[Manifest]:
    return [
        manifests.node("small-1", cpu="1"),
        manifests.node("small-2", cpu="2"),
        asking(work, cpu="3"),
    ]


def taints_and_selectors(work: Workspace) -> list[Manifest]:
    taint = {"key": "dedicated", "value": "db", "effect": "NoSchedule"}
    return [
        manifests.node("tainted", labels={"tier": "db"}, taints=[taint]),
        manifests.node("unlabelled"),
        asking(work, nodeSelector={"tier": "db"}),
    ]


def driver_missing(work: Workspace) -> list[Manifest]:
    return [
        *disk(work, opt_in=True),
        manifests.node("other-driver"),
        manifests.csinode("other-driver", {"other.example.com": 5}),
        manifests.node("no-csinode"),
        asking(work, claims=["data"]),
    ]


def slots_taken(work: Workspace) -> list[Manifest]:
    return [
        *disk(work),
        *bound(work, "taken"),
        manifests.node("full"),
        manifests.csinode("full", {DRIVER: 1}),
        manifests.node("none"),
        manifests.csinode("none", {DRIVER: 0}),
        manifests.pod("holder", namespace=work.namespace, claims=["taken"], nodeName="full"),
        asking(work, claims=["data"]),
    ]


def a_reason_each(work: Workspace) -> list[Manifest]:
    taint = {"key": "dedicated", "effect": "NoExecute"}
    return [
        *disk(work, opt_in=True),
        manifests.node("without-driver"),
        manifests.csinode("without-driver"),
        manifests.node("without-slots"),
        manifests.csinode("without-slots", {DRIVER: 0}),
        manifests.node("too-small", cpu="50m"),
        manifests.csinode("too-small", {DRIVER: 9}),
        manifests.node("tainted", taints=[taint]),
        asking(work, claims=["data"]),
    ]


def claim_missing(work: Workspace) -> list[Manifest]:
    return [manifests.node("any"), asking(work, claims=["absent"])]


def port_taken(work: Workspace) -> list[Manifest]:
    def listening(name: str, **spec: object) -> Manifest:
        made = manifests.pod(name, namespace=work.namespace, **spec)  # type: ignore[arg-type]
        made["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 8080}]
        return made

    return [
        manifests.node("busy"),
        listening("holder", nodeName="busy"),
        listening("asked"),
    ]


def kept_apart(work: Workspace) -> list[Manifest]:
    term = {
        "labelSelector": {"matchLabels": {"app": "db"}},
        "topologyKey": "kubernetes.io/hostname",
    }
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return [
        manifests.node("taken"),
        manifests.pod("holder", namespace=work.namespace, labels={"app": "db"}, nodeName="taken"),
        asking(work, labels={"app": "db"}, affinity=apart),
    ]


def gated(work: Workspace) -> list[Manifest]:
    return [manifests.node("any"), asking(work, schedulingGates=[{"name": "example.com/wait"}])]


CASES = [
    too_little_cpu,
    taints_and_selectors,
    driver_missing,
    slots_taken,
    a_reason_each,
    claim_missing,
    port_taken,
    kept_apart,
    gated,
]


def both_say_the_same(work: Workspace, case: Case, heard: Callable[[], Iterable[str]]) -> None:
    """Make the cluster of a case, last the pod; what is `heard` of it is what Tonnage says."""
    *world, asked = case(work)
    work.create(*world)
    work.create(asked)
    ours = ""

    def same() -> bool:
        """Asked anew each time: controllers may have come to the objects in between."""
        nonlocal ours
        ours = tonnage_says(work.cluster, f"{work.namespace}/asked")
        return any(agree(theirs, ours) for theirs in heard())

    # The scheduler may have looked before it heard of every object, and looks again when it has.
    wait_until(
        same,
        what="both say the same",
        late=lambda: f"tonnage:        {ours}\nkube-scheduler: {' | '.join(heard())}",
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_the_reasons_are_those_in_the_status_of_the_pod(work: Workspace, case: Case) -> None:
    both_say_the_same(work, case, lambda: [work.scheduler_says("asked")])


@pytest.mark.parametrize("case", [driver_missing, slots_taken], ids=lambda case: case.__name__)
def test_the_reasons_are_those_of_the_event(work: Workspace, case: Case) -> None:
    both_say_the_same(work, case, lambda: work.events("asked", reason="FailedScheduling"))
