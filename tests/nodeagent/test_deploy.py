"""The shipped manifests grant what the agent uses, and nothing else."""

import pytest
import yaml

from tests.deploy.manifests import Manifest, Right, of_kind, rights
from tonnage.cli.app import COMMANDS
from tonnage.nodeagent.config import NodeAgentConfig
from tonnage.service import config_file

OVERLAY = "node-agent"
FOLLOWED = (
    ("", "nodes"),
    ("storage.k8s.io", "csidrivers"),
    ("storage.k8s.io", "csinodes"),
    ("storage.k8s.io", "volumeattachments"),
)


def pod_spec() -> Manifest:
    (daemonset,) = of_kind("DaemonSet", OVERLAY)
    spec: Manifest = daemonset["spec"]["template"]["spec"]
    return spec


def container() -> Manifest:
    (found,) = pod_spec()["containers"]
    return dict(found)


def test_it_may_follow_four_kinds_and_write_limits_and_events() -> None:
    followed = {Right(group, name, verb) for group, name in FOLLOWED for verb in ("list", "watch")}
    assert set(rights(OVERLAY)) == followed | {
        Right("", "nodes/status", "patch"),
        Right("storage.k8s.io", "csinodes", "patch"),
        Right("", "events", "create"),
        Right("", "events", "patch"),
    }


def test_the_policy_is_about_everything_of_nodes_that_the_role_lets_it_write() -> None:
    (policy,) = of_kind("ValidatingAdmissionPolicy", OVERLAY)
    held = {
        resource
        for rule in policy["spec"]["matchConstraints"]["resourceRules"]
        for resource in rule["resources"]
    }
    written = {one.resource for one in rights(OVERLAY) if one.verb == "patch"}
    assert held == written - {"events"}


def test_the_policy_names_the_account_of_the_daemonset() -> None:
    (policy,) = of_kind("ValidatingAdmissionPolicy", OVERLAY)
    (account,) = of_kind("ServiceAccount", OVERLAY)
    meta = account["metadata"]
    assert pod_spec()["serviceAccountName"] == meta["name"]
    (condition,) = policy["spec"]["matchConditions"]
    user = f"system:serviceaccount:{meta['namespace']}:{meta['name']}"
    assert condition["expression"] == f"request.userInfo.username == '{user}'"


def test_the_policy_denies() -> None:
    (binding,) = of_kind("ValidatingAdmissionPolicyBinding", OVERLAY)
    (policy,) = of_kind("ValidatingAdmissionPolicy", OVERLAY)
    assert binding["spec"] == {
        "policyName": policy["metadata"]["name"],
        "validationActions": ["Deny"],
    }


def test_the_command_knows_its_options() -> None:
    command, *options = container()["args"]
    known = {text for one in COMMANDS[command].load().params for text in one.opts}
    assert {option.partition("=")[0] for option in options} <= known


def test_the_configuration_is_usable() -> None:
    (config_map,) = of_kind("ConfigMap", OVERLAY)
    text = config_map["data"]["config.yaml"]
    assert (
        config_file.parse(text.encode(), NodeAgentConfig, where="config.yaml", given={})
        == NodeAgentConfig()
    )
    assert yaml.safe_load(text)["kind"] == "NodeAgentConfig"


def test_every_mount_has_its_volume() -> None:
    mounts = {one["name"] for one in container()["volumeMounts"]}
    assert mounts == {one["name"] for one in pod_spec()["volumes"]}


def test_nothing_of_the_host_can_be_written() -> None:
    hosts = {one["name"] for one in pod_spec()["volumes"] if "hostPath" in one}
    writable = {one["name"] for one in container()["volumeMounts"] if not one.get("readOnly")}
    assert hosts.isdisjoint(writable)


def test_the_sockets_are_where_the_host_has_them() -> None:
    paths = {
        one["name"]: one["hostPath"]["path"] for one in pod_spec()["volumes"] if "hostPath" in one
    }
    mounted = {one["name"]: one["mountPath"] for one in container()["volumeMounts"]}
    for name in ("registrations", "plugins"):
        assert mounted[name] == paths[name]


@pytest.mark.parametrize("part", ["sys", "proc"])
def test_the_machine_is_below_the_root_that_is_named(part: str) -> None:
    mounted = {one["name"]: one["mountPath"] for one in container()["volumeMounts"]}
    (root,) = (one.partition("=")[2] for one in container()["args"] if "--host-root" in one)
    assert mounted[part] == f"{root}/{part}"


def test_it_is_root_without_a_capability_and_cannot_gain_one() -> None:
    assert container()["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_it_runs_on_every_node_whatever_its_taints() -> None:
    assert pod_spec()["tolerations"] == [{"operator": "Exists"}]
