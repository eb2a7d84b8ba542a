"""Writes down what has to survive a restart, whoever of us asks for it first."""

import asyncio
import logging
from collections.abc import Callable

from tonnage.autoscaler.actuator import NotLeadingError
from tonnage.autoscaler.state import State, StateStore
from tonnage.cluster import errors
from tonnage.cluster.client import Client
from tonnage.errors import ClusterError

_log = logging.getLogger(__name__)


class StateWriter:
    """`state` is what is to be written; `recall` is told what another leader wrote meanwhile.

    `refused` is the right that was missing at the last write, if one was.
    """

    def __init__(
        self,
        client: Client,
        *,
        namespace: str,
        state: Callable[[], State],
        recall: Callable[[State], None],
    ) -> None:
        self._store = StateStore(client, namespace=namespace)
        self._state = state
        self._recall = recall
        # Removals write down where they are, too.
        self._writing = asyncio.Lock()
        self.refused: errors.Forbidden | None = None

    @property
    def problem(self) -> str:
        """Why what is stored could not be used or written over, until it is."""
        return self._store.problem

    async def load(self) -> State | None:
        """What was last written; `None` if that cannot be read."""
        try:
            return await self._store.load()
        except ClusterError as error:
            _log.warning("stored state not read", extra={"error": str(error)})
            return None

    async def save(self) -> str:
        """Write, and say why that failed, if it did for a reason that is new."""
        try:
            async with self._writing:
                await self._store.save(self._state())
        except errors.Conflict as error:
            stored = await self._store.forget()
            if stored is not None:
                self._recall(stored)
            raise NotLeadingError(
                f"the stored state was changed by somebody else: {error}"
            ) from error
        except ClusterError as error:
            _log.warning("state not stored", extra={"error": str(error)})
            self.refused = error if isinstance(error, errors.Forbidden) else None
            problem = f"state not stored, a restart would lose it: {error}"
            if problem == self._store.problem:
                return ""
            self._store.problem = problem
            return problem
        self.refused = None
        self._store.problem = ""
        return ""
