"""Plans that no longer hold when they are about to be carried out."""

from collections.abc import Callable, Sequence

import msgspec
import pytest

from tests.autoscaler.harness import Cloud, autoscaling, group, put_pod, started
from tests.cluster.apiserver import ApiServer, until
from tonnage.groups.model import Group
from tonnage.providers.protocol import GroupOptions
from tonnage.testing.clock import VirtualClock


class LooksOnce(Cloud):
    """Tells sizes as it last saw them, like every provider that is asked over a network."""

    def __init__(self, server: ApiServer, *groups: object) -> None:
        super().__init__(server, *groups)  # type: ignore[arg-type]
        self._seen: list[Group] = []
        self.after_looking: Callable[[], None] | None = None
        """What happens outside once a round has looked, and has not acted yet."""

    async def refresh(self) -> None:
        await super().refresh()
        self._seen = list(self._groups.values())

    async def groups(self) -> Sequence[Group]:
        return list(self._seen)

    async def options(self, group: str) -> GroupOptions:
        happening, self.after_looking = self.after_looking, None
        if happening is not None:
            happening()
        return await super().options(group)

    def raised_by_hand(self, name: str) -> None:
        known = self._groups[name]
        self._groups[name] = msgspec.structs.replace(known, target=known.target + 1)


@pytest.mark.parametrize("raised", ["a", "b"], ids=["the same group", "another group"])
async def test_nodes_somebody_else_has_just_asked_for_are_not_bought_again(
    clock: VirtualClock, raised: str
) -> None:
    async with ApiServer() as server:
        started(server)
        cloud = LooksOnce(server, group("a"), group("b", cpu="8"))
        async with autoscaling(server, cloud, clock, expander="least-waste") as program:
            cloud.after_looking = lambda: cloud.raised_by_hand(raised)
            put_pod(server, "web")
            await until(lambda: cloud.target(raised) == 1, clock=clock)
            await clock.sleep(30)
            assert cloud.asked == []
            assert program.unhealthy() == ""


async def test_a_group_that_was_filled_up_meanwhile_is_not_asked_beyond_its_maximum(
    clock: VirtualClock,
) -> None:
    async with ApiServer() as server:
        started(server)
        cloud = LooksOnce(server, group("a", most=1))
        async with autoscaling(server, cloud, clock):
            cloud.after_looking = lambda: cloud.raised_by_hand("a")
            put_pod(server, "web", cpu="3")
            put_pod(server, "api", cpu="3")
            await clock.sleep(60)
            assert (cloud.asked, cloud.target("a")) == ([], 1)
