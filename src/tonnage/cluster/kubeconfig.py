"""The shape of kubeconfig files, and how several become one.

Kubernetes says of merging: the first file to name a cluster, user or context keeps it whole, the
first to set the current context keeps that too. Each entry remembers its file, because paths in
it are relative to that file and because a message should say where to look.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

import msgspec
import yaml

from tonnage.errors import InputError

T_co = TypeVar("T_co", covariant=True)
N = TypeVar("N", bound="NamedPart")


class Extension(msgspec.Struct, kw_only=True):
    name: str = ""
    extension: object = None


class KubeconfigCluster(msgspec.Struct, kw_only=True, rename="kebab"):
    server: str = ""
    tls_server_name: str = ""
    insecure_skip_tls_verify: bool = False
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    proxy_url: str = ""
    extensions: list[Extension] | None = None


class Variable(msgspec.Struct, kw_only=True):
    name: str
    value: str = ""


class Exec(msgspec.Struct, kw_only=True, rename="camel"):
    api_version: str = ""
    command: str = ""
    args: list[str] | None = None
    env: list[Variable] | None = None
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: str = ""


class AuthProvider(msgspec.Struct, kw_only=True):
    name: str = ""


class KubeconfigUser(msgspec.Struct, kw_only=True, rename="kebab"):
    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    token: str = ""
    token_file: str = msgspec.field(default="", name="tokenFile")
    as_user: str = msgspec.field(default="", name="as")
    as_uid: str = ""
    as_groups: list[str] | None = None
    as_user_extra: dict[str, list[str]] | None = None
    username: str = ""
    password: str = ""
    auth_provider: AuthProvider | None = None
    exec: Exec | None = None


class KubeconfigContext(msgspec.Struct, kw_only=True):
    cluster: str = ""
    user: str = ""
    namespace: str = ""


class NamedPart(msgspec.Struct, kw_only=True):
    name: str


class NamedCluster(NamedPart, kw_only=True):
    cluster: KubeconfigCluster = msgspec.field(default_factory=KubeconfigCluster)


class NamedUser(NamedPart, kw_only=True):
    user: KubeconfigUser = msgspec.field(default_factory=KubeconfigUser)


class NamedContext(NamedPart, kw_only=True):
    context: KubeconfigContext = msgspec.field(default_factory=KubeconfigContext)


class File(msgspec.Struct, kw_only=True, rename="kebab"):
    current_context: str | None = None
    clusters: list[NamedCluster] | None = None
    users: list[NamedUser] | None = None
    contexts: list[NamedContext] | None = None


class KubeconfigEntry(Generic[T_co]):
    """A cluster, user or context together with the place it was read from."""

    def __init__(self, value: T_co, *, file: Path, where: str) -> None:
        self.value = value
        self._file = file
        self._where = where

    def path(self, given: str) -> Path:
        """A path that the entry names, as seen from the entry's file."""
        return self._file.parent / given

    def wrong(self, field: str, why: str) -> InputError:
        return InputError(f"{self._file}: {self._where}.{field}: {why}")


class Merged:
    """Several files seen as one."""

    def __init__(self) -> None:
        self.current_context = ""
        self.clusters: dict[str, KubeconfigEntry[KubeconfigCluster]] = {}
        self.users: dict[str, KubeconfigEntry[KubeconfigUser]] = {}
        self.contexts: dict[str, KubeconfigEntry[KubeconfigContext]] = {}


def merge(paths: list[Path]) -> Merged:
    """Read the files in order; what an earlier one says is not changed by a later one."""
    merged = Merged()
    for path in paths:
        file = read(path)
        merged.current_context = merged.current_context or file.current_context or ""
        _add(merged.clusters, file.clusters, "clusters", path, lambda named: named.cluster)
        _add(merged.users, file.users, "users", path, lambda named: named.user)
        _add(merged.contexts, file.contexts, "contexts", path, lambda named: named.context)
    return merged


def read(path: Path) -> File:
    try:
        data = yaml.load(path.read_bytes(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: is not YAML: {' '.join(str(error).split())}") from error
    try:
        return msgspec.convert(_without_nulls(data) if data is not None else {}, File)
    except msgspec.ValidationError as error:
        raise InputError(f"{path}: is not a kubeconfig: {error}") from error


def _without_nulls(value: object) -> object:
    """A field without a value is a field that is not there; tools leave such behind."""
    if isinstance(value, dict):
        return {key: _without_nulls(one) for key, one in value.items() if one is not None}
    if isinstance(value, list):
        return [_without_nulls(one) for one in value]
    return value


def _add(
    entries: dict[str, KubeconfigEntry[T_co]],
    found: list[N] | None,
    field: str,
    path: Path,
    value: Callable[[N], T_co],
) -> None:
    names: set[str] = set()
    for named in found or ():
        if named.name in names:
            raise InputError(f"{path}: {field}: {named.name!r} is there twice")
        names.add(named.name)
        where = f"{field}[{named.name}]"
        entries.setdefault(named.name, KubeconfigEntry(value(named), file=path, where=where))
