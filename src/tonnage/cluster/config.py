"""Where the API server is and who we are there: kubeconfig files, or the pod we run in.

What is found is data only (`Access`); `auth` and `http` make connections of it. Everything wrong
with a file is an `InputError` that names the file and the field.
"""

import base64
import binascii
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias
from urllib.parse import quote, urlsplit

import msgspec

from tonnage.cluster import kubeconfig
from tonnage.cluster.transport import Pairs
from tonnage.errors import InputError

Source: TypeAlias = bytes | Path
"""PEM data given inline, or the file that holds it and may be rotated under us."""

EXEC_GROUP = "client.authentication.k8s.io"
EXEC_VERSIONS = (f"{EXEC_GROUP}/v1", f"{EXEC_GROUP}/v1beta1")
SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")

_ADDRESS = re.compile(r"(\w+://)?(?:([^/?#]*)@)?([^/?#]*)(.*)", re.DOTALL)


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """An API server and how to know that it is the right one."""

    server: str
    authority: Source | None = None
    insecure: bool = False
    server_name: str = ""
    proxy: str = ""

    @property
    def shown(self) -> str:
        """The server as messages and logs may name it."""
        return masked(self.server)

    def without_secrets(self, text: str) -> str:
        """What a library said, which may quote the addresses as they are."""
        for url in filter(None, (self.server, self.proxy)):
            text = text.replace(url, masked(url))
        return text


class ExecPlugin(msgspec.Struct, frozen=True, kw_only=True):
    """A program that prints credentials."""

    api_version: str
    command: str
    args: tuple[str, ...] = ()
    env: Pairs = ()
    install_hint: str = ""
    interactive_mode: str = "IfAvailable"
    cluster_info: dict[str, object] | None = None


class User(msgspec.Struct, frozen=True, kw_only=True):
    """Who we are. A token file wins over a token, both win over a plugin.

    A certificate is shown beside any of them, and wins over one that a plugin prints.
    """

    token: str = ""
    token_file: Path | None = None
    certificate: Source | None = None
    key: Source | None = None
    plugin: ExecPlugin | None = None
    impersonation: Pairs = ()


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """All it takes to talk to one cluster as one user."""

    endpoint: Endpoint
    user: User = User()
    namespace: str = "default"
    context: str = ""


def find(
    *, environ: Mapping[str, str], kubeconfig_file: str | None = None, context: str | None = None
) -> Access:
    """The access kubectl would choose.

    In this order: the file named, the files of `KUBECONFIG` merged, `~/.kube/config` if there is
    one, the service account of the pod we run in.
    """
    if kubeconfig_file:
        return from_files([Path(kubeconfig_file)], context=context)
    if environ.get("KUBECONFIG"):
        named = [Path(part) for part in environ["KUBECONFIG"].split(":") if part]
        existing = [path for path in named if path.exists()]
        if not existing:
            raise InputError(f"KUBECONFIG={environ['KUBECONFIG']}: none of these files exists")
        return from_files(existing, context=context)
    home = Path(environ.get("HOME", "/")) / ".kube" / "config"
    if home.exists():
        return from_files([home], context=context)
    if context:
        raise InputError(f"--context {context}: there is no kubeconfig to look it up in ({home})")
    return in_cluster(environ=environ)


def masked(url: str) -> str:
    """An address without what may be a secret in it: the user and whatever follows the host.

    The embedded cluster's token is the first step of the path; proxies have passwords.
    """
    parts = _ADDRESS.fullmatch(url)
    if parts is None:
        return "***"
    scheme, user, host, rest = parts.groups()
    return f"{scheme or ''}{'***@' if user else ''}{host}{'/***' if rest.strip('/') else ''}"


def from_files(paths: list[Path], *, context: str | None = None) -> Access:
    """The access a context of the merged files describes: the current one unless named."""
    merged = kubeconfig.merge(paths)
    name = context or merged.current_context
    files = ", ".join(str(path) for path in paths)
    if not name:
        raise InputError(f"{files}: no current-context; name one of {_names(merged.contexts)}")
    chosen = merged.contexts.get(name)
    if chosen is None:
        raise InputError(f"{files}: no context {name!r}; expected one of {_names(merged.contexts)}")
    if not chosen.value.cluster:
        raise chosen.wrong("cluster", "is missing")
    cluster = merged.clusters.get(chosen.value.cluster)
    if cluster is None:
        raise chosen.wrong("cluster", f"there is no cluster {chosen.value.cluster!r}")
    user = merged.users.get(chosen.value.user)
    if user is None and chosen.value.user:
        raise chosen.wrong("user", f"there is no user {chosen.value.user!r}")
    endpoint = _endpoint(cluster)
    return Access(
        endpoint=endpoint,
        user=User() if user is None else _user(user, cluster, endpoint),
        namespace=chosen.value.namespace or "default",
        context=name,
    )


def in_cluster(*, environ: Mapping[str, str], secrets: Path = SERVICE_ACCOUNT) -> Access:
    """The access of the service account whose token is mounted into our pod."""
    host = environ.get("KUBERNETES_SERVICE_HOST", "")
    port = environ.get("KUBERNETES_SERVICE_PORT", "")
    if not host or not port:
        raise InputError(
            "no cluster: neither a kubeconfig (KUBECONFIG) nor a pod (KUBERNETES_SERVICE_HOST)"
        )
    token = secrets / "token"
    authority = secrets / "ca.crt"
    for path in (token, authority):
        if not path.exists():
            raise InputError(
                f"{path}: does not exist; does the pod set automountServiceAccountToken: false?"
            )
    namespace = secrets / "namespace"
    bracketed = f"[{host}]" if ":" in host else host
    return Access(
        endpoint=Endpoint(server=f"https://{bracketed}:{port}", authority=authority),
        user=User(token_file=token),
        namespace=namespace.read_text().strip() if namespace.exists() else "default",
    )


def _endpoint(cluster: kubeconfig.KubeconfigEntry[kubeconfig.KubeconfigCluster]) -> Endpoint:
    value = cluster.value
    parts = urlsplit(value.server)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise cluster.wrong("server", f"expected https://HOST:PORT, not {masked(value.server)!r}")
    if value.proxy_url and urlsplit(value.proxy_url).scheme != "http":
        raise cluster.wrong(
            "proxy-url", f"only http:// proxies are supported, not {masked(value.proxy_url)!r}"
        )
    authority = _source(
        cluster,
        "certificate-authority",
        data=value.certificate_authority_data,
        path=value.certificate_authority,
    )
    if authority is not None and value.insecure_skip_tls_verify:
        raise cluster.wrong(
            "insecure-skip-tls-verify", "cannot be true when a certificate authority is given"
        )
    return Endpoint(
        server=value.server.rstrip("/"),
        authority=authority,
        insecure=value.insecure_skip_tls_verify,
        server_name=value.tls_server_name,
        proxy=value.proxy_url,
    )


def _user(
    user: kubeconfig.KubeconfigEntry[kubeconfig.KubeconfigUser],
    cluster: kubeconfig.KubeconfigEntry[kubeconfig.KubeconfigCluster],
    endpoint: Endpoint,
) -> User:
    value = user.value
    if value.auth_provider is not None:
        raise user.wrong(
            "auth-provider",
            f"{value.auth_provider.name!r} is no longer part of Kubernetes clients; use exec with"
            " a credential plugin (gke-gcloud-auth-plugin for gcp, kubelogin for azure and oidc)",
        )
    if value.username or value.password:
        raise user.wrong(
            "username", "API servers no longer take passwords; use token, tokenFile or exec"
        )
    certificate = _source(
        user,
        "client-certificate",
        data=value.client_certificate_data,
        path=value.client_certificate,
    )
    key = _source(user, "client-key", data=value.client_key_data, path=value.client_key)
    if (certificate is None) != (key is None):
        missing = "client-certificate" if certificate is None else "client-key"
        raise user.wrong(missing, "is missing; a certificate and its key come together")
    token_file = user.path(value.token_file) if value.token_file else None
    if token_file is not None and not token_file.exists():
        raise user.wrong("tokenFile", f"{token_file} does not exist")
    known = bool(value.token) or token_file is not None
    return User(
        token=value.token,
        token_file=token_file,
        certificate=certificate,
        key=key,
        plugin=None
        if known or value.exec is None
        else _plugin(user, value.exec, cluster, endpoint),
        impersonation=_impersonation(user),
    )


def _plugin(
    user: kubeconfig.KubeconfigEntry[kubeconfig.KubeconfigUser],
    plugin: kubeconfig.Exec,
    cluster: kubeconfig.KubeconfigEntry[kubeconfig.KubeconfigCluster],
    endpoint: Endpoint,
) -> ExecPlugin:
    if plugin.api_version not in EXEC_VERSIONS:
        raise user.wrong(
            "exec.apiVersion", f"expected {' or '.join(EXEC_VERSIONS)}, not {plugin.api_version!r}"
        )
    if not plugin.command:
        raise user.wrong("exec.command", "is missing")
    mode = plugin.interactive_mode
    if not mode and plugin.api_version != EXEC_VERSIONS[0]:
        mode = "IfAvailable"
    if mode not in ("Never", "IfAvailable", "Always"):
        raise user.wrong(
            "exec.interactiveMode", f"expected Never, IfAvailable or Always, not {mode!r}"
        )
    command = plugin.command
    return ExecPlugin(
        api_version=plugin.api_version,
        # Absolute, because a name without a slash would be looked for elsewhere.
        command=str(user.path(command).absolute()) if "/" in command else command,
        args=tuple(plugin.args or ()),
        env=tuple((variable.name, variable.value) for variable in plugin.env or ()),
        install_hint=plugin.install_hint,
        interactive_mode=mode,
        cluster_info=_cluster_info(cluster, endpoint) if plugin.provide_cluster_info else None,
    )


def _cluster_info(
    cluster: kubeconfig.KubeconfigEntry[kubeconfig.KubeconfigCluster], endpoint: Endpoint
) -> dict[str, object]:
    """What a plugin is told about the cluster, in the words of a kubeconfig."""
    authority = endpoint.authority
    if isinstance(authority, Path):
        authority = authority.read_bytes()
    config = next(
        (
            extension.extension
            for extension in cluster.value.extensions or ()
            if extension.name == f"{EXEC_GROUP}/exec"
        ),
        None,
    )
    info: dict[str, object] = {
        "server": endpoint.server,
        "tls-server-name": endpoint.server_name,
        "insecure-skip-tls-verify": endpoint.insecure,
        "certificate-authority-data": base64.b64encode(authority or b"").decode(),
        "proxy-url": endpoint.proxy,
        "config": config,
    }
    return {key: value for key, value in info.items() if value}


def _impersonation(user: kubeconfig.KubeconfigEntry[kubeconfig.KubeconfigUser]) -> Pairs:
    value = user.value
    if not value.as_user:
        if value.as_uid or value.as_groups or value.as_user_extra:
            raise user.wrong("as", "is missing; whom do as-uid, as-groups, as-user-extra describe?")
        return ()
    headers = [("Impersonate-User", value.as_user)]
    if value.as_uid:
        headers.append(("Impersonate-Uid", value.as_uid))
    headers += [("Impersonate-Group", group) for group in value.as_groups or ()]
    for key, extras in (value.as_user_extra or {}).items():
        name = f"Impersonate-Extra-{quote(key.lower(), safe='')}"
        headers += [(name, extra) for extra in extras]
    return tuple(headers)


def _source(
    entry: kubeconfig.KubeconfigEntry[object], field: str, *, data: str, path: str
) -> Source | None:
    """The bytes behind `FIELD-data`, which wins, or the file behind `FIELD`."""
    if data:
        try:
            # Long lines are often folded; anything else that is not of the alphabet is a mistake.
            return base64.b64decode("".join(data.split()), validate=True)
        except (binascii.Error, ValueError) as error:
            raise entry.wrong(f"{field}-data", f"is not base64: {error}") from error
    if not path:
        return None
    resolved = entry.path(path)
    if not resolved.exists():
        raise entry.wrong(field, f"{resolved} does not exist")
    return resolved


def _names(contexts: Mapping[str, object]) -> str:
    return ", ".join(sorted(contexts)) or "none (the files hold no contexts)"
