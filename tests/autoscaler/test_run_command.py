"""`tonnage run` as a process of its own, on a loopback API server."""

import asyncio
import signal
from asyncio.subprocess import Process
from pathlib import Path

import msgspec
import pytest
import yaml
from click.testing import CliRunner

from tests.autoscaler.harness import CONFIG_MAPS, NODES, STATUS, group, put_node, put_pod, started
from tests.cluster.apiserver import ApiServer
from tests.cluster.programs import kubeconfig, started_process
from tonnage.cli.app import program
from tonnage.objects.scenarios import API_VERSION
from tonnage.testing.clock import VirtualClock

GROUPS = {"apiVersion": API_VERSION, "kind": "NodeGroup", **msgspec.to_builtins(group())}


def files(tmp_path: Path, server: ApiServer) -> list[str]:
    """Flags that name a kubeconfig for the server, and a node group."""
    (tmp_path / "groups.yaml").write_text(yaml.safe_dump(GROUPS))
    return [
        kubeconfig(tmp_path, server),
        f"--node-groups={tmp_path / 'groups.yaml'}",
        "--address=127.0.0.1:0",
    ]


async def lines(process: Process) -> list[dict[str, object]]:
    _, errors = await asyncio.wait_for(process.communicate(), 120)
    return [msgspec.json.decode(line) for line in errors.splitlines()]


async def test_a_dry_run_once_says_what_it_would_do(tmp_path: Path) -> None:
    async with ApiServer() as server:
        started(server)
        put_pod(server, "web")
        flags = ["--dry-run", "--once", "--provider=declarative", "--nodes=0:7:g"]
        # As command lines for upstream are written.
        flags += ["--enable-csi-node-aware-scheduling=false", "--leader-elect"]
        process = await started_process("run", *files(tmp_path, server), *flags)
        logged = await lines(process)
        assert process.returncode == 0
        (would,) = [line for line in logged if line["message"] == "would ask the provider"]
        assert (would["deed"], would["group"], would["nodes"]) == ("increase", "g", 1)


async def test_a_single_look_at_a_cluster_that_needs_nothing_says_what_was_seen(
    tmp_path: Path,
) -> None:
    async with ApiServer() as server:
        started(server)
        put_node(server, VirtualClock(), "n1")
        put_pod(server, "web", on="n1")
        flags = ["--dry-run", "--once", "--provider=declarative"]
        last = (await lines(await started_process("run", *files(tmp_path, server), *flags)))[-1]
        assert (last["message"], last["waiting"]) == ("nothing is needed", 0)
        assert (last["pods"], last["nodes"], last["groups"]) == (1, 1, 1)


async def test_a_single_look_that_helps_nobody_says_how_many_are_left_out(tmp_path: Path) -> None:
    async with ApiServer() as server:
        started(server)
        put_pod(server, "web", cpu="400")
        flags = ["--dry-run", "--once", "--provider=declarative"]
        last = (await lines(await started_process("run", *files(tmp_path, server), *flags)))[-1]
        assert last["message"] == "nothing that could be bought helps"
        assert (last["pods"], last["waiting"], last["left_out"]) == (1, 1, 1)


async def test_a_dry_run_of_a_provider_that_tidies_up_changes_nothing(tmp_path: Path) -> None:
    async with ApiServer() as server:
        started(server)
        put_pod(server, "web")
        process = await started_process(
            "run", *files(tmp_path, server), "--provider=kwok", "--dry-run", "--once"
        )
        assert any(line["message"] == "would ask the provider" for line in await lines(process))
        assert {request.method for request in server.requests} == {"GET"}


async def test_a_single_round_that_fails_is_an_exit_code(tmp_path: Path) -> None:
    async with ApiServer() as server:
        started(server)
        cluster, _, address = files(tmp_path, server)
        (tmp_path / "nobody.yaml").write_text("address: 127.0.0.1:9\ngrpc_timeout: 1s\n")
        outside = ["--provider=externalgrpc", f"--cloud-config={tmp_path / 'nobody.yaml'}"]
        process = await started_process("run", cluster, address, *outside, "--dry-run", "--once")
        await asyncio.wait_for(process.communicate(), 120)
        assert process.returncode == 1


async def test_nodes_are_made_until_a_signal_comes(tmp_path: Path) -> None:
    async with ApiServer() as server:
        started(server)
        put_pod(server, "web")
        process = await started_process("run", *files(tmp_path, server), "--provider=kwok")
        try:
            async with asyncio.timeout(20):
                while STATUS not in server.objects or not any(
                    path.startswith(NODES) for path in server.objects
                ):
                    await asyncio.sleep(0.05)
        finally:
            process.send_signal(signal.SIGTERM)
            logged = await lines(process)
        assert process.returncode == 0
        assert any(line["message"] == "stopping" for line in logged)
        assert f"{CONFIG_MAPS}/tonnage-state" in server.objects
        lease = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/cluster-autoscaler"
        assert server.objects[lease]["spec"].get("holderIdentity", "") == ""


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--provider", "declarative"], "it is for --dry-run"),
        (["--provider=kwok"], "either --node-groups or --node-groups-configmap"),
        (["--nodes=1:2:a"], "Give --provider: one of kwok"),
        (["--provider=none", "--expander=nope"], "no expander 'nope'; expected one or more of"),
        (["--config", "/nonexistent/c.yaml"], "No such file"),
        (["--nodes", "3:1:g"], "expected MIN:MAX:NAME"),
    ],
)
def test_a_wrong_flag_is_named(flags: list[str], message: str) -> None:
    result = CliRunner().invoke(program, ["run", *flags])
    assert result.exit_code == 2
    assert message in result.output


def test_the_schema_has_every_field_of_the_file() -> None:
    result = CliRunner().invoke(program, ["run", "--config-schema"])
    schema = msgspec.json.decode(result.stdout)
    assert {"scanInterval", "expander"} <= schema["$defs"]["AutoscalerConfig"]["properties"].keys()


def test_the_published_schema_is_the_one_that_is_printed() -> None:
    published = Path(__file__).parents[2] / "docs" / "config.schema.json"
    printed = CliRunner().invoke(program, ["run", "--config-schema"]).stdout
    assert published.read_text() == printed, (
        "write it anew: tonnage run --config-schema > docs/config.schema.json"
    )
