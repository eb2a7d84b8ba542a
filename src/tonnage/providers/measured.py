"""How long a provider takes and how often it fails, told to whoever counts.

Who counts is handed in, so that providers know nothing of metrics.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias, TypeVar

from tonnage.clock import Clock
from tonnage.errors import ProviderError
from tonnage.groups.model import Group
from tonnage.objects.scenarios import GroupTemplate
from tonnage.providers.protocol import GroupOptions, Instance, Provider

T = TypeVar("T")

Called: TypeAlias = Callable[[str, float, str], None]
"""Takes the name of a call, the seconds it took, and how it failed: one of the below, or empty."""

REFUSED = "refused"
UNANSWERED = "unanswered"
UNEXPECTED = "unexpected"


class MeasuredProvider:
    """Answers exactly as the provider inside does; every call is told of once, when it is over."""

    def __init__(self, provider: Provider, *, clock: Clock, called: Called) -> None:
        self._provider = provider
        self._clock = clock
        self._called = called

    async def refresh(self) -> None:
        await self._measured("refresh", self._provider.refresh())

    async def groups(self) -> Sequence[Group]:
        return await self._measured("groups", self._provider.groups())

    async def problems(self) -> Sequence[str]:
        return await self._measured("problems", self._provider.problems())

    async def instances(self, group: str) -> Sequence[Instance]:
        return await self._measured("instances", self._provider.instances(group))

    async def template(self, group: str) -> GroupTemplate | None:
        return await self._measured("template", self._provider.template(group))

    async def price(self, group: str) -> float | None:
        return await self._measured("price", self._provider.price(group))

    async def options(self, group: str) -> GroupOptions:
        return await self._measured("options", self._provider.options(group))

    async def increase(self, group: str, delta: int) -> None:
        await self._measured("increase", self._provider.increase(group, delta))

    async def delete(self, group: str, nodes: Sequence[str]) -> None:
        await self._measured("delete", self._provider.delete(group, nodes))

    async def decrease_target(self, group: str, delta: int) -> None:
        await self._measured("decrease_target", self._provider.decrease_target(group, delta))

    async def _measured(self, call: str, answer: Awaitable[T]) -> T:
        started = self._clock.monotonic()
        error = UNEXPECTED
        try:
            found = await answer
            error = ""
            return found
        except ProviderError:
            error = REFUSED
            raise
        except asyncio.CancelledError:
            # How a bound of time set further out looks from here.
            error = UNANSWERED
            raise
        finally:
            self._called(call, self._clock.monotonic() - started, error)
