"""The shipped roles grant what the code uses, and nothing else."""

import pytest

from tests.deploy.manifests import Right, of_kind, rights
from tests.deploy.usage import (
    BASE,
    HEADROOM,
    KWOK,
    PROVISIONING,
    SCALE_DOWN,
    STARTUP_TAINTS,
    SURGE,
    rights_to_follow,
    rights_used,
)
from tonnage.autoscaler import state
from tonnage.autoscaler.config import AutoscalerConfig
from tonnage.autoscaler.program import AutoscalerSettings
from tonnage.autoscaler.scaledown import workloads
from tonnage.groups import capacity_buffers, look_ahead
from tonnage.objects.buffers import CapacityBuffer, PodTemplate
from tonnage.objects.gangs import CoschedulingPodGroup, WorkloadPodGroup
from tonnage.objects.provisioning_requests import ProvisioningRequest
from tonnage.providers import kwok
from tonnage.traces import recorder


def test_the_code_that_is_read_for_rights_uses_some() -> None:
    assert Right("coordination.k8s.io", "leases", "update") in rights_used(*BASE)
    assert Right("", "nodes", "delete") in rights_used(*KWOK)


def test_every_right_that_is_used_is_granted_and_no_other() -> None:
    assert set(rights("base")) == rights_used(*BASE) | rights_to_follow()


def test_the_kwok_overlay_adds_what_its_provider_uses_and_no_more() -> None:
    used = rights_used(*BASE, *KWOK) | rights_to_follow()
    assert set(rights("kwok")) == used


def test_the_component_for_startup_taints_grants_what_taking_them_off_uses_and_no_more() -> None:
    assert set(rights("startup-taints")) == rights_used(STARTUP_TAINTS)
    assert not set(rights("startup-taints")) & set(rights("kwok"))


def test_the_component_for_scale_down_grants_what_giving_nodes_back_uses_and_no_more() -> None:
    used = rights_used(SCALE_DOWN) | rights_to_follow(workloads.KINDS)
    assert set(rights("scale-down")) == used - set(rights("base"))


def test_the_component_for_second_replicas_grants_what_starting_them_uses_and_no_more() -> None:
    assert set(rights("surge")) == rights_used(SURGE)
    assert not set(rights("surge")) & (set(rights("kwok")) | set(rights("scale-down")))


def test_the_component_for_headroom_grants_what_buffers_use_and_no_more() -> None:
    followed = (CapacityBuffer, PodTemplate, *capacity_buffers.SCALABLE.values())
    assert set(rights("headroom")) == rights_used(HEADROOM) | rights_to_follow(followed)


def test_the_component_for_gangs_lets_pod_groups_be_read_and_nothing_else() -> None:
    assert set(rights("gangs")) == rights_to_follow((WorkloadPodGroup, CoschedulingPodGroup))


def test_the_component_for_looking_ahead_lets_its_kinds_be_followed_and_nothing_else() -> None:
    assert set(rights("look-ahead")) == rights_to_follow(look_ahead.KINDS)


def test_the_role_of_recording_lets_what_is_recorded_be_followed_and_nothing_else() -> None:
    assert set(rights("record")) == rights_to_follow(recorder.RECORDED)


def test_the_component_for_provisioning_requests_grants_what_they_use_and_no_more() -> None:
    followed = rights_to_follow((ProvisioningRequest, PodTemplate))
    assert set(rights("provisioning-requests")) == rights_used(PROVISIONING) | followed


@pytest.mark.parametrize("who", ["scheduler", "extender"])
def test_who_schedules_may_read_bookings_and_change_nothing_of_them(who: str) -> None:
    part = f"{who}/bookings"
    assert set(rights(part)) == rights_to_follow((ProvisioningRequest, PodTemplate))
    (binding,) = of_kind("ClusterRoleBinding", part)
    (role,) = of_kind("ClusterRole", part)
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert [one["name"] for one in binding["subjects"]] == [f"tonnage-{who}"]
    assert not set(rights(part)) & set(rights(who))


def test_nothing_is_granted_by_asterisk() -> None:
    assert [right for right in rights("kwok") if "*" in "".join(right)] == []


def test_objects_of_a_namespace_are_changed_only_by_name() -> None:
    loose = [
        rule
        for role in of_kind("Role", "kwok")
        for rule in role["rules"]
        if "resourceNames" not in rule and rule["verbs"] != ["create"]
    ]
    assert loose == []


def test_the_names_in_the_roles_are_those_the_code_uses() -> None:
    named = {
        (resource, name)
        for role in of_kind("Role", "kwok")
        for rule in role["rules"]
        for resource in rule["resources"]
        for name in rule.get("resourceNames", ())
    }
    assert named == {
        ("leases", AutoscalerSettings(identity="").lease_name),
        ("configmaps", state.NAME),
        ("configmaps", AutoscalerConfig().status_config_map_name),
        ("configmaps", kwok.LEDGER),
        ("configmaps", "tonnage-node-groups"),
    }


def test_every_role_is_bound_to_the_account_of_the_deployment() -> None:
    parts = (
        "kwok",
        "startup-taints",
        "scale-down",
        "surge",
        "headroom",
        "look-ahead",
        "gangs",
        "provisioning-requests",
    )
    kinds = ("ClusterRoleBinding", "RoleBinding")
    bindings = [one for part in parts for kind in kinds for one in of_kind(kind, part)]
    roles = [
        one for part in parts for kind in ("ClusterRole", "Role") for one in of_kind(kind, part)
    ]
    account = {"kind": "ServiceAccount", "name": "tonnage", "namespace": "tonnage-system"}
    assert all(binding["subjects"] == [account] for binding in bindings)
    assert sorted((one["roleRef"]["kind"], one["roleRef"]["name"]) for one in bindings) == sorted(
        (one["kind"], one["metadata"]["name"]) for one in roles
    )
