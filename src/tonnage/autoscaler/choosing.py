"""From a look to a plan: within its time, whoever has to be asked, and whatever one pod is like."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import NamedTuple

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

_log = logging.getLogger(__name__)


class Question(NamedTuple):
    """Everything beside the cluster that a plan comes from."""

    config: Config
    features: Features
    skipped: Mapping[str, str]
    upcoming: Mapping[str, int]


class Chooser:
    """Plans. Where no pod waits, the plan stays the same until templates or the question change."""

    def __init__(self, world: World, *, clock: Clock) -> None:
        self._world = world
        self._clock = clock
        self._idle: tuple[Look, Question, Plan] | None = None

    async def plan(self, found: Look, question: Question) -> tuple[Plan, list[str]]:
        """The plan, and which pods were left out because no decision could be made with them."""
        if not found.pending and self._idle is not None:
            before, asked, plan = self._idle
            same = before.templates is found.templates and before.warnings == found.warnings
            if same and asked == question:
                return plan, []
        with outside.expanders(question.config) as asked_outside:
            if asked_outside is None:
                plan, left_out = self._decided(found, question, None)
            else:
                # Somebody is waited for: let the lease be renewed and the watches be read, while
                # the snapshot the plan is made from stands still.
                with self._world.standing_still():
                    plan, left_out = await asyncio.to_thread(
                        self._decided, found, question, asked_outside
                    )
        if not found.pending:
            self._idle = (found, question, plan)
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
            _log.exception("decision failed; pods are now tried one by one")
        good, left_out = _decidable(found, decide)
        return decide(found._replace(pending=good)), left_out


def _decidable(found: Look, decide: Callable[[Look], Plan]) -> tuple[list[PodRecord], list[str]]:
    """The pods that can be decided on; one that cannot must not stop the others."""
    good: list[PodRecord] = []
    left_out: list[str] = []
    for record in found.pending:
        try:
            decide(found._replace(pending=[record]))
        except Exception as error:
            left_out.append(f"Pod {record.key}: not decided on: {type(error).__name__}: {error}")
        else:
            good.append(record)
    return good, left_out
