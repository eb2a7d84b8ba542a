"""From a look to a plan: within its time, whoever has to be asked, and whatever one pod is like."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, NamedTuple, TypeVar

from tonnage.autoscaler import outside
from tonnage.autoscaler.config import Config
from tonnage.autoscaler.world import World
from tonnage.clock import Clock
from tonnage.errors import InputError
from tonnage.filters.features import Features
from tonnage.scaleup import deciding
from tonnage.scaleup.looking import Look
from tonnage.scaleup.plan import Plan
from tonnage.snapshot.snapshot import PodRecord

T = TypeVar("T")

_log = logging.getLogger(__name__)


class Question(NamedTuple):
    """Everything beside the cluster that a plan comes from."""

    config: Config
    features: Features
    skipped: Mapping[str, str]
    upcoming: Mapping[str, int]


class _Idle(NamedTuple):
    """A plan for nobody, and what it came from."""

    look: Look
    question: Question
    plan: Plan


class Chooser:
    """Plans. Where no pod waits, the plan stays the same until templates or the question change."""

    def __init__(self, world: World, *, clock: Clock) -> None:
        self._world = world
        self._clock = clock
        self._idle: _Idle | None = None

    async def plan(self, found: Look, question: Question) -> tuple[Plan, list[str]]:
        """The plan, and which pods were left out because no decision could be made with them."""
        if not found.pending and self._idle is not None:
            before = self._idle
            if (
                before.question == question
                and before.look.warnings == found.warnings
                and _same_templates(before.look, found)
            ):
                return before.plan, []
        with outside.expanders(question.config) as asked_outside:
            if asked_outside is None:
                plan, left_out = self._decided(found, question, None)
            else:
                # Somebody is waited for: let the lease be renewed and the watches be read, while
                # the snapshot the plan is made from stands still.
                with self._world.standing_still():
                    plan, left_out = await _to_the_end(
                        asyncio.to_thread(self._decided, found, question, asked_outside)
                    )
        if not found.pending:
            self._idle = _Idle(found, question, plan)
        return plan, left_out

    def _decided(
        self, found: Look, question: Question, asked: deciding.OutsideExpanders | None
    ) -> tuple[Plan, list[str]]:
        end = self._clock.monotonic() + (question.config.time_budget or float("inf"))

        def decide(look: Look) -> Plan:
            return deciding.decide_standing(
                look,
                options=question.config,
                features=question.features,
                skipped=question.skipped,
                upcoming=question.upcoming,
                out_of_time=lambda: self._clock.monotonic() >= end,
                outside=asked,
            )

        try:
            return decide(found), []
        except InputError:
            raise
        except Exception:
            _log.exception("decision failed; the pods it fails with are now looked for")
        good, left_out = _decidable(found, decide)
        return decide(found._replace(pending=good)), left_out


async def _to_the_end(work: Coroutine[Any, Any, T]) -> T:
    """What the work gives; whoever is cancelled meanwhile waits for its end all the same.

    A thread cannot be cancelled, and as long as it has the snapshot nobody else may.
    """
    working = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(working)
    finally:
        await asyncio.wait((working,))


def _decidable(found: Look, decide: Callable[[Look], Plan]) -> tuple[list[PodRecord], list[str]]:
    """The pods that can be decided on together; one that cannot must not stop the others.

    Halves are tried, and halves of those that fail, each together with the pods found good before:
    a few bad pods among thousands are found in a few dozen decisions.
    """
    good: list[PodRecord] = []
    left_out: list[str] = []
    untried = [list(found.pending)]
    while untried:
        some = untried.pop()
        try:
            decide(found._replace(pending=[*good, *some]))
        except Exception as error:
            half = len(some) // 2
            if half:
                untried += [some[half:], some[:half]]
            else:
                told = f"not decided on: {type(error).__name__}: {error}"
                left_out += [f"Pod {record.key}: {told}" for record in some]
        else:
            good += some
    return good, left_out


def _same_templates(one: Look, other: Look) -> bool:
    """Whether templates are the same, or were made again from the same and say the same.

    That is once a minute, and mostly in vain.
    """
    before, now = one.templates, other.templates
    return before is now or (
        one.cluster.nodes == other.cluster.nodes
        and before.by_group == now.by_group
        and before.problems == now.problems
        and before.warnings == now.warnings
    )
