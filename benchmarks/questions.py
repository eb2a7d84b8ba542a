"""Pods to ask about: one of each kind that costs something different to answer."""

from collections.abc import Sequence
from typing import NamedTuple

from benchmarks.clusters import EBS_ZONE, ZONES
from benchmarks.workloads import EBS, GP3, HOSTNAME, LOCAL, LVM, ZONE
from tonnage.objects.kinds import KubeObject
from tonnage.objects.pods import Pod, PodAffinityTerm, Toleration, TopologySpreadConstraint
from tonnage.objects.storage import PersistentVolumeClaim
from tonnage.testing import builders

NAMESPACE = "team-000"


class Question(NamedTuple):
    """Would this pod fit? `objects` are the claims and volumes it needs to be asked about."""

    name: str
    pod: Pod
    objects: tuple[KubeObject, ...] = ()


def questions() -> tuple[Question, ...]:
    return (
        _plain(),
        _with_claims("two unbound claims", GP3, ("20Gi", "50Gi")),
        _with_bound_claims(),
        _with_claims("two claims on local LVM", LVM, ("100Gi", "300Gi")),
        _with_claims("two claims on static local disks", LOCAL, ("150Gi", "90Gi")),
        _spread_over_zones(),
        _apart_from_siblings(),
        _near_others(),
    )


def _plain() -> Question:
    pod = builders.pod("plain", namespace=NAMESPACE, cpu="500m", memory="1Gi")
    return Question("plain", pod)


def _with_claims(name: str, storage_class: str, sizes: Sequence[str]) -> Question:
    prefix = name.replace(" ", "-").lower()
    claims = [
        builders.pvc(
            f"{prefix}-{number}", namespace=NAMESPACE, storage_class=storage_class, size=size
        )
        for number, size in enumerate(sizes)
    ]
    return Question(name, _using(prefix, claims), tuple(claims))


def _with_bound_claims() -> Question:
    """Two volumes in the first zone, not attached anywhere."""
    objects: list[KubeObject] = []
    claims = []
    for number in range(2):
        name = f"bound-{number}"
        claim = builders.pvc(name, namespace=NAMESPACE, storage_class=GP3, volume=f"pv-{name}")
        claims.append(claim)
        objects += [
            claim,
            builders.pv(
                f"pv-{name}",
                driver=EBS,
                storage_class=GP3,
                claim=claim,
                node_affinity=builders.nodes_with(EBS_ZONE, ZONES[0]),
            ),
        ]
    return Question("two bound claims", _using("bound", claims), tuple(objects))


def _using(name: str, claims: list[PersistentVolumeClaim]) -> Pod:
    return builders.pod(
        name,
        namespace=NAMESPACE,
        cpu="500m",
        memory="1Gi",
        pvcs=[claim.metadata.name for claim in claims],
        tolerations=[Toleration(key="dedicated", operator="Exists")],
    )


def _spread_over_zones() -> Question:
    return Question(
        "spread over zones",
        builders.pod(
            "spread",
            namespace=NAMESPACE,
            labels={"tier": "frontend"},
            cpu="500m",
            spread=[
                TopologySpreadConstraint(
                    max_skew=1,
                    topology_key=ZONE,
                    label_selector=builders.selecting({"tier": "frontend"}),
                )
            ],
        ),
    )


def _apart_from_siblings() -> Question:
    term = PodAffinityTerm(
        topology_key=HOSTNAME, label_selector=builders.selecting({"tier": "storage"})
    )
    labels = {"tier": "storage"}
    pod = builders.pod("apart", namespace=NAMESPACE, labels=labels, cpu="500m", apart=[term])
    return Question("anti-affinity by host", pod)


def _near_others() -> Question:
    term = PodAffinityTerm(
        topology_key=ZONE, label_selector=builders.selecting({"tier": "frontend"})
    )
    return Question("affinity by zone", builders.pod("near", namespace=NAMESPACE, near=[term]))
