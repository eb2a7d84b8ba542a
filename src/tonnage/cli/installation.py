"""Where Tonnage runs in a cluster: the namespace of its state, and the replica that leads."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from tonnage.errors import ClusterError, TonnageError

if TYPE_CHECKING:
    from tonnage.cluster.client import Client
    from tonnage.cluster.resources import Named

T = TypeVar("T", bound="Named")

NAMESPACES = ("tonnage-system", "kube-system")
"""Where `deploy/` puts it, and where `tonnage run` keeps its state unless told otherwise."""

LEASE = "cluster-autoscaler"
DEBUG_PORT = 8086


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
