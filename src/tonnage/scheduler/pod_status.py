"""What pods that wait are told: their PodScheduled condition, an Event, the node they are promised.

Deciding never waits for it. What is to be said about a pod replaces what was not yet said. A new
reason is told at once. If only the numbers in the message are others, or a reason does not hold any
more, as with every node that comes while thousands of pods wait, that is told once a minute.
"""

import asyncio
import logging
import re
from collections.abc import Callable
from datetime import datetime
from functools import lru_cache

import msgspec

from tonnage.clock import Clock
from tonnage.cluster import errors
from tonnage.cluster.client import Client, PatchStyle
from tonnage.cluster.events import Recorder, Severity
from tonnage.errors import ClusterError
from tonnage.objects.meta import Condition
from tonnage.objects.pods import Pod
from tonnage.objects.timestamps import rfc3339

UNSCHEDULABLE, SCHEDULER_ERROR = "Unschedulable", "SchedulerError"

_WRITERS = 8

_TELL_EVERY = 60.0
"""Seconds between two messages to a pod of which the second has no new reason."""

_NUMBER = re.compile(r"\d+")
_BETWEEN_REASONS = re.compile(r"[,.:] ")

_log = logging.getLogger(__name__)


class PodCondition(msgspec.Struct, frozen=True, kw_only=True):
    """Why a pod has no node, and the node it is promised, if any."""

    reason: str
    message: str
    nominated: str = ""


class PodStatusWriter:
    """Writes the newest word about each pod, and nothing that the pod says already.

    `waiting` is the pod of that key as it is now, or nothing if it does not wait for us.
    """

    def __init__(
        self,
        client: Client,
        recorder: Recorder,
        *,
        clock: Clock,
        waiting: Callable[[str], Pod | None],
    ) -> None:
        self._client = client
        self._recorder = recorder
        self._clock = clock
        self._find_waiting = waiting
        self._waiting: dict[str, tuple[Pod, PodCondition]] = {}
        self._keys: asyncio.Queue[str] = asyncio.Queue()
        self._later: dict[str, PodCondition] = {}
        self._some_are_told_later = asyncio.Event()

    def refuse(self, pod: Pod, word: PodCondition) -> None:
        """Say why the pod was not placed, with an Event; without a new reason, in a while."""
        if _says_all_reasons(pod, word):
            key = pod.metadata.key
            self._waiting.pop(key, None)
            self._later[key] = word
            self._some_are_told_later.set()
        else:
            self._refuse_now(pod, word)

    def say(self, pod: Pod, word: PodCondition) -> None:
        """Say it at once, without an Event."""
        key = pod.metadata.key
        self._later.pop(key, None)
        if says(pod, word):
            self._waiting.pop(key, None)
            return
        if key not in self._waiting:
            self._keys.put_nowait(key)
        self._waiting[key] = (pod, word)

    def drop(self, key: str) -> None:
        """The pod has a node now: whatever was to be said is wrong."""
        self._waiting.pop(key, None)
        self._later.pop(key, None)

    async def run(self) -> None:
        """Write until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._tell_later())
            for _ in range(_WRITERS):
                group.create_task(self._write_on())

    async def _tell_later(self) -> None:
        while True:
            await self._some_are_told_later.wait()
            await self._clock.sleep(_TELL_EVERY)
            self._some_are_told_later.clear()
            newest, self._later = self._later, {}
            for key, word in newest.items():
                pod = self._find_waiting(key)
                if pod is not None:
                    # It may have been promised a node since.
                    promised = pod.status.nominated_node_name
                    self._refuse_now(pod, msgspec.structs.replace(word, nominated=promised))

    def _refuse_now(self, pod: Pod, word: PodCondition) -> None:
        self.say(pod, word)
        self._recorder.record(
            pod, reason="FailedScheduling", message=word.message, severity=Severity.WARNING
        )

    async def _write_on(self) -> None:
        while True:
            pod, word = self._waiting.pop(await self._keys.get(), (None, None))
            if pod is not None and word is not None:
                await self._write(pod, word)

    async def _write(self, pod: Pod, word: PodCondition) -> None:
        meta = pod.metadata
        change = {
            "metadata": {"uid": meta.uid},
            "status": {
                "conditions": [msgspec.to_builtins(_condition(pod, word, self._clock.now()))],
                "nominatedNodeName": word.nominated or None,
            },
        }
        try:
            await self._client.patch(
                Pod,
                meta.name,
                change,
                style=PatchStyle.STRATEGIC,
                namespace=meta.namespace,
                subresource="status",
            )
        except (errors.NotFound, errors.Conflict):
            pass  # The pod is another by now, or none.
        except ClusterError as error:
            extra = {"pod": meta.key, "error": str(error)}
            _log.warning("pod condition not written", extra=extra)


def says(pod: Pod, word: PodCondition) -> bool:
    """Whether the pod says all of it already."""
    found = scheduled_condition(pod)
    return (
        found is not None
        and (found.status, found.reason, found.message) == ("False", word.reason, word.message)
        and pod.status.nominated_node_name == word.nominated
    )


def _says_all_reasons(pod: Pod, word: PodCondition) -> bool:
    found = scheduled_condition(pod)
    return (
        found is not None
        and (found.status, found.reason) == ("False", word.reason)
        and pod.status.nominated_node_name == word.nominated
        and _reasons(found.message) >= _reasons(word.message)
    )


@lru_cache(maxsize=1024)
def _reasons(message: str) -> frozenset[str]:
    """The parts of a message without its numbers, which only order them."""
    return frozenset(_BETWEEN_REASONS.split(_NUMBER.sub("0", message).removesuffix(".")))


def scheduled_condition(pod: Pod) -> Condition | None:
    return next(
        (condition for condition in pod.status.conditions if condition.type == "PodScheduled"), None
    )


def _condition(pod: Pod, word: PodCondition, now: datetime) -> Condition:
    found = scheduled_condition(pod)
    kept = found.last_transition_time if found is not None and found.status == "False" else None
    return Condition(
        type="PodScheduled",
        status="False",
        reason=word.reason,
        message=word.message,
        last_transition_time=kept or rfc3339(now),
    )
