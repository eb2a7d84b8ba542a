"""`tonnage capacity-templates` and `tonnage run --enable-capacity-template` as processes."""

import asyncio
import signal
from asyncio.subprocess import Process
from pathlib import Path

import msgspec
import pytest
import yaml
from click.testing import CliRunner

from tests.capacity.capacity_objects import a_class, a_node
from tests.capacity.harness import CLASSES, NODES, put, started
from tests.cluster.apiserver import ApiServer
from tests.cluster.programs import kubeconfig, started_process
from tonnage.capacity.conventions import LOCAL_CSI_DRIVER
from tonnage.cli.app import program
from tonnage.objects.scenarios import API_VERSION

OBJECTS = "/apis/storage.k8s.io/v1/namespaces/kube-system/csistoragecapacities"


def groups_file(tmp_path: Path, *instances: str) -> str:
    documents = [
        {
            "apiVersion": API_VERSION,
            "kind": "NodeGroup",
            "metadata": {"name": one},
            "spec": {
                "maxSize": 3,
                "template": {"node": msgspec.to_builtins(a_node("t", one))},
            },
        }
        for one in instances
    ]
    (tmp_path / "groups.yaml").write_text(yaml.safe_dump_all(documents))
    return f"--node-groups={tmp_path / 'groups.yaml'}"


async def ended(running: Process) -> tuple[str, str]:
    out, err = await asyncio.wait_for(running.communicate(), 30)
    return out.decode(), err.decode()


def published(server: ApiServer) -> list[str]:
    return [
        obj["metadata"]["labels"]["tonnage.dev/node-group"]
        for path, obj in sorted(server.objects.items())
        if path.startswith(f"{OBJECTS}/")
    ]


async def until_published(server: ApiServer, groups: list[str]) -> None:
    async with asyncio.timeout(30):
        while published(server) != groups:
            await asyncio.sleep(0.05)


async def test_it_publishes_until_a_signal_comes_and_removes_everything_on_uninstall(
    tmp_path: Path,
) -> None:
    async with ApiServer() as server:
        started(server)
        put(server, CLASSES, a_class())
        put(server, NODES, a_node("n1", "c5"))
        where = kubeconfig(tmp_path, server)
        running = await started_process(
            "capacity-templates", where, groups_file(tmp_path, "i3"), "--address=127.0.0.1:0"
        )
        try:
            await until_published(server, ["c5", "i3"])
        finally:
            running.send_signal(signal.SIGTERM)
            await ended(running)
        assert running.returncode == 0
        removing = await started_process("capacity-templates", where, "--uninstall")
        out, _ = await ended(removing)
        assert (removing.returncode, out) == (
            0,
            "2 objects deleted from namespace kube-system\n",
        )
        assert published(server) == []


async def test_a_dry_run_once_says_what_it_would_write(tmp_path: Path) -> None:
    async with ApiServer() as server:
        started(server)
        put(server, CLASSES, a_class())
        put(server, NODES, a_node("n1"))
        looking = await started_process(
            "capacity-templates", kubeconfig(tmp_path, server), "--dry-run", "--once"
        )
        _, err = await ended(looking)
        lines = [msgspec.json.decode(line) for line in err.splitlines()]
        (would,) = [line for line in lines if line["message"] == "would write object"]
        assert would["step"] == "create"
        assert {one.method for one in server.requests} == {"GET"}


async def test_the_autoscaler_publishes_for_the_groups_of_its_provider(tmp_path: Path) -> None:
    async with ApiServer() as server:
        started(server)
        put(server, CLASSES, a_class())
        running = await started_process(
            "run", kubeconfig(tmp_path, server), groups_file(tmp_path, "i3", "m5"),
            "--address=127.0.0.1:0", "--provider=kwok", "--enable-capacity-template",
        )  # fmt: skip
        try:
            await until_published(server, ["i3", "m5"])
        finally:
            running.send_signal(signal.SIGTERM)
            await ended(running)
        assert running.returncode == 0


async def test_the_autoscaler_may_take_the_place_of_another_controller(tmp_path: Path) -> None:
    async with ApiServer() as server:
        started(server)
        theirs = LOCAL_CSI_DRIVER
        put(server, CLASSES, a_class(annotation=theirs.annotation, driver=theirs.provisioner))
        running = await started_process(
            "run", kubeconfig(tmp_path, server), groups_file(tmp_path, "i3"),
            "--address=127.0.0.1:0", "--provider=kwok", "--enable-capacity-template",
            "--compatibility=local-csi-driver",
        )  # fmt: skip
        try:
            async with asyncio.timeout(30):
                while f"{OBJECTS}/local-csi-template-fast-i3" not in server.objects:
                    await asyncio.sleep(0.05)
        finally:
            running.send_signal(signal.SIGTERM)
            await ended(running)


def test_names_of_what_is_not_published_are_of_no_use() -> None:
    result = CliRunner().invoke(program, ["run", "--compatibility=local-csi-driver"])
    assert result.exit_code == 2
    assert "expected --enable-capacity-template too" in result.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--capacity-template-node-group-label", "a b"], "'a b' is not a label key"),
        (["--resync-interval", "soon"], "--resync-interval 'soon'"),
        (["--node-groups", "f", "--node-groups-configmap", "c"], "not both"),
        (["--node-groups", "/nonexistent/g.yaml"], "/nonexistent/g.yaml: No such file"),
        (["--kube-api-qps", "0"], "0.0 is not in the range"),
    ],
)
def test_a_wrong_flag_is_named(arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(program, ["capacity-templates", *arguments])
    assert result.exit_code == 2
    assert message in result.output


def test_one_decision_does_not_go_with_publishing(tmp_path: Path) -> None:
    flags = ["--once", "--dry-run", "--provider=kwok", "--enable-capacity-template"]
    flags.append(groups_file(tmp_path, "m5"))
    result = CliRunner().invoke(program, ["run", *flags])
    assert result.exit_code == 2
    assert "not --once" in result.output
