"""Events that are gone an hour after they were last written."""

import random
from pathlib import Path

from tests.embedded.apiserver.requests import CONFIG_MAPS, CORE, MERGE, Api
from tonnage.clock.virtual import VirtualClock
from tonnage.cluster.transport import HttpRequest
from tonnage.embedded.apiserver import ApiServer, InProcessTransport

EVENTS = f"{CORE}/namespaces/default/events"


def an_event(api: Api, name: str) -> None:
    about = {"kind": "Pod", "name": "p", "namespace": "default"}
    api.create(EVENTS, name, involvedObject=about, reason="Tested", type="Normal")


async def test_an_event_is_gone_an_hour_after_it_was_written(clock: VirtualClock) -> None:
    api = Api(clock)
    an_event(api, "e")
    await clock.sleep(3599)
    assert api.names(EVENTS) == ["e"]
    await clock.sleep(1)
    assert api.names(EVENTS) == []


async def test_an_event_that_is_written_again_is_kept_for_another_hour(clock: VirtualClock) -> None:
    api = Api(clock)
    an_event(api, "e")
    await clock.sleep(3000)
    api.good("PATCH", f"{EVENTS}/e", {"count": 2}, content_type=MERGE)
    await clock.sleep(3000)
    assert api.names(EVENTS) == ["e"]
    await clock.sleep(600)
    assert api.names(EVENTS) == []


async def test_an_event_of_the_same_name_lives_as_long_as_any(clock: VirtualClock) -> None:
    api = Api(clock)
    an_event(api, "e")
    await clock.sleep(1800)
    api.good("DELETE", f"{EVENTS}/e")
    an_event(api, "e")
    await clock.sleep(1900)
    assert api.names(EVENTS) == ["e"]


async def test_how_long_events_are_kept_can_be_said(clock: VirtualClock) -> None:
    api = Api(clock, event_ttl=10.0)
    an_event(api, "e")
    await clock.sleep(10)
    assert api.names(EVENTS) == []


async def test_nothing_but_events_expires(clock: VirtualClock) -> None:
    api = Api(clock)
    api.create(CONFIG_MAPS, "c")
    await clock.sleep(7200)
    assert api.exists(f"{CONFIG_MAPS}/c")


async def test_those_who_watch_are_told_that_an_event_is_gone(clock: VirtualClock) -> None:
    api = Api(clock)
    an_event(api, "e")
    query = (("watch", "true"), ("resourceVersion", api.get(EVENTS)["metadata"]["resourceVersion"]))
    request = HttpRequest(method="GET", path=EVENTS, query=query)
    async with InProcessTransport(api.server).stream(request) as stream:
        await clock.sleep(3600)
        api.get(CONFIG_MAPS)
        assert b'"type":"DELETED"' in await anext(aiter(stream.chunks))


async def test_an_event_of_an_earlier_run_is_gone_an_hour_after_the_start(
    clock: VirtualClock, tmp_path: Path
) -> None:
    api = Api(clock, data=tmp_path / "data")
    an_event(api, "e")
    api.server.close()
    again = Api(clock)
    again.server = ApiServer(clock=clock, rng=random.Random(2), data=tmp_path / "data")
    assert again.names(EVENTS) == ["e"]
    await clock.sleep(3600)
    assert again.names(EVENTS) == []
