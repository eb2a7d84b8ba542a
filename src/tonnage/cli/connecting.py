"""One conversation with a live cluster, for commands that ask or change something and end."""

import os
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
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

    from tonnage.cluster import config
    from tonnage.service import connections

    access = config.find(environ=os.environ, kubeconfig_file=kubeconfig, context=context)

    async def main() -> T:
        async with connections.connected(
            access, environ=os.environ, read_only=read_only
        ) as reached:
            return await act(reached.client)

    return asyncio.run(main())
