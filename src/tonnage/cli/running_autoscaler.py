"""A running autoscaler: where it keeps its state, who leads, what it decided.

Decisions are asked for at its debug address, by its URL or by way of the Lease of the replica that
leads, or read from the file that it writes.
"""

import asyncio
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import click

from tonnage.cli import cluster_access, console
from tonnage.errors import ClusterError, InputError, TonnageError, system_errors

if TYPE_CHECKING:
    from tonnage.autoscaler.report import LoggedDecision
    from tonnage.autoscaler.room_report import RoomDocument
    from tonnage.autoscaler.scaledown.report import ScaleDownDocument
    from tonnage.cluster.client import Client
    from tonnage.cluster.resources import Named

T = TypeVar("T", bound="Named")
_Document = TypeVar("_Document", "ScaleDownDocument", "RoomDocument")

NAMESPACES = ("tonnage-system", "kube-system")
"""Where `deploy/` puts it, and where `tonnage run` keeps its state unless told otherwise."""

LEASE = "cluster-autoscaler"
DEBUG_PORT = 8086
DEFAULT_URL = f"http://127.0.0.1:{DEBUG_PORT}"
PATH = "/debug/decisions"
_LEADER = "/debug/leader"

_SECONDS = 10.0


class NobodyListensError(TonnageError):
    """Nothing answers at the address."""


def ask(url: str, path: str = PATH) -> "list[LoggedDecision]":
    """What a running autoscaler answers at its debug address."""
    return decoded(get(url, path), address(url, path))


def address(url: str, path: str) -> str:
    """Of a document at the debug address."""
    if not url.startswith(("http://", "https://")):
        raise InputError(f"--url {url!r}: expected http://HOST:PORT or https://HOST:PORT")
    return url.rstrip("/") + path


def get(url: str, path: str) -> bytes:
    """What is answered at a path of the debug address."""
    import urllib.error
    import urllib.request

    where = address(url, path)
    # No proxy of the environment: the autoscaler is on this machine or in the cluster.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(where, timeout=_SECONDS) as answer:
            data: bytes = answer.read()
            return data
    except urllib.error.HTTPError as error:
        hint = "; is that its --debug-address?" if error.code in (403, 404) else ""
        raise TonnageError(f"{where}: answered {error.code} {error.reason}{hint}") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        reason = getattr(reason, "strerror", None) or reason  # without its number
        raise NobodyListensError(
            f"{where}: {reason}; is an autoscaler listening there? --url says where it does, its"
            " --debug-address that it does"
        ) from None


def contents(file: str) -> bytes:
    """The bytes of a file; `-` is standard input."""
    with system_errors(file), click.open_file(file, "rb") as stream:
        data: bytes = stream.read()
        return data


def read(file: str) -> "list[LoggedDecision]":
    """What a decision file holds; a line that was cut off is left out with a note."""
    data = contents(file)
    if data.lstrip().startswith(b"["):
        return decoded(data, file)
    import msgspec

    found: list[LoggedDecision] = []
    cut_off: list[int] = []
    for number, line in enumerate(data.split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            msgspec.json.decode(line)
        except msgspec.DecodeError:
            cut_off.append(number)
        else:
            found.extend(decoded(b"[" + line + b"]", f"{file}:{number}"))
    if cut_off and not found:
        raise InputError(f"{file}: no line is a decision; expected one line of JSON for each")
    for number in cut_off:
        # Whoever wrote it was killed meanwhile; that must not hide the other decisions.
        console.note(f"{file}:{number}: the line is not complete, and left out")
    return found


def decoded(data: bytes, where: str) -> "list[LoggedDecision]":
    import msgspec

    from tonnage.autoscaler.report import LoggedDecision

    try:
        return msgspec.json.decode(data, type=list[LoggedDecision])
    except msgspec.DecodeError as error:
        raise InputError(f"{where}: not decisions of an autoscaler: {error}") from None


class RunningAutoscaler(NamedTuple):
    """The one that is asked: by its URL, or else the leader of a cluster, by its Lease."""

    url: str | None
    live: cluster_access.ClusterChoice
    namespace: str | None

    def decisions(self, path: str) -> "tuple[str, list[LoggedDecision]]":
        """From where, and the decisions there are."""
        where, data = self.document(path)
        found = decoded(data, where)
        if not found and where.startswith("http"):
            refuse_follower(where.removesuffix(path))
        return where.removesuffix(path), found

    def document(self, path: str) -> tuple[str, bytes]:
        """From where, and what is answered there."""
        if self.url is not None:
            return address(self.url, path), get(self.url, path)
        if not self.live.is_given and not self.namespace:
            try:
                data = get(DEFAULT_URL, path)
                return address(DEFAULT_URL, path), data
            except NobodyListensError:
                pass
        return asyncio.run(self._of_leader(path))

    def told(self, path: str, kind: type[_Document], about: str) -> tuple[str, _Document]:
        """From where, and the document there; a replica that does not lead has nothing to tell."""
        import msgspec

        where, data = self.document(path)
        try:
            found = msgspec.json.decode(data, type=kind)
        except msgspec.DecodeError as error:
            raise InputError(f"{where}: not what an autoscaler tells of {about}: {error}") from None
        if not found.time and where.startswith("http"):
            refuse_follower(where.removesuffix(path))
        return where, found

    async def _of_leader(self, path: str) -> tuple[str, bytes]:
        import random

        from tonnage.clock import SystemClock
        from tonnage.cluster import portforward
        from tonnage.cluster.client import Client
        from tonnage.cluster.errors import ConnectionFailed
        from tonnage.cluster.http import HttpTransport

        access = cluster_access.find(self.live)
        transport = HttpTransport(access, clock=SystemClock(), environ=os.environ)
        try:
            client = Client(transport, clock=SystemClock(), rng=random.Random())
            try:
                found = await leader(client, namespace=self.namespace)
            except ClusterError as error:
                told = str(error).replace("--namespace says", "--autoscaler-namespace says")
                raise ClusterError(told) from None
            port = DEBUG_PORT
            try:
                data = await portforward.get(
                    transport, path, namespace=found.namespace, pod=found.pod, port=port
                )
            except ConnectionFailed as error:
                raise TonnageError(
                    f"pod {found.namespace}/{found.pod} leads and could not be asked: {error}; try"
                    f" `kubectl -n {found.namespace} port-forward pod/{found.pod} {port}` and then"
                    " tonnage why again"
                ) from None
        finally:
            await transport.close()
        return f"pod {found.namespace}/{found.pod}", data


def refuse_follower(url: str) -> None:
    """A replica that does not lead decides nothing: say who does."""
    import msgspec

    try:
        told = msgspec.json.decode(get(url, _LEADER))
    except (TonnageError, msgspec.DecodeError):
        return
    if not told.get("leads"):
        leader = told.get("leader") or "nobody at the moment"
        raise TonnageError(
            f"{url}: this replica ({told.get('identity')}) does not lead and decides nothing:"
            f" {leader} leads; without --url the leader is asked"
        )


class Leader(NamedTuple):
    """The pod that leads, as its Lease says."""

    namespace: str
    pod: str
    identity: str


async def find(
    client: "Client", kind: type[T], name: str, *, namespace: str | None
) -> tuple[str, T]:
    """The object of this name, and the namespace it is in; an error says where was looked."""
    from tonnage.cluster import errors

    tried: list[str] = []
    for place in [namespace] if namespace else NAMESPACES:
        try:
            return place, await client.get(kind, name, namespace=place)
        except errors.NotFound:
            tried.append(place)
        except errors.Forbidden as error:
            tried.append(f"{place} (not allowed to {error.verb} {error.kind})")
    raise ClusterError(
        f"no {kind.__name__} {name!r} in {_or(tried)}: nothing says that an autoscaler of Tonnage"
        " runs there; --namespace says where it keeps its state"
    )


async def leader(client: "Client", *, namespace: str | None) -> Leader:
    """The replica that leads."""
    from tonnage.objects.workloads import Lease

    place, lease = await find(client, Lease, LEASE, namespace=namespace)
    identity = lease.spec.holder_identity or ""
    if not identity:
        raise TonnageError(f"Lease {place}/{LEASE}: nobody leads at the moment")
    return Leader(place, identity.rpartition("_")[0] or identity, identity)


def _or(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
