"""Our own client, talking to the real server."""

import os
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tonnage.clock import SystemClock
from tonnage.cluster import config
from tonnage.cluster.client import Client
from tonnage.cluster.http import HttpTransport


@asynccontextmanager
async def connected(kubeconfig: Path) -> AsyncIterator[Client]:
    """A client that is whoever the kubeconfig is of."""
    clock = SystemClock()
    access = config.from_files([kubeconfig])
    transport = HttpTransport(access, clock=clock, environ=os.environ)
    try:
        yield Client(transport, clock=clock, rng=random.Random())
    finally:
        await transport.close()
