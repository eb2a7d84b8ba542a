import asyncio
import json
import os
import stat
from datetime import timedelta
from pathlib import Path

import pytest
from aiohttp import web

from tests.cluster.apiserver import ApiServer, status
from tonnage.clock import Clock, SystemClock
from tonnage.cluster import auth, errors
from tonnage.cluster.auth import Identity, PluginCredentials, StoredCredentials
from tonnage.cluster.config import ExecPlugin, User
from tonnage.objects.nodes import Node
from tonnage.testing.clock import START, VirtualClock

V1 = "client.authentication.k8s.io/v1"
HALF = '{"clientCertificateData":"C"}'
NO_ZONE = '{"token":"t","expirationTimestamp":"2030-01-01T00:00:00"}'
TWO_LINES = '{"token":"two\\\\nlines"}'
NODE = "/api/v1/nodes/n1"


def program(path: Path, script: str) -> str:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def printing(path: Path, api_version: str = V1, **credential: str) -> str:
    """A plugin that prints a credential; `$N` in it is the number of the run."""
    answer = {"apiVersion": api_version, "kind": "ExecCredential", "status": credential}
    text = json.dumps(answer).replace('"', '\\"')
    return program(
        path, f'echo run >> {path}.runs; N=$(wc -l < {path}.runs | tr -d " "); echo "{text}"'
    )


def runs(path: Path) -> int:
    return len(Path(f"{path}.runs").read_text().splitlines())


def credentials(
    command: str,
    *,
    api_version: str = V1,
    clock: Clock | None = None,
    mode: str = "Never",
    env: tuple[tuple[str, str], ...] = (),
    info: dict[str, object] | None = None,
    hint: str = "",
) -> PluginCredentials:
    plugin = ExecPlugin(
        api_version=api_version,
        command=command,
        interactive_mode=mode,
        env=env,
        cluster_info=info,
        install_hint=hint,
    )
    return PluginCredentials(plugin, clock=clock or SystemClock(), environ=os.environ)


# Files


async def test_a_token_file_is_read_again_after_a_minute(
    tmp_path: Path, clock: VirtualClock
) -> None:
    (tmp_path / "token").write_text("first\n")
    stored = StoredCredentials(User(token_file=tmp_path / "token"), clock=clock)
    assert (await stored.current()).token == "first"
    (tmp_path / "token").write_text("second\n")
    await clock.sleep(59)
    assert (await stored.current()).token == "first"
    await clock.sleep(1)
    assert (await stored.current()).token == "second"


async def test_a_refused_token_is_read_again_at_once(tmp_path: Path, clock: VirtualClock) -> None:
    (tmp_path / "token").write_text("first")
    stored = StoredCredentials(User(token_file=tmp_path / "token"), clock=clock)
    refused = await stored.current()
    (tmp_path / "token").write_text("second")
    assert (await stored.renew(refused)).token == "second"


async def test_a_token_file_that_vanishes_leaves_the_last_token(
    tmp_path: Path, clock: VirtualClock
) -> None:
    (tmp_path / "token").write_text("first")
    stored = StoredCredentials(User(token_file=tmp_path / "token"), clock=clock)
    await stored.current()
    (tmp_path / "token").unlink()
    await clock.sleep(60)
    assert (await stored.current()).token == "first"


async def test_a_token_file_that_is_empty_for_a_moment_leaves_the_last_token(
    tmp_path: Path, clock: VirtualClock
) -> None:
    (tmp_path / "token").write_text("first")
    stored = StoredCredentials(User(token_file=tmp_path / "token"), clock=clock)
    await stored.current()
    (tmp_path / "token").write_text("\n")
    await clock.sleep(60)
    assert (await stored.current()).token == "first"


async def test_a_token_file_that_is_empty_is_named(tmp_path: Path, clock: VirtualClock) -> None:
    (tmp_path / "token").write_text("")
    stored = StoredCredentials(User(token_file=tmp_path / "token"), clock=clock)
    with pytest.raises(errors.CredentialsFailed, match="/token: is empty"):
        await stored.current()


@pytest.mark.parametrize("token", [b"two\nlines", b"\xff\xfe", b"with space"])
async def test_a_token_no_header_can_carry_is_refused_and_not_shown(
    token: bytes, tmp_path: Path, clock: VirtualClock
) -> None:
    (tmp_path / "token").write_bytes(token)
    stored = StoredCredentials(User(token_file=tmp_path / "token"), clock=clock)
    with pytest.raises(errors.CredentialsFailed, match="characters that no token has") as failed:
        await stored.current()
    assert "two" not in str(failed.value)


async def test_a_token_file_that_was_never_there_is_named(
    tmp_path: Path, clock: VirtualClock
) -> None:
    stored = StoredCredentials(User(token_file=tmp_path / "token"), clock=clock)
    with pytest.raises(errors.CredentialsFailed, match="/token: cannot be read"):
        await stored.current()


async def test_a_token_file_wins_over_a_token(tmp_path: Path, clock: VirtualClock) -> None:
    (tmp_path / "token").write_text("file")
    user = User(token="inline", token_file=tmp_path / "token")
    assert (await StoredCredentials(user, clock=clock).current()).token == "file"


# Plugins


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
async def test_a_plugin_prints_a_token(version: str, tmp_path: Path) -> None:
    api_version = f"client.authentication.k8s.io/{version}"
    command = printing(tmp_path / "login", api_version, token="secret")
    found = await credentials(command, api_version=api_version).current()
    assert found == Identity(token="secret")


async def test_a_plugin_prints_a_certificate(tmp_path: Path) -> None:
    command = printing(tmp_path / "login", clientCertificateData="CERT", clientKeyData="KEY")
    assert await credentials(command).current() == Identity(certificate=b"CERT", key=b"KEY")


async def test_a_credential_without_expiry_is_asked_for_once(tmp_path: Path) -> None:
    path = tmp_path / "login"
    found = credentials(printing(path, token="token-$N"))
    assert (await found.current(), await found.current()) == (Identity(token="token-1"),) * 2
    assert runs(path) == 1


async def test_an_expired_credential_is_asked_for_again(tmp_path: Path) -> None:
    path = tmp_path / "login"
    clock = VirtualClock()
    expiry = (START + timedelta(hours=1)).isoformat()
    found = credentials(
        printing(path, token="token-$N", expirationTimestamp=expiry), clock=Wall(clock)
    )
    await found.current()
    clock.step(3599)
    assert (await found.current()).token == "token-1"
    clock.step(1)
    assert (await found.current()).token == "token-2"


class Wall(SystemClock):
    """Real waiting, because programs run in real time, with the wall clock of another."""

    def __init__(self, wall: VirtualClock) -> None:
        self.now = wall.now  # type: ignore[method-assign]


async def test_many_who_are_refused_at_once_run_the_plugin_once(tmp_path: Path) -> None:
    path = tmp_path / "login"
    found = credentials(printing(path, token="token-$N"))
    refused = await found.current()
    renewed = await asyncio.gather(*(found.renew(refused) for _ in range(5)))
    assert {each.token for each in renewed} == {"token-2"}
    assert runs(path) == 2


async def test_a_plugin_gets_its_environment_and_the_cluster(tmp_path: Path) -> None:
    command = program(
        tmp_path / "login",
        'printf "%s" "$KUBERNETES_EXEC_INFO" > "$WHERE"\n'
        f'echo \'{{"apiVersion":"{V1}","kind":"ExecCredential","status":{{"token":"t"}}}}\'',
    )
    told = tmp_path / "told"
    await credentials(
        command, env=(("WHERE", str(told)),), info={"server": "https://api"}
    ).current()
    assert json.loads(told.read_text()) == {
        "apiVersion": V1,
        "kind": "ExecCredential",
        "spec": {"interactive": False, "cluster": {"server": "https://api"}},
    }


async def test_a_stored_certificate_is_shown_beside_the_token_of_a_plugin(tmp_path: Path) -> None:
    plugin = ExecPlugin(
        api_version=V1,
        command=printing(
            tmp_path / "login", token="t$N", clientCertificateData="P", clientKeyData="P"
        ),
        interactive_mode="Never",
    )
    user = User(certificate=b"C", key=b"K", plugin=plugin)
    both = auth.credentials(user, clock=SystemClock(), environ=os.environ)
    first = await both.current()
    assert first == Identity(token="t1", certificate=b"C", key=b"K")
    assert (await both.renew(first)).token == "t2"


async def test_a_plugin_that_must_ask_needs_a_terminal(tmp_path: Path) -> None:
    command = printing(tmp_path / "login", token="t")
    with pytest.raises(errors.CredentialsFailed, match="standard input is not a terminal"):
        await credentials(command, mode="Always").current()


@pytest.mark.parametrize(
    ("script", "complaint"),
    [
        ("echo oh no >&2; exit 3", "ended with code 3: oh no"),
        ("echo hello", "printed no ExecCredential"),
        (f'echo \'{{"apiVersion":"{V1}","kind":"Pod"}}\'', "printed 'Pod'"),
        ('echo \'{"apiVersion":"v0","kind":"ExecCredential"}\'', "of 'v0', expected"),
        (
            f'echo \'{{"apiVersion":"{V1}","kind":"ExecCredential","status":{{}}}}\'',
            "neither a token nor a certificate",
        ),
        (
            f'echo \'{{"apiVersion":"{V1}","kind":"ExecCredential","status":{HALF}}}\'',
            "a certificate or a key, not both",
        ),
        (
            f'echo \'{{"apiVersion":"{V1}","kind":"ExecCredential","status":{NO_ZONE}}}\'',
            "printed no ExecCredential: .*timezone.*expirationTimestamp",
        ),
        (
            f'echo \'{{"apiVersion":"{V1}","kind":"ExecCredential","status":{TWO_LINES}}}\'',
            "the token has characters that no token has",
        ),
    ],
)
async def test_a_plugin_that_fails_is_quoted(script: str, complaint: str, tmp_path: Path) -> None:
    command = program(tmp_path / "login", script)
    with pytest.raises(errors.CredentialsFailed, match=f"{command}: .*{complaint}"):
        await credentials(command).current()


async def test_a_plugin_that_is_not_installed_says_how_to_get_it() -> None:
    with pytest.raises(errors.CredentialsFailed, match=r"cannot be run: .*; brew install login"):
        await credentials("/no/login", hint="brew install login").current()


async def test_a_plugin_that_hangs_is_ended(tmp_path: Path, clock: VirtualClock) -> None:
    command = program(tmp_path / "login", "exec sleep 1000")
    with pytest.raises(errors.CredentialsFailed, match="printed nothing within 60 s"):
        await credentials(command, clock=clock).current()


# Together with a server


def accepting(server: ApiServer, token: str) -> None:
    """Only this token is let in."""

    async def check(request: web.Request) -> web.StreamResponse:
        if request.headers.get("Authorization") != f"Bearer {token}":
            return status(401, "Unauthorized")
        return web.json_response({"metadata": {"name": "n1"}})

    server.script("GET", NODE, *[check] * 10)


async def test_a_refused_plugin_token_is_renewed_and_the_request_repeated_once(
    tmp_path: Path,
) -> None:
    async with ApiServer() as server:
        accepting(server, "token-2")
        plugin = ExecPlugin(
            api_version=V1,
            command=printing(tmp_path / "login", token="token-$N"),
            interactive_mode="Never",
        )
        client = server.client(SystemClock(), user=User(plugin=plugin))
        assert (await client.get(Node, "n1")).metadata.name == "n1"
        assert [each.headers["Authorization"] for each in server.requests] == [
            "Bearer token-1",
            "Bearer token-2",
        ]


async def test_a_second_refusal_is_believed(tmp_path: Path) -> None:
    async with ApiServer() as server:
        accepting(server, "never")
        plugin = ExecPlugin(
            api_version=V1,
            command=printing(tmp_path / "login", token="token-$N"),
            interactive_mode="Never",
        )
        client = server.client(SystemClock(), user=User(plugin=plugin))
        with pytest.raises(errors.Unauthorized):
            await client.get(Node, "n1")
        assert len(server.requests) == 2


async def test_a_refused_token_of_which_there_is_no_other_is_not_sent_again(
    clock: VirtualClock,
) -> None:
    async with ApiServer() as server:
        accepting(server, "right")
        client = server.client(clock, user=User(token="wrong"))
        with pytest.raises(errors.Unauthorized):
            await client.get(Node, "n1")
        assert len(server.requests) == 1


async def test_a_rotated_token_file_is_used_after_a_refusal(
    tmp_path: Path, clock: VirtualClock
) -> None:
    (tmp_path / "token").write_text("old")
    async with ApiServer() as server:
        accepting(server, "new")
        client = server.client(clock, user=User(token_file=tmp_path / "token"))
        with pytest.raises(errors.Unauthorized):
            await client.get(Node, "n1")
        (tmp_path / "token").write_text("new")
        assert (await client.get(Node, "n1")).metadata.name == "n1"


async def test_whom_we_act_as_is_told_with_every_request(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        server.put("/api/v1/nodes", {"metadata": {"name": "n1"}})
        pairs = (
            ("Impersonate-User", "alice"),
            ("Impersonate-Group", "dev"),
            ("Impersonate-Group", "ops"),
        )
        await server.client(clock, user=User(impersonation=pairs)).get(Node, "n1")
        headers = server.requests[0].headers
        assert headers.getall("Impersonate-Group") == ["dev", "ops"]
