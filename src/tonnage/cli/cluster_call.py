"""One conversation with a live cluster, for commands that ask or change something and end."""

import os
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from tonnage.cli import cluster_access, cluster_errors, cluster_source
from tonnage.errors import ClusterError

if TYPE_CHECKING:
    from tonnage.cluster.calls import CallPatience
    from tonnage.cluster.client import Client

T = TypeVar("T")


def talk(
    act: "Callable[[Client], Awaitable[T]]",
    *,
    kubeconfig: str | None,
    context: str | None,
    read_only: bool = False,
) -> T:
    """What becomes of it."""
    import asyncio

    from tonnage.cluster import errors
    from tonnage.service import connections

    access = cluster_access.find(kubeconfig=kubeconfig, context=context)

    async def main() -> T:
        async with connections.connected(
            access,
            environ=os.environ,
            read_only=read_only,
            patience=patience(cluster_source.request_timeout()),
        ) as reached:
            return await act(reached.client)

    try:
        return asyncio.run(main())
    except ClusterError as error:
        if isinstance(error, errors.NotFound | errors.Conflict):
            raise
        raise cluster_errors.explained(error, access) from error


def patience(timeout: float | None) -> "CallPatience | None":
    """How long requests may take; with a time of the user's own they are sent once."""
    from tonnage.cluster.calls import CallPatience

    return None if timeout is None else CallPatience(timeout=timeout, attempts=1)
