"""What is shipped for the extender fits it: rights, arguments, the scheduler's configuration."""

import asyncio
import logging
import shutil
import ssl
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from click.testing import CliRunner

from tests.deploy.manifests import DEPLOY, documents, of_kind, rights
from tests.hostile.served import identity, request, serving
from tests.scheduler.extender.harness import a_node, a_pod, extending
from tonnage.cli.app import program
from tonnage.cli.extender import extender
from tonnage.objects import kinds
from tonnage.scheduler.extender.config import ExtenderConfig
from tonnage.scheduler.extender.program import NEEDED
from tonnage.service.certificates import Certificates
from tonnage.service.config_file import parse
from tonnage.service.live_cluster import OF_SCHEDULING
from tonnage.testing.clock import VirtualClock

SCHEDULERS = sorted((DEPLOY / "extender" / "scheduler").glob("*.yaml"))
SCHEDULER = "system:kube-scheduler"
OPTIONS = {name for option in extender.params for name in option.opts}


def containers() -> list[dict[str, Any]]:
    (deployment,) = of_kind("Deployment", "extender")
    static = yaml.safe_load((DEPLOY / "extender/static-pod/tonnage-extender.yaml").read_text())
    return [
        *deployment["spec"]["template"]["spec"]["containers"],
        *static["spec"]["containers"],
    ]


def test_the_rights_are_to_list_and_watch_what_is_looked_at_and_no_more() -> None:
    rows = [row for row in kinds.ALL if row.type in OF_SCHEDULING]
    wanted = {(row.group, row.plural, verb) for row in rows for verb in ("list", "watch")}
    assert set(rights("extender")) == wanted


def test_what_is_needed_is_watched() -> None:
    assert set(NEEDED) <= set(OF_SCHEDULING)


@pytest.mark.parametrize("container", containers(), ids=["deployment", "static pod"])
def test_every_argument_is_an_option(container: dict[str, Any]) -> None:
    command, *arguments = container["args"]
    assert command == "extender"
    assert {argument.partition("=")[0] for argument in arguments} <= OPTIONS


def test_the_configuration_that_is_shipped_can_be_read() -> None:
    (config,) = of_kind("ConfigMap", "extender")
    text = config["data"]["config.yaml"].encode()
    assert parse(text, ExtenderConfig, where="config.yaml", given={}) == ExtenderConfig()


def test_there_is_one_replica_and_never_two() -> None:
    (deployment,) = of_kind("Deployment", "extender")
    spec = deployment["spec"]
    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})


def test_the_service_leads_to_the_port_of_the_pod() -> None:
    (service,), (deployment,) = of_kind("Service", "extender"), of_kind("Deployment", "extender")
    template = deployment["spec"]["template"]
    assert service["spec"]["selector"] == template["metadata"]["labels"]
    (container,) = template["spec"]["containers"]
    assert [one["targetPort"] for one in service["spec"]["ports"]] == [
        one["name"] for one in container["ports"]
    ]


def test_all_of_it_is_in_one_namespace() -> None:
    found = {one["metadata"].get("namespace", "tonnage-system") for one in documents("extender")}
    assert found == {"tonnage-system"}


@pytest.mark.parametrize("path", SCHEDULERS, ids=lambda path: path.stem)
def test_a_scheduler_asks_with_names_over_https_and_waits_longer_than_we_do(path: Path) -> None:
    (found,) = yaml.safe_load(path.read_text())["extenders"]
    assert (found["nodeCacheCapable"], found["enableHTTPS"]) == (True, True)
    assert (found["filterVerb"], found["prioritizeVerb"]) == ("filter", "prioritize")
    assert found["urlPrefix"].startswith("https://")
    assert found["urlPrefix"].endswith("/v1")
    assert float(found["httpTimeout"].removesuffix("s")) > ExtenderConfig().settle_wait


def test_without_limits_of_its_own_the_scheduler_does_not_go_on_alone() -> None:
    for path in SCHEDULERS:
        config = yaml.safe_load(path.read_text())
        off = any("plugins" in profile for profile in config["profiles"])
        assert config["extenders"][0]["ignorable"] != off


# Certificates

OF_CERT_MANAGER = [
    one
    for one in yaml.safe_load_all((DEPLOY / "extender/cert-manager/certificates.yaml").read_text())
    if one["kind"] == "Certificate"
]


@pytest.mark.parametrize("container", containers(), ids=["deployment", "static pod"])
def test_what_is_shipped_answers_nobody_but_the_scheduler(container: dict[str, Any]) -> None:
    given = {one.partition("=")[0]: one.partition("=")[2] for one in container["args"]}
    assert (given["--client-name"], given["--client-ca-file"][-7:]) == (SCHEDULER, "/ca.crt")
    assert not {"--debug-address", "--insecure-any-client", "--insecure-http"} & set(given)


@pytest.mark.parametrize("path", SCHEDULERS, ids=lambda path: path.stem)
def test_a_scheduler_checks_the_extender_and_shows_who_it_is(path: Path) -> None:
    (found,) = yaml.safe_load(path.read_text())["extenders"]
    assert set(found["tlsConfig"]) == {"caFile", "certFile", "keyFile", "serverName"}


def test_cert_manager_issues_what_the_deployment_and_the_scheduler_need() -> None:
    server, client = OF_CERT_MANAGER[-2:]
    (deployment,) = of_kind("Deployment", "extender")
    secrets = [
        one["secret"]["secretName"]
        for one in deployment["spec"]["template"]["spec"]["volumes"]
        if "secret" in one
    ]
    (service,) = of_kind("Service", "extender")
    meta = service["metadata"]
    assert [server["spec"]["secretName"]] == secrets
    assert server["spec"]["dnsNames"] == [f"{meta['name']}.{meta['namespace']}.svc"]
    assert (client["spec"]["commonName"], client["spec"]["usages"]) == (SCHEDULER, ["client auth"])


@pytest.fixture
def by_hand(tmp_path: Path) -> Path:
    """A directory with what the shipped script makes."""
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl")
    script = DEPLOY / "extender" / "certificates.sh"
    subprocess.run([script, tmp_path, "localhost"], check=True)
    return tmp_path


async def test_those_made_by_hand_are_good_for_both_sides(by_hand: Path) -> None:
    pair, ca = (by_hand / "tls.crt", by_hand / "tls.key"), by_hand / "ca.crt"
    certificates = Certificates(*pair, client_ca=ca, client_names=[SCHEDULER])
    scheduler = ssl.create_default_context(cafile=ca)
    scheduler.load_cert_chain(by_hand / "client.crt", by_hand / "client.key")
    async with serving(certificates=certificates) as server:
        reader, writer = await asyncio.open_connection("localhost", server.port, ssl=scheduler)
        writer.write(request("/echo", method="POST", body=b"1", Connection="close"))
        assert (await reader.read()).startswith(b"HTTP/1.1 200")
        writer.close()


def test_the_network_policy_is_of_the_pod_and_its_port() -> None:
    (policy,), (deployment,) = (
        of_kind("NetworkPolicy", "extender/network-policy"),
        of_kind("Deployment", "extender"),
    )
    template = deployment["spec"]["template"]
    assert policy["spec"]["podSelector"]["matchLabels"] == template["metadata"]["labels"]
    (rule,) = policy["spec"]["ingress"]
    assert [one["port"] for one in rule["ports"]] == [
        one["name"] for one in template["spec"]["containers"][0]["ports"]
    ]


# The command


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "expected --tls-cert-file and --tls-private-key-file"),
        (["--tls-cert-file", "a"], "expected --tls-cert-file and --tls-private-key-file"),
        (["--insecure-http"], "expected a loopback address"),
        (["--insecure-http", "--address", "0.0.0.0:1"], "expected a loopback address"),
        (["--insecure-http", "--client-ca-file", "a"], "expected no certificate files"),
        (["--tls-cert-file", "none", "--tls-private-key-file", "none"], "none: No such file"),
    ],
)
def test_wrong_usage_is_one_line_and_code_2(arguments: list[str], said: str) -> None:
    ran = CliRunner().invoke(program, ["extender", *arguments])
    assert (ran.exit_code, said in ran.output, ran.output.count("\n")) == (2, True, 1)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "expected --client-ca-file, with the authority of the scheduler's client certificate"),
        (["--address", "10.0.0.1:9443"], "expected --client-ca-file"),
        (["--address", "node-1:9443"], "expected --client-ca-file"),
        (["--client-name", "system:kube-scheduler"], "expected --client-ca-file beside it"),
    ],
)
def test_beyond_loopback_nobody_is_answered_without_a_certificate(
    tmp_path: Path, arguments: list[str], said: str
) -> None:
    files = identity(tmp_path)
    pair = ["--tls-cert-file", str(files.certificate), "--tls-private-key-file", str(files.key)]
    ran = CliRunner().invoke(program, ["extender", *pair, *arguments])
    assert (ran.exit_code, said in ran.output, ran.output.count("\n")) == (2, True, 1), ran.output


@pytest.mark.parametrize(
    "arguments", [["--insecure-any-client"], ["--address", "127.0.0.1:0"], ["--client-ca-file"]]
)
def test_with_a_certificate_on_loopback_or_on_request_it_starts(
    tmp_path: Path, arguments: list[str]
) -> None:
    files = identity(tmp_path)
    pair = ["--tls-cert-file", str(files.certificate), "--tls-private-key-file", str(files.key)]
    more = [str(files.ca)] if arguments == ["--client-ca-file"] else []
    nowhere = ["--kubeconfig", str(tmp_path / "none")]
    ran = CliRunner().invoke(program, ["extender", *pair, *arguments, *more, *nowhere])
    # So far as to look for the cluster.
    assert str(tmp_path / "none") in ran.output


@pytest.mark.parametrize("address", [":9444", "0.0.0.0:9444", "node-1:9444"])
def test_questions_of_people_are_for_loopback_only(address: str) -> None:
    ran = CliRunner().invoke(program, ["extender", "--debug-address", address])
    assert (ran.exit_code, "expected a loopback address" in ran.output) == (2, True)


def test_the_schema_is_printed() -> None:
    ran = CliRunner().invoke(program, ["extender", "--config-schema"])
    assert "ExtenderConfig" in msgspec.json.decode(ran.output)["$defs"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("unknownLimits: maybe", "unknownLimits"),
        ("settleWait: -1", "settleWait"),
        ("settleWait: 2m", "expected no more than reservationTime"),
        ("kind: Other", "expected tonnage.dev/v1alpha1, ExtenderConfig"),
        ("unknown: 1", "unknown"),
    ],
)
def test_a_wrong_setting_is_named(text: str, said: str) -> None:
    with pytest.raises(Exception, match=said):
        parse(text.encode(), ExtenderConfig, where="c.yaml", given={})


# Secrets


async def test_what_is_in_a_pod_does_not_get_into_the_logs(
    clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    claim, pod = a_pod("db")
    raw = msgspec.to_builtins(pod)
    raw["spec"]["containers"] = [{"name": "c", "env": [{"name": "PASSWORD", "value": "sesame"}]}]
    body = msgspec.json.encode({"Pod": raw, "NodeNames": ["n1", "x"]})
    with caplog.at_level(logging.DEBUG, logger="tonnage"):
        async with extending(clock, *a_node("n1", 0), claim) as stage:
            for path in ("/v1/filter", "/simulate"):
                for sent in (body, body[:-5]):
                    await stage.post(path, sent)
    assert caplog.records
    assert not any("sesame" in str(record.__dict__) for record in caplog.records)
