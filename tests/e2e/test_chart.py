"""The chart as Helm renders it: valid, least in rights, and the same as the kustomize parts."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.chart.helm import (
    CHART,
    EVERYTHING,
    NAMESPACE,
    REPOSITORY,
    Manifest,
    attempt,
    helm,
    only,
    program,
    render,
    required,
)
from tests.deploy.manifests import documents
from tests.migration.test_golden import CASES, migrated

pytestmark = required("helm")

PARTS = ["kwok", "scheduler", "extender", "capacity-templates", "node-agent"]


@pytest.fixture(scope="module")
def everything() -> list[Manifest]:
    return render(EVERYTHING)


def test_helm_has_no_complaint() -> None:
    assert helm("lint", "--strict", str(CHART)).returncode == 0


@pytest.mark.parametrize("version", ["1.34.0", "1.35.0", "1.36.0", "1.37.0"])
def test_every_manifest_is_valid(version: str) -> None:
    validator = pytest.importorskip("kubernetes_validate")
    for manifest in render(EVERYTHING, kubernetes=version):
        if (
            "coreos.com" not in manifest["apiVersion"]
            and "cert-manager" not in manifest["apiVersion"]
        ):
            validator.validate(manifest, version.rpartition(".")[0], strict=True)


def test_no_two_manifests_are_of_the_same_object(everything: list[Manifest]) -> None:
    names = [
        (one["kind"], one["metadata"].get("namespace"), one["metadata"]["name"])
        for one in everything
    ]
    assert sorted(names, key=str) == sorted(set(names), key=str)


def rights(manifests: list[Manifest], account: str) -> set[tuple[str, ...]]:
    """Every verb on every resource that the account has, with scope and name."""
    bound = {
        (one["kind"].removesuffix("Binding"), one["roleRef"]["name"])
        for one in manifests
        if one["kind"].endswith("RoleBinding") and one["subjects"][0]["name"] == account
    }
    return {
        (role["metadata"].get("namespace", ""), group, resource, name, verb)
        for role in manifests
        if (role["kind"], role["metadata"]["name"]) in bound
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for name in rule.get("resourceNames", [""])
        for verb in rule["verbs"]
    }


@pytest.mark.parametrize("part", PARTS)
def test_an_account_has_the_rights_it_has_with_kustomize(
    everything: list[Manifest], part: str
) -> None:
    account, expected = f"tonnage-{part}", documents(part)
    if part == "kwok":
        account, expected = "tonnage", [*expected, *documents("gangs")]  # the chart has both
    assert rights(everything, account) == rights(expected, account)


def test_cluster_api_brings_the_rights_of_its_part() -> None:
    made = render({"autoscaler": {"provider": "clusterapi"}})
    expected = [*documents("cluster-api"), *documents("gangs")]
    assert rights(made, "tonnage") == rights(expected, "tonnage")


@pytest.mark.parametrize(
    ("setting", "part"),
    [
        ("removeStartupTaints", "startup-taints"),
        ("scaleDownEnabled", "scale-down"),
        ("capacityBuffers", "headroom"),
        ("lookAhead", "look-ahead"),
        ("provisioningRequests", "provisioning-requests"),
    ],
)
def test_rights_of_a_part_come_with_its_setting(setting: str, part: str) -> None:
    made = render({"autoscaler": {"config": {setting: True}}})
    expected = rights([*documents("base"), *documents("gangs"), *documents(part)], "tonnage")
    assert rights(made, "tonnage") == expected


def test_rights_to_scale_come_with_second_replicas() -> None:
    config = {"scaleDownEnabled": True, "consolidation": {"surgeSingleReplicas": True}}
    made = render({"autoscaler": {"config": config}})
    parts = ("base", "gangs", "scale-down", "surge")
    expected = rights([one for part in parts for one in documents(part)], "tonnage")
    assert rights(made, "tonnage") == expected


@pytest.mark.parametrize("who", ["scheduler", "extender"])
def test_rights_to_bookings_come_with_the_setting(who: str) -> None:
    values = {"enabled": True, "config": {"provisioningRequests": True}}
    account = f"tonnage-{who}"
    expected = rights([*documents(who), *documents(f"{who}/bookings")], account)
    assert rights(render({who: values}), account) == expected


def test_a_dry_run_may_only_read() -> None:
    made = render({"autoscaler": {"provider": "declarative", "dryRun": True}})
    assert {verb for *_, verb in rights(made, "tonnage")} <= {"get", "list", "watch"}


def test_names_of_lease_and_status_are_followed_by_the_role() -> None:
    values = {
        "leaseName": "lease",
        "stateNamespace": "elsewhere",
        "config": {"statusConfigMapName": "status"},
    }
    named = rights(render({"autoscaler": values}), "tonnage")
    assert ("elsewhere", "coordination.k8s.io", "leases", "lease", "update") in named
    assert ("elsewhere", "", "configmaps", "status", "patch") in named
    assert not any("cluster-autoscaler" in one for one in named)


def spec_of(manifests: list[Manifest], kind: str) -> dict[str, Any]:
    (found,) = [one for one in manifests if one["kind"] == kind]
    return dict(found["spec"]["template"]["spec"])


@pytest.mark.parametrize("part", PARTS)
def test_pods_are_those_of_the_kustomize_parts(everything: list[Manifest], part: str) -> None:
    kind = "DaemonSet" if part == "node-agent" else "Deployment"
    name = "tonnage" if part == "kwok" else f"tonnage-{part}"
    theirs = spec_of(documents(part), kind)
    ours = only(everything, kind, name)["spec"]["template"]["spec"]
    if part == "kwok":
        patch = yaml.safe_load((REPOSITORY / "deploy/kwok/deployment-patch.yaml").read_text())
        (patched,) = patch["spec"]["template"]["spec"]["containers"]
        theirs["containers"] = [{**theirs["containers"][0], "args": patched["args"]}]
    for pods in (ours, theirs):
        pods["containers"][0].pop("image")
        pods["containers"][0].pop("imagePullPolicy", None)
        for spread in pods.get("topologySpreadConstraints", []):
            spread["labelSelector"]["matchLabels"].pop("app.kubernetes.io/instance", None)
    assert ours == theirs


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"autoscaler": {"provider": "gcp"}}, "/autoscaler/provider"),
        ({"autoscaler": {"replicas": 0}}, "/autoscaler/replicas"),
        ({"autoscaler": {"config": {"expnder": "price"}}}, "expnder"),
        ({"autoscaler": {"config": {"scanInterval": "soon"}}}, "/autoscaler/config/scanInterval"),
        ({"autoscaler": {"debugAddress": "0.0.0.0:8086"}}, "/autoscaler/debugAddress"),
        ({"autoscaler": {"board": {"address": "here"}}}, "/autoscaler/board/address"),
        ({"autoscaler": {"board": {"address": ":8087"}}}, "autoscaler.board.tlsSecretName"),
        ({"autoscaler": {"board": {"clientNames": ["me"]}}}, "autoscaler.board.clientNames"),
        ({"autoscaler": {"nodeGroups": [{"kind": "NodeGroup"}]}}, "/autoscaler/nodeGroups/0"),
        ({"autoscaler": {"extraArgs": ["dry-run"]}}, "/autoscaler/extraArgs/0"),
        ({"scheduler": {"schedulerName": "A B"}}, "/scheduler/schedulerName"),
        ({"nodeAgent": {"config": {"writeCSINode": "x"}}}, "/nodeAgent/config/writeCSINode"),
        ({"image": {"digest": "latest"}}, "/image/digest"),
        ({"networkPolicy": {"hosts": ["10.0.0.0"]}}, "/networkPolicy/hosts/0"),
        ({"metrics": {"serviceMonitor": {"interval": "often"}}}, "serviceMonitor/interval"),
        ({"autoscalr": {}}, "autoscalr"),
    ],
)  # fmt: skip
def test_a_bad_value_is_refused_with_its_field(values: Manifest, field: str) -> None:
    told = attempt(values)
    assert told.returncode != 0
    assert field in told.stderr


def test_a_provider_that_makes_no_nodes_is_for_dry_runs() -> None:
    assert (
        "autoscaler.provider: declarative"
        in attempt({"autoscaler": {"provider": "declarative"}}).stderr
    )


def test_the_board_on_loopback_needs_nothing_and_elsewhere_its_secret() -> None:
    def pod(**board: object) -> Manifest:
        made = render({"autoscaler": {"board": board}})
        found: Manifest = only(made, "Deployment", "tonnage")["spec"]["template"]["spec"]
        return found

    inside = pod(address="127.0.0.1:8087")
    assert "--board-address=127.0.0.1:8087" in inside["containers"][0]["args"]
    assert "board" not in [one["name"] for one in inside["volumes"]]
    outside = pod(address="0.0.0.0:8087", tlsSecretName="board-tls", clientNames=["me"])
    assert [one for one in outside["containers"][0]["args"] if "--board" in one] == [
        "--board-address=0.0.0.0:8087",
        "--board-tls-cert-file=/etc/tonnage-board/tls.crt",
        "--board-tls-private-key-file=/etc/tonnage-board/tls.key",
        "--board-client-ca-file=/etc/tonnage-board/ca.crt",
        "--board-client-name=me",
    ]
    assert {"name": "board", "secret": {"secretName": "board-tls"}} in outside["volumes"]


def test_a_digest_goes_before_a_tag() -> None:
    digest = f"sha256:{'0' * 64}"
    made = render({"image": {"repository": "r/t", "tag": "1", "digest": digest}})
    pods = only(made, "Deployment", "tonnage")["spec"]["template"]["spec"]
    assert pods["containers"][0]["image"] == f"r/t@{digest}"


def test_another_release_has_names_of_its_own_and_known_labels() -> None:
    made = render({"extender": {"enabled": True}}, release="second")
    deployment = only(made, "Deployment", "second-tonnage-extender")
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert labels["app.kubernetes.io/name"] == "tonnage-extender"
    assert labels["app.kubernetes.io/instance"] == "second"


def test_without_a_component_nothing_of_it_is_there() -> None:
    made = render({"autoscaler": {"enabled": False}, "tests": {"enabled": False}})
    assert made == []


def test_what_runs_cannot_write_its_root_or_gain_rights(everything: list[Manifest]) -> None:
    for one in everything:
        pods = (
            one["spec"]
            if one["kind"] == "Pod"
            else one.get("spec", {}).get("template", {}).get("spec")
        )
        if not isinstance(pods, dict):
            continue
        assert pods["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in pods["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }


def test_the_doctor_is_the_test_of_the_release(everything: list[Manifest]) -> None:
    pod = only(everything, "Pod", "tonnage-doctor")
    assert pod["metadata"]["annotations"]["helm.sh/hook"] == "test"
    assert pod["spec"]["containers"][0]["args"] == ["doctor", "--fail-on=error"]


def test_alerts_that_are_not_wanted_are_left_out() -> None:
    values = {"metrics": {"prometheusRule": {"enabled": True, "disabled": ["TonnageHeld"]}}}
    rule = only(render(values), "PrometheusRule", "tonnage")
    names = {alert["alert"] for group in rule["spec"]["groups"] for alert in group["rules"]}
    assert "TonnageHeld" not in names
    assert "TonnageNoLeader" in names


def test_everything_is_in_the_namespace_of_the_release_but_the_agent(
    everything: list[Manifest],
) -> None:
    places = {one["metadata"].get("namespace") for one in everything}
    assert places == {None, NAMESPACE, "tonnage-node-agent"}


@required("promtool")
def test_every_alert_fires_and_stays_silent() -> None:
    rules = REPOSITORY / "tests" / "chart" / "rules_test.yaml"
    told = subprocess.run(
        [program("promtool"), "test", "rules", str(rules)], capture_output=True, text=True
    )
    assert told.returncode == 0, told.stdout + told.stderr


@required("promtool")
def test_rules_are_good_rules() -> None:
    checked = subprocess.run(
        [program("promtool"), "check", "rules", "--lint=all", "--lint-fatal",
         str(CHART / "files" / "rules.yaml")],
        capture_output=True, text=True,
    )  # fmt: skip
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.parametrize("case", CASES)
def test_values_that_migrate_writes_are_accepted(case: str, tmp_path: Path) -> None:
    migrated(case, "--write", str(tmp_path))
    values = yaml.safe_load((tmp_path / "values.yaml").read_text())
    (container,) = only(render(values), "Deployment", "tonnage")["spec"]["template"]["spec"][
        "containers"
    ]
    assert "--dry-run" in container["args"]
