"""Which single replicas a second one can stand in for, and what that changes."""

from typing import Any

import msgspec
import pytest

from tests.consolidation.clusters import group, nodes
from tests.scaledown.clusters import budget
from tests.scaleup.groups import owned_by
from tonnage.api import Cluster
from tonnage.consolidation.plan import ConsolidationPlan
from tonnage.objects.kinds import KubeObject
from tonnage.objects.meta import ObjectMeta, OwnerReference
from tonnage.objects.workloads import (
    DisruptionBudgetStatus,
    PodDisruptionBudget,
    ReplicaSet,
    ReplicaSetSpec,
    StatefulSet,
)
from tonnage.testing import builders as make

DEPLOYMENT = OwnerReference(kind="Deployment", name="web", uid="d", controller=True)


def asking_for(**spec: Any) -> PodDisruptionBudget:
    """A budget of the one replica that is there."""
    made = budget(0)
    status = DisruptionBudgetStatus(current_healthy=1, desired_healthy=1, expected_pods=1)
    return msgspec.structs.replace(
        made, spec=msgspec.structs.replace(made.spec, **spec), status=status
    )


def planned(
    *more: KubeObject,
    replicas: int = 1,
    kind: str = "ReplicaSet",
    owner: OwnerReference | None = DEPLOYMENT,
    pvcs: tuple[str, ...] = (),
    surge: bool = True,
) -> ConsolidationPlan:
    """The only replica of a Deployment on a node that could be replaced by a cheaper one."""
    owners = () if owner is None else (owner,)
    meta = ObjectMeta(name="web", namespace="default", owner_references=owners)
    made: KubeObject = (
        ReplicaSet(metadata=meta, spec=ReplicaSetSpec(replicas=replicas))
        if kind == "ReplicaSet"
        else StatefulSet(metadata=ObjectMeta(name="web", namespace="default"))
    )
    pod = make.pod(
        "w", on="a", cpu="1", labels={"app": "web"}, owner=owned_by(kind, "web"), pvcs=list(pvcs)
    )
    objects = [*group("dear", "a", price="1"), *group("cheap", price="0.2"), made, pod, *more]
    options = {"surgeSingleReplicas": surge}
    return Cluster(objects).consolidate({"consolidation": options})


def goes(made: ConsolidationPlan) -> bool:
    return nodes(made)["a"].goes


def test_a_budget_that_asks_for_the_only_replica_does_not_block_it() -> None:
    assert goes(planned(asking_for(min_available=1)))
    assert not goes(planned(asking_for(min_available=1), surge=False))


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"max_unavailable": 0}, id="none may be away"),
        pytest.param({"min_available": "100%"}, id="all have to be there, however many"),
    ],
)
def test_a_budget_that_two_replicas_would_not_meet_blocks(spec: dict[str, Any]) -> None:
    assert not goes(planned(asking_for(**spec)))


def rollout() -> OwnerReference:
    return OwnerReference(kind="Rollout", name="web", uid="r", controller=True)


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({"replicas": 2}, id="there are more replicas"),
        pytest.param({"kind": "StatefulSet"}, id="it is a StatefulSet"),
        pytest.param({"owner": rollout()}, id="somebody else controls the ReplicaSet"),
    ],
)
def test_who_may_not_be_scaled_is_blocked_as_before(settings: dict[str, Any]) -> None:
    assert not goes(planned(asking_for(min_available=1), **settings))


def test_a_replica_set_that_nobody_controls_may_be_scaled() -> None:
    assert goes(planned(asking_for(min_available=1), owner=None))


@pytest.mark.parametrize(("mode", "free"), [("ReadWriteMany", True), ("ReadWriteOnce", False)])
def test_a_claim_has_to_be_one_that_two_nodes_may_share(mode: str, free: bool) -> None:
    claim = make.pvc("c", storage_class="disk", volume="pv", access_modes=[mode])
    volume = make.pv("pv", driver="disk.example.com", storage_class="disk", claim=claim)
    storage = make.storage_class("disk", "disk.example.com")
    made = planned(asking_for(min_available=1), claim, volume, storage, pvcs=("c",))
    assert goes(made) is free


def test_who_is_not_away_weighs_as_one_of_many() -> None:
    (away,), (stood_in,) = planned(surge=False).moves, planned().moves
    assert float(away.cost) == pytest.approx(5 * float(stood_in.cost), rel=1e-3)
