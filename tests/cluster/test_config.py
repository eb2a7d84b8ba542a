import base64
from pathlib import Path
from typing import Any

import pytest
import yaml

from tonnage.cluster import config
from tonnage.cluster.config import Access
from tonnage.errors import InputError

PEM = b"-----BEGIN CERTIFICATE-----\n"


def entry(kind: str, name: str, **fields: object) -> dict[str, object]:
    return {"name": name, kind: fields}


def kubeconfig(
    path: Path,
    *,
    cluster: Any = None,
    user: Any = None,
    **top: Any,
) -> Path:
    """A file with one context called `main`, or with what is said instead."""
    content: dict[str, object] = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "main",
        "clusters": [entry("cluster", "c", **(cluster or {"server": "https://api.example:6443"}))],
        "users": [entry("user", "u", **(user or {}))],
        "contexts": [entry("context", "main", cluster="c", user="u")],
        **top,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(content))
    return path


def load(path: Path, *, context: str | None = None) -> Access:
    return config.from_files([path], context=context)


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


# Which files


def test_a_named_file_is_the_only_one_read(tmp_path: Path) -> None:
    named = kubeconfig(tmp_path / "named", user={"token": "from-the-named-file"})
    other = kubeconfig(tmp_path / "other", user={"token": "other"})
    access = config.find(environ={"KUBECONFIG": str(other)}, kubeconfig_file=str(named))
    assert access.user.token == "from-the-named-file"


def test_the_first_file_to_name_an_entry_keeps_it_whole(tmp_path: Path) -> None:
    first = kubeconfig(tmp_path / "first", user={"token": "first"})
    second = kubeconfig(tmp_path / "second", user={"as": "someone", "token": "second"})
    access = config.find(environ={"KUBECONFIG": f"{first}:{second}"})
    assert (access.user.token, access.user.impersonation) == ("first", ())


def test_entries_of_several_files_are_joined(tmp_path: Path) -> None:
    clusters = kubeconfig(tmp_path / "clusters", users=None, contexts=None)
    users = kubeconfig(tmp_path / "users", user={"token": "t"}, clusters=None)
    access = config.find(environ={"KUBECONFIG": f"{clusters}:{users}"})
    assert (access.endpoint.server, access.user.token) == ("https://api.example:6443", "t")


@pytest.mark.parametrize(("first", "chosen"), [("", "second"), ("main", "main")])
def test_the_first_file_with_a_current_context_decides(
    first: str, chosen: str, tmp_path: Path
) -> None:
    one = kubeconfig(tmp_path / "one", **{"current-context": first})
    contexts = [entry("context", "second", cluster="c", user="u")]
    two = kubeconfig(tmp_path / "two", contexts=contexts, **{"current-context": "second"})
    assert config.find(environ={"KUBECONFIG": f"{one}:{two}"}).context == chosen


def test_missing_files_of_several_are_passed_over(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path / "there")
    access = config.find(environ={"KUBECONFIG": f"{tmp_path}/missing::{path}"})
    assert access.context == "main"


def test_the_home_directory_comes_before_the_pod(tmp_path: Path) -> None:
    kubeconfig(tmp_path / ".kube" / "config", user={"token": "home"})
    environ = {"HOME": str(tmp_path), "KUBERNETES_SERVICE_HOST": "10.0.0.1"}
    assert config.find(environ=environ).user.token == "home"


# Contexts


def test_a_context_can_be_chosen_by_name(tmp_path: Path) -> None:
    contexts = [
        entry("context", "main", cluster="c", user="u"),
        entry("context", "other", cluster="c", user="u", namespace="db"),
    ]
    path = kubeconfig(tmp_path / "config", contexts=contexts)
    assert load(path, context="other").namespace == "db"


def test_the_namespace_is_default_unless_the_context_says(tmp_path: Path) -> None:
    assert load(kubeconfig(tmp_path / "config")).namespace == "default"


# Credentials


def test_inline_data_wins_over_files(tmp_path: Path) -> None:
    path = kubeconfig(
        tmp_path / "config",
        cluster={
            "server": "https://api",
            "certificate-authority": "/missing",
            "certificate-authority-data": encoded(PEM),
        },
    )
    assert load(path).endpoint.authority == PEM


def test_paths_are_relative_to_their_file(tmp_path: Path) -> None:
    (tmp_path / "pki").mkdir()
    for name in ("ca", "cert", "key", "token"):
        (tmp_path / "pki" / name).write_bytes(PEM)
    path = kubeconfig(
        tmp_path / "config",
        cluster={"server": "https://api", "certificate-authority": "pki/ca"},
        user={
            "client-certificate": "pki/cert",
            "client-key": "pki/key",
            "tokenFile": "pki/token",
        },
    )
    access = load(path)
    assert [access.endpoint.authority, access.user.certificate, access.user.key] == [
        tmp_path / "pki" / name for name in ("ca", "cert", "key")
    ]
    assert access.user.token_file == tmp_path / "pki" / "token"


def test_acting_as_someone_else_becomes_headers(tmp_path: Path) -> None:
    user: dict[str, object] = {
        "as": "alice",
        "as-uid": "7",
        "as-groups": ["dev", "ops"],
        "as-user-extra": {"Reason/Why": ["on call"]},
    }
    access = load(kubeconfig(tmp_path / "config", user=user))
    assert access.user.impersonation == (
        ("Impersonate-User", "alice"),
        ("Impersonate-Uid", "7"),
        ("Impersonate-Group", "dev"),
        ("Impersonate-Group", "ops"),
        ("Impersonate-Extra-reason%2Fwhy", "on call"),
    )


def plugin(**fields: object) -> dict[str, object]:
    return {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": "login",
            "interactiveMode": "Never",
            **fields,
        }
    }


def test_a_plugin_is_read_with_everything_it_needs(tmp_path: Path) -> None:
    user = plugin(args=["--region", "eu"], env=[{"name": "A", "value": "1"}], installHint="brew")
    found = load(kubeconfig(tmp_path / "config", user=user)).user.plugin
    assert found is not None
    assert (found.command, found.args, found.env, found.install_hint, found.interactive_mode) == (
        "login",
        ("--region", "eu"),
        (("A", "1"),),
        "brew",
        "Never",
    )


def test_a_plugin_with_a_path_is_looked_for_beside_the_file(tmp_path: Path) -> None:
    found = load(kubeconfig(tmp_path / "config", user=plugin(command="./bin/login"))).user.plugin
    assert found is not None
    assert found.command == str(tmp_path / "bin" / "login")


def test_a_plugin_beside_a_file_of_this_directory_is_not_looked_for_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kubeconfig(tmp_path / "config", user=plugin(command="./login"))
    monkeypatch.chdir(tmp_path)
    found = load(Path("config")).user.plugin
    assert found is not None
    assert found.command == str(tmp_path / "login")


def test_the_older_plugin_interface_may_leave_the_mode_out(tmp_path: Path) -> None:
    user = plugin(apiVersion="client.authentication.k8s.io/v1beta1", interactiveMode="")
    found = load(kubeconfig(tmp_path / "config", user=user)).user.plugin
    assert found is not None
    assert found.interactive_mode == "IfAvailable"


def test_a_plugin_is_told_about_the_cluster_when_it_asks(tmp_path: Path) -> None:
    extensions = [
        {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "a"}},
        {"name": "other", "extension": {}},
    ]
    cluster: dict[str, object] = {
        "server": "https://api",
        "certificate-authority-data": encoded(PEM),
        "extensions": extensions,
    }
    path = kubeconfig(tmp_path / "config", cluster=cluster, user=plugin(provideClusterInfo=True))
    found = load(path).user.plugin
    assert found is not None
    assert found.cluster_info == {
        "server": "https://api",
        "certificate-authority-data": encoded(PEM),
        "config": {"audience": "a"},
    }


def test_a_token_leaves_the_plugin_unused(tmp_path: Path) -> None:
    user = {**plugin(), "token": "t"}
    assert load(kubeconfig(tmp_path / "config", user=user)).user.plugin is None


def test_a_plugin_is_used_beside_a_certificate(tmp_path: Path) -> None:
    pair = {"client-certificate-data": encoded(PEM), "client-key-data": encoded(PEM)}
    user = load(kubeconfig(tmp_path / "config", user={**plugin(), **pair})).user
    assert (user.plugin is not None, user.certificate) == (True, PEM)


def test_folded_data_is_read(tmp_path: Path) -> None:
    data = encoded(PEM * 4)
    cluster = {"server": "https://api.example", "certificate-authority-data": f"{data[:40]}\n"}
    cluster["certificate-authority-data"] += data[40:]
    access = load(kubeconfig(tmp_path / "config", cluster=cluster))
    assert access.endpoint.authority == PEM * 4


def test_a_field_without_a_value_is_a_field_that_is_not_there(tmp_path: Path) -> None:
    path = kubeconfig(
        tmp_path / "config",
        user={"token": "t", "exec": None, "as-groups": None, "username": None},
        contexts=[
            entry("context", "main", cluster="c", user="u", namespace=None),
            {"name": "other", "context": None},
        ],
    )
    assert (load(path).user.token, load(path).namespace) == ("t", "default")


# In a pod


def service_account(path: Path) -> Path:
    (path / "token").write_text("t")
    (path / "ca.crt").write_bytes(PEM)
    (path / "namespace").write_text("kube-system\n")
    return path


@pytest.mark.parametrize(
    ("host", "server"),
    [("10.96.0.1", "https://10.96.0.1:443"), ("fd00::1", "https://[fd00::1]:443")],
)
def test_a_pod_finds_its_server_and_service_account(host: str, server: str, tmp_path: Path) -> None:
    environ = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": "443"}
    access = config.in_cluster(environ=environ, secrets=service_account(tmp_path))
    assert (access.endpoint.server, access.namespace) == (server, "kube-system")
    assert (access.endpoint.authority, access.user.token_file) == (
        tmp_path / "ca.crt",
        tmp_path / "token",
    )


def test_a_pod_without_token_says_so(tmp_path: Path) -> None:
    environ = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}
    with pytest.raises(InputError, match="token: does not exist; does the pod set automount"):
        config.in_cluster(environ=environ, secrets=tmp_path)


def test_neither_file_nor_pod_is_an_error_that_names_both(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"neither a kubeconfig .* nor a pod \(KUBERNETES_"):
        config.find(environ={"HOME": str(tmp_path)})


def test_a_context_without_any_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"--context main: there is no kubeconfig .*\.kube/config"):
        config.find(environ={"HOME": str(tmp_path)}, context="main")


# What is wrong, and where


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"contexts": None}, "no context 'main'; expected one of none"),
        ({"current-context": ""}, "no current-context; name one of main"),
        ({"clusters": None}, r"contexts\[main\]\.cluster: there is no cluster 'c'"),
        ({"users": None}, r"contexts\[main\]\.user: there is no user 'u'"),
        ({"contexts": [{"name": "main"}]}, r"contexts\[main\]\.cluster: is missing"),
        ({"clusters": [{"cluster": {}}]}, "missing required field `name` - at `.*clusters"),
        ({"users": [{"name": "u"}, {"name": "u"}]}, "users: 'u' is there twice"),
        ({"cluster": {"server": "api"}}, r"clusters\[c\]\.server: expected https://HOST:PORT"),
        ({"cluster": {"server": 7}}, "Expected `str`, got `int` - at `.*cluster.server`"),
        (
            {"cluster": {"server": "https://a", "proxy-url": "socks5://p"}},
            r"clusters\[c\]\.proxy-url: only http:// proxies are supported",
        ),
        (
            {"cluster": {"server": "https://a", "certificate-authority": "no"}},
            r"clusters\[c\]\.certificate-authority: .*/no does not exist",
        ),
        (
            {"cluster": {"server": "https://a", "certificate-authority-data": "?"}},
            r"clusters\[c\]\.certificate-authority-data: is not base64",
        ),
        (
            {
                "cluster": {
                    "server": "https://a",
                    "certificate-authority-data": "QQ==",
                    "insecure-skip-tls-verify": True,
                }
            },
            r"clusters\[c\]\.insecure-skip-tls-verify: cannot be true when",
        ),
        (
            {"user": {"auth-provider": {"name": "gcp"}}},
            r"users\[u\]\.auth-provider: 'gcp' is no longer .* use exec",
        ),
        (
            {"user": {"username": "a", "password": "b"}},
            r"users\[u\]\.username: .*tokenFile or exec",
        ),
        ({"user": {"tokenFile": "no"}}, r"users\[u\]\.tokenFile: .*/no does not exist"),
        (
            {"user": {"client-certificate-data": "QQ=="}},
            r"users\[u\]\.client-key: is missing",
        ),
        ({"user": {"as-groups": ["a"]}}, r"users\[u\]\.as: is missing"),
        (
            {"user": plugin(apiVersion="client.authentication.k8s.io/v1alpha1")},
            r"users\[u\]\.exec\.apiVersion: expected client\.authentication\.k8s\.io/v1 or ",
        ),
        ({"user": plugin(command="")}, r"users\[u\]\.exec\.command: is missing"),
        (
            {"user": plugin(interactiveMode="")},
            r"users\[u\]\.exec\.interactiveMode: expected Never, IfAvailable or Always",
        ),
    ],
)
def test_what_is_wrong_is_said_with_file_and_field(
    change: dict[str, dict[str, object]], complaint: str, tmp_path: Path
) -> None:
    path = kubeconfig(tmp_path / "config", **change)
    with pytest.raises(InputError, match=f"^{path}: .*{complaint}"):
        load(path)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="/missing: cannot be read: No such file"):
        config.find(environ={}, kubeconfig_file=str(tmp_path / "missing"))


def test_a_file_that_is_no_yaml_is_named(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("{")
    with pytest.raises(InputError, match="config: is not YAML"):
        load(tmp_path / "config")


def test_a_list_of_files_of_which_none_exists_is_named() -> None:
    with pytest.raises(InputError, match="KUBECONFIG=/no/a:/no/b: none of these files exists"):
        config.find(environ={"KUBECONFIG": "/no/a:/no/b"})


@pytest.mark.parametrize(
    ("server", "shown"),
    [
        ("https://api.example.com:6443", "https://api.example.com:6443"),
        ("http://127.0.0.1:8001/the-token", "http://127.0.0.1:8001/***"),
        ("http://[::1]:8001/the-token/", "http://[::1]:8001/***"),
        ("https://me:password@api", "https://***@api"),
        ("https://api?key=secret", "https://api/***"),
        ("api:6443/the-token", "api:6443/***"),
    ],
)
def test_a_server_is_named_without_what_may_be_a_secret(server: str, shown: str) -> None:
    endpoint = config.Endpoint(server=server, proxy="http://me:password@proxy:3128")
    assert endpoint.shown == shown
    quoted = f"502, url='{server}', proxy='http://me:password@proxy:3128'"
    assert endpoint.without_secrets(quoted) == f"502, url='{shown}', proxy='http://***@proxy:3128'"


def test_a_server_that_is_none_is_not_quoted_with_its_path(tmp_path: Path) -> None:
    file = kubeconfig(tmp_path / "config", cluster={"server": "tcp://h/the-token"})
    with pytest.raises(InputError, match=r"not 'tcp://h/\*\*\*'"):
        load(file)
