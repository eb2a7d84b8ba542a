"""The shipped manifests grant what the controller uses, and nothing else."""

from tests.deploy.manifests import Right, of_kind, rights
from tests.deploy.usage import rights_used
from tonnage.capacity.program import LEASE_NAME
from tonnage.cli.app import COMMANDS

OVERLAY = "capacity-templates"
FOLLOWED = {
    Right(group, resource, verb)
    for group, resource in (
        ("", "nodes"),
        ("", "configmaps"),
        ("storage.k8s.io", "storageclasses"),
        ("storage.k8s.io", "csidrivers"),
        ("storage.k8s.io", "csistoragecapacities"),
    )
    for verb in ("list", "watch")
}


def arguments() -> list[str]:
    (deployment,) = of_kind("Deployment", OVERLAY)
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    return list(container["args"])


def test_every_right_that_is_used_is_granted_and_no_other() -> None:
    used = rights_used("capacity", "cluster/events.py", "cluster/lease.py")
    assert Right("storage.k8s.io", "csistoragecapacities", "delete") in used
    assert set(rights(OVERLAY)) == used | FOLLOWED


def test_capacity_objects_are_written_in_one_namespace_only() -> None:
    (role,) = of_kind("ClusterRole", OVERLAY)
    verbs = {
        verb
        for rule in role["rules"]
        if "csistoragecapacities" in rule["resources"]
        for verb in rule["verbs"]
    }
    assert verbs == {"list", "watch"}


def test_the_names_in_the_role_are_those_that_are_used() -> None:
    (role,) = of_kind("Role", OVERLAY)
    named = {name for rule in role["rules"] for name in rule.get("resourceNames", ())}
    (config_map,) = of_kind("ConfigMap", OVERLAY)
    assert named == {LEASE_NAME, config_map["metadata"]["name"]}
    assert f"--node-groups-configmap={config_map['metadata']['name']}" in arguments()


def test_the_command_knows_its_options_and_the_namespace_of_the_role() -> None:
    command, *options = arguments()
    known = {text for one in COMMANDS[command].load().params for text in one.opts}
    assert {option.partition("=")[0] for option in options} <= known
    (role,) = of_kind("Role", OVERLAY)
    assert f"--namespace={role['metadata']['namespace']}" in options


def test_roles_are_bound_to_the_account_of_the_deployment() -> None:
    (account,) = of_kind("ServiceAccount", OVERLAY)
    (deployment,) = of_kind("Deployment", OVERLAY)
    name = account["metadata"]["name"]
    assert deployment["spec"]["template"]["spec"]["serviceAccountName"] == name
    bindings = [*of_kind("ClusterRoleBinding", OVERLAY), *of_kind("RoleBinding", OVERLAY)]
    assert [[one["name"] for one in binding["subjects"]] for binding in bindings] == [[name]] * 2


def test_what_the_base_also_ships_is_the_same_there() -> None:
    """Applying both must not make them fight over the namespace."""
    assert of_kind("Namespace", OVERLAY) == of_kind("Namespace")
