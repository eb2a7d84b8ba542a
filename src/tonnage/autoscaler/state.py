"""What has to survive a restart, in a ConfigMap of its own.

The provider and the cluster tell almost everything; this is the rest: since when nodes are
waited for, who is backed off, since when nodes lack drivers, when nodes came that say otherwise,
what nodes of an empty group looked like, what instance types taught, which nodes are going and
since when others could. Losing it costs patience, never a second purchase.
"""

import asyncio
import logging
from collections.abc import Callable

import msgspec

from tonnage.autoscaler.actuator import NotLeadingError
from tonnage.autoscaler.scaledown.removals import RemovalMemory
from tonnage.cluster import errors
from tonnage.cluster.client import Client
from tonnage.cluster.records import ConfigMap
from tonnage.errors import ClusterError
from tonnage.groups.limit_lessons import Lesson
from tonnage.groups.memory import Absences, RememberedGroup, TemplateMemory
from tonnage.groups.registry import RegistryState
from tonnage.objects.codec import UNDECODABLE
from tonnage.objects.meta import ObjectMeta, Record

NAME = "tonnage-state"
VERSION = 1
KEY = "state"

_REFRESH = 300.0
"""Seconds after which what was seen is written again though nothing but its time has changed."""

_LARGEST = 900_000
"""Bytes; an object of the API holds a megabyte."""

_MOST_ABSENCES = 5000
"""Nodes without a driver whose time is written down."""

_MOST_BIRTHS = 1000
"""Nodes whose creation time cannot be true that are written down: the latest."""

_MOST_PODS = 5000
"""Pods that nodes were bought for whose names are written down."""

_log = logging.getLogger(__name__)


class State(Record, frozen=True, kw_only=True):
    version: int = VERSION
    registry: RegistryState = RegistryState()
    memory: TemplateMemory = TemplateMemory()
    scale_down: RemovalMemory = RemovalMemory()


class StateStore:
    """Writes only changes, and only over what it has itself read or written: `Conflict` if not."""

    def __init__(self, client: Client, *, namespace: str) -> None:
        self._client = client
        self._namespace = namespace
        self._held: ConfigMap | None = None
        self._written: State | None = None
        self._known: State | None = None
        """What was last found to be no different from what is written."""
        self.problem = ""
        """Why what is stored could not be used or written over, until it is."""
        self._garbled = False
        """The ConfigMap is there, and the server's answer could not be understood."""

    async def load(self) -> State:
        """The state last written; an empty one if there is none, or none we can read."""
        self._known = None
        self.problem = ""
        try:
            self._held = await self._client.get(ConfigMap, NAME, namespace=self._namespace)
        except errors.NotFound:
            self._held, self._written = None, None
            return State()
        except errors.ServerError as error:
            self._garbled = error.status < 300
            raise
        self._garbled = False
        text = self._held.data.get(KEY, "{}")
        try:
            state = msgspec.json.decode(text, type=State)
        except UNDECODABLE as error:
            self.problem = (
                f"ConfigMap {self._namespace}/{NAME}: data.{KEY}: not understood, going on"
                f" without what was stored: {error}"
            )
            _log.error("stored state not understood", extra={"error": str(error)})
            return State()
        if state.version > VERSION:
            _log.warning("stored state is of a newer version", extra={"version": state.version})
        self._written = state
        return state

    async def save(self, state: State) -> bool:
        """Write the state if it has changed; whether it was written."""
        known = self._known
        # To look closely takes longer than most rounds; memory that has changed is another object.
        if (
            known is not None
            and state.memory is known.memory
            and state.registry == known.registry
            and state.scale_down == known.scale_down
        ):
            return False
        slim = _slim(state)
        if self._written is not None and not _differs(slim, self._written):
            self._known = state
            return False
        if self._garbled:
            await self.load()
        data = {KEY: msgspec.json.encode(slim).decode()}
        if self._held is None:
            meta = ObjectMeta(name=NAME, namespace=self._namespace)
            self._held = await self._client.create(ConfigMap, ConfigMap(metadata=meta, data=data))
        else:
            changed = msgspec.structs.replace(self._held, data={**self._held.data, **data})
            self._held = await self._client.replace(ConfigMap, changed)
        self._written, self._known = slim, state
        return True

    async def forget(self) -> State | None:
        """After a conflict: learn what is there now, so that the next write may succeed."""
        stored: State | None = None
        try:
            stored = await self.load()
        except ClusterError as error:
            _log.warning("stored state not read", extra={"error": str(error)})
        self._written = self._known = None
        return stored


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


def _slim(state: State) -> State:
    """The state without what can be had elsewhere, and within what an object can hold."""
    groups = {
        # The pods that come with a node are added from their DaemonSets anyway.
        name: msgspec.structs.replace(
            one, template=msgspec.structs.replace(one.template, daemon_pods=())
        )
        for name, one in state.memory.groups.items()
    }
    newest_first = sorted(groups.items(), key=lambda item: (-item[1].seen, item[0]))
    kept: dict[str, RememberedGroup] = {}
    absences = _longest(state.memory.absences)
    registry = _bounded(state.registry)
    births = dict(sorted(state.memory.births.items(), key=_latest)[:_MOST_BIRTHS])
    kept_first = (registry, state.scale_down, state.memory.lessons, absences, births)
    room = _LARGEST - len(msgspec.json.encode(kept_first))
    for name, one in newest_first:
        room -= len(msgspec.json.encode(one))
        if room < 0:
            _log.warning("too many groups to remember", extra={"kept": len(kept)})
            break
        kept[name] = one
    memory = msgspec.structs.replace(
        state.memory, groups=dict(sorted(kept.items())), absences=absences, births=births
    )
    return State(registry=registry, memory=memory, scale_down=state.scale_down)


def _bounded(registry: RegistryState) -> RegistryState:
    """The registry with as many pods of its requests as there is room for, the latest first."""
    room = _MOST_PODS
    if sum(len(request.pods) for request in registry.requests.values()) <= room:
        return registry
    requests = dict(registry.requests)
    for name, request in sorted(requests.items(), key=lambda item: (-item[1].at, item[0])):
        requests[name] = msgspec.structs.replace(request, pods=request.pods[-room:] if room else ())
        room -= len(requests[name].pods)
    return msgspec.structs.replace(registry, requests=requests)


def _longest(absences: Absences) -> dict[str, dict[str, float]]:
    """As many as there is room for; those that are left out get their time anew."""
    every = sorted(
        (since, driver, node) for driver, nodes in absences.items() for node, since in nodes.items()
    )
    kept: dict[str, dict[str, float]] = {}
    for since, driver, node in every[:_MOST_ABSENCES]:
        kept.setdefault(driver, {})[node] = since
    return kept


def _latest(born: tuple[str, float]) -> tuple[float, str]:
    name, at = born
    return -at, name


def _differs(new: State, old: State) -> bool:
    if new.memory.absences != old.memory.absences or new.memory.births != old.memory.births:
        return True
    if new.scale_down != old.scale_down:
        return True
    if new.memory.times.extremes != old.memory.times.extremes:
        return True
    if new.registry != old.registry or new.memory.groups.keys() != old.memory.groups.keys():
        return True
    if _lessons_differ(new.memory.lessons, old.memory.lessons):
        return True
    return any(
        one.seen - old.memory.groups[name].seen >= _REFRESH
        or _timeless(one) != _timeless(old.memory.groups[name])
        for name, one in new.memory.groups.items()
    )


def _lessons_differ(new: tuple[Lesson, ...], old: tuple[Lesson, ...]) -> bool:
    return len(new) != len(old) or any(
        one.seen - before.seen >= _REFRESH
        or msgspec.structs.replace(one, seen=before.seen) != before
        for one, before in zip(new, old, strict=True)
    )


def _timeless(one: RememberedGroup) -> RememberedGroup:
    drivers = {
        name: msgspec.structs.replace(driver, seen=0.0) for name, driver in one.drivers.items()
    }
    return msgspec.structs.replace(one, seen=0.0, drivers=drivers)
