"""What the shipped manifests promise, and that they fit together."""

import re
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from tests.deploy.manifests import DEPLOY, container, deployment, documents, of_kind, pod_spec
from tonnage.autoscaler.config import AutoscalerConfig
from tonnage.cli import running_autoscaler
from tonnage.cli.app import COMMANDS
from tonnage.objects import codec, kinds
from tonnage.objects.meta import ObjectMeta
from tonnage.objects.pods import Pod
from tonnage.rules import opt_in
from tonnage.service import addresses

REPOSITORY = DEPLOY.parent
OVERLAYS = sorted(path.parent.name for path in DEPLOY.glob("*/kustomization.yaml"))


def labels_of(one: dict[str, Any]) -> dict[str, str]:
    labels: dict[str, str] = one["metadata"]["labels"]
    return labels


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_every_manifest_is_listed_in_its_kustomization(overlay: str) -> None:
    kustomization = yaml.safe_load((DEPLOY / overlay / "kustomization.yaml").read_text())
    listed = {
        *kustomization["resources"],
        *(one["path"] for one in kustomization.get("patches", ())),
    }
    files = {path.name for path in (DEPLOY / overlay).glob("*.yaml")}
    assert files - {"kustomization.yaml"} == {name for name in listed if name != "../base"}


@pytest.mark.parametrize("path", sorted(DEPLOY.rglob("kustomization.yaml")), ids=str)
def test_no_kustomization_is_inside_one_that_it_builds_on(path: Path) -> None:
    """kustomize takes that for a cycle."""
    listed = yaml.safe_load(path.read_text())["resources"]
    built_on = {(path.parent / name).resolve() for name in listed}
    assert not built_on & {path.parent, *path.parents}


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_no_two_manifests_are_of_the_same_object(overlay: str) -> None:
    names = [(one["kind"], one["metadata"]["name"]) for one in documents(overlay)]
    assert sorted(set(names)) == sorted(names)


def test_what_an_overlay_may_add_to_the_base_is_nothing_it_has_already() -> None:
    components = sorted(
        path.parent.name
        for path in DEPLOY.glob("*/kustomization.yaml")
        if yaml.safe_load(path.read_text())["kind"] == "Component"
    )
    assert components == [
        "gangs",
        "headroom",
        "look-ahead",
        "provisioning-requests",
        "scale-down",
        "startup-taints",
        "surge",
    ]
    added = {
        (one["kind"], one["metadata"]["name"])
        for component in components
        for one in documents(component)
    }
    for overlay in ("base", "kwok", "cluster-api"):
        assert not added & {(one["kind"], one["metadata"]["name"]) for one in documents(overlay)}


@pytest.mark.parametrize("overlay", [opt_in.EXTENDER, opt_in.SCHEDULER])
def test_whoever_enforces_the_opt_in_is_known_by_the_label_of_its_pods(overlay: str) -> None:
    made = next(
        one
        for one in documents(overlay.removeprefix("tonnage-"))
        if one["kind"] == "Deployment" and one["metadata"]["name"] == overlay
    )
    labels = made["spec"]["template"]["metadata"]["labels"]
    pod = Pod(metadata=ObjectMeta(name="x", namespace="default", labels=labels))
    assert opt_in.enforcing(pod) == f"pod default/x is {overlay.replace('-', ' ')}"


def test_the_scheduler_is_shipped_under_the_name_it_is_known_by() -> None:
    (shipped,) = of_kind("Deployment", "scheduler")
    (container,) = shipped["spec"]["template"]["spec"]["containers"]
    assert f"--scheduler-name={opt_in.SCHEDULER_NAME}" in container["args"]


def test_what_is_inside_is_told_on_the_loopback_of_the_pod_and_at_no_declared_port() -> None:
    (given,) = [one for one in container()["args"] if one.startswith("--debug-address=")]
    address = given.partition("=")[2]
    ports = [one["containerPort"] for one in container()["ports"]]
    assert (addresses.is_loopback(address), addresses.split(address)[1] in ports) == (True, False)
    assert f"http://{address}" == running_autoscaler.DEFAULT_URL


@pytest.mark.parametrize("overlay", ["kwok", "cluster-api"])
def test_the_arguments_that_an_overlay_sets_begin_with_those_of_the_base(overlay: str) -> None:
    patch = yaml.safe_load((DEPLOY / overlay / "deployment-patch.yaml").read_text())
    (patched,) = patch["spec"]["template"]["spec"]["containers"]
    base = container()["args"]
    assert patched["args"][: len(base)] == base


def test_two_replicas_run_so_that_one_can_take_over() -> None:
    assert deployment()["spec"]["replicas"] == 2


def test_one_replica_at_least_survives_voluntary_disruptions() -> None:
    (budget,) = of_kind("PodDisruptionBudget")
    assert budget["spec"]["minAvailable"] == 1


@pytest.mark.parametrize("overlay", ["base", "capacity-templates", "scheduler"])
def test_a_replica_that_is_not_ready_keeps_no_node_from_being_drained(overlay: str) -> None:
    (budget,) = of_kind("PodDisruptionBudget", overlay)
    assert budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow"


def test_deployment_and_budget_select_the_pods_of_the_template() -> None:
    (budget,) = of_kind("PodDisruptionBudget")
    labels = labels_of(deployment()["spec"]["template"])
    for one in (deployment(), budget):
        assert one["spec"]["selector"]["matchLabels"].items() <= labels.items()


def test_the_pod_runs_as_nobody_in_particular() -> None:
    context = pod_spec()["securityContext"]
    assert (context["runAsNonRoot"], context["runAsUser"] > 0) == (True, True)
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}


def test_the_container_can_neither_write_its_root_nor_gain_rights() -> None:
    assert container()["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_there_is_a_place_for_temporary_files() -> None:
    assert "/tmp" in [one["mountPath"] for one in container()["volumeMounts"]]


@pytest.mark.parametrize("probe", ["livenessProbe", "readinessProbe"])
def test_probes_ask_the_port_that_is_served(probe: str) -> None:
    ports = [one["name"] for one in container()["ports"]]
    assert container()[probe]["httpGet"]["port"] in ports


def test_requests_and_a_limit_of_memory_are_set() -> None:
    resources = container()["resources"]
    assert resources["requests"].keys() == {"cpu", "memory"}
    assert "memory" in resources["limits"]


def test_every_mount_has_its_volume() -> None:
    mounts = {one["name"] for one in container()["volumeMounts"]}
    assert mounts == {one["name"] for one in pod_spec()["volumes"]}


def test_the_configuration_that_is_mounted_exists_and_is_usable() -> None:
    (config,) = of_kind("ConfigMap")
    assert {"name": config["metadata"]["name"]} in [
        one.get("configMap") for one in pod_spec()["volumes"]
    ]
    assert "--config=/etc/tonnage/config.yaml" in container()["args"]
    msgspec.convert(yaml.safe_load(config["data"]["config.yaml"]), AutoscalerConfig)


def test_the_node_groups_of_the_kwok_overlay_are_usable() -> None:
    (groups,) = [
        one
        for one in of_kind("ConfigMap", "kwok")
        if one["metadata"]["name"] == "tonnage-node-groups"
    ]
    row = kinds.by_kind("tonnage.dev/v1alpha1", "NodeGroup")
    assert row is not None
    for text in groups["data"].values():
        for document in yaml.safe_load_all(text):
            codec.convert(document, row)


def arguments(overlay: str) -> list[str]:
    patch = DEPLOY / overlay / "deployment-patch.yaml"
    found = container()
    if patch.exists():
        (found,) = yaml.safe_load(patch.read_text())["spec"]["template"]["spec"]["containers"]
    given: list[str] = found["args"]
    return given


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_lease_and_state_are_kept_in_the_namespace_the_role_is_for(overlay: str) -> None:
    (role,) = of_kind("Role")
    assert f"--namespace={role['metadata']['namespace']}" in arguments(overlay)


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_command_knows_the_options_it_is_given(overlay: str) -> None:
    command, *options = arguments(overlay)
    known = {text for one in COMMANDS[command].load().params for text in one.opts}
    assert {option.partition("=")[0] for option in options} <= known


def test_the_files_the_image_is_built_from_exist() -> None:
    text = (DEPLOY / "Containerfile").read_text()
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", text, re.MULTILINE)
    names = [name for line in copied for name in line.split()]
    assert "requirements.lock" in names
    assert [name for name in names if not (REPOSITORY / name).exists()] == []


def test_the_image_has_what_every_provider_needs() -> None:
    project = (REPOSITORY / "pyproject.toml").read_text()
    extras = set(tomllib.loads(project)["project"]["optional-dependencies"])
    installed = re.search(r'"\.\[(.+)\]"', (DEPLOY / "Containerfile").read_text())
    assert installed is not None
    # Notebooks, and who gathers the results of a sweep, are elsewhere.
    assert set(installed[1].split(",")) == extras - {"pandas", "dask", "parquet"}


def test_the_image_has_the_user_the_pod_runs_as() -> None:
    context = pod_spec()["securityContext"]
    user = f"USER {context['runAsUser']}:{context['runAsGroup']}"
    assert user in (DEPLOY / "Containerfile").read_text().splitlines()


def test_the_image_is_tagged_with_the_version_of_the_package() -> None:
    project = (REPOSITORY / "pyproject.toml").read_text()
    version = re.search(r'^version = "(.+)"$', project, re.MULTILINE)
    kustomization = yaml.safe_load((DEPLOY / "base" / "kustomization.yaml").read_text())
    assert version is not None
    assert [one["newTag"] for one in kustomization["images"]] == [version[1]]


def test_the_namespace_admits_only_restricted_pods() -> None:
    (namespace,) = of_kind("Namespace")
    assert labels_of(namespace)["pod-security.kubernetes.io/enforce"] == "restricted"
