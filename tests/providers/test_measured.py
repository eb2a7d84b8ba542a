from contextlib import suppress

import pytest

from tonnage.errors import ProviderError
from tonnage.providers.declarative import DeclarativeProvider
from tonnage.providers.measured import MeasuredProvider
from tonnage.testing.clock import VirtualClock, run
from tonnage.testing.provider_contract import declared


class Slow(DeclarativeProvider):
    """Takes two seconds to refresh, and then fails if told so."""

    def __init__(self, clock: VirtualClock, *, failing: Exception | None = None) -> None:
        super().__init__([declared("a")])
        self._clock = clock
        self._failing = failing

    async def refresh(self) -> None:
        await self._clock.sleep(2)
        if self._failing is not None:
            raise self._failing


def told(*, failing: Exception | None = None, within: float | None = None) -> list[object]:
    """What is told of a refresh that takes two seconds."""
    clock = VirtualClock()
    calls: list[object] = []
    provider = MeasuredProvider(
        Slow(clock, failing=failing), clock=clock, called=lambda *call: calls.append(call)
    )

    async def refresh() -> None:
        with suppress(ProviderError, TimeoutError, KeyError):
            async with clock.timeout(within):
                await provider.refresh()

    run(refresh, clock=clock)
    return calls


def test_a_call_is_told_with_its_duration() -> None:
    assert told() == [("refresh", 2.0, "")]


@pytest.mark.parametrize(
    ("failing", "within", "call"),
    [
        (ProviderError("no"), None, ("refresh", 2.0, "refused")),
        (KeyError("a"), None, ("refresh", 2.0, "unexpected")),
        (None, 0.5, ("refresh", 0.5, "unanswered")),
    ],
)
def test_a_call_that_fails_is_told_with_how_it_failed(
    failing: Exception | None, within: float | None, call: object
) -> None:
    assert told(failing=failing, within=within) == [call]


def test_the_error_of_the_provider_inside_comes_through() -> None:
    clock = VirtualClock()
    slow = Slow(clock, failing=ProviderError("no quota"))
    provider = MeasuredProvider(slow, clock=clock, called=lambda *_: None)
    with pytest.raises(ProviderError, match="no quota"):
        run(provider.refresh, clock=clock)
