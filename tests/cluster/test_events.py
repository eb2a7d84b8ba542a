import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from tests.cluster.apiserver import ApiServer, Json, answer, status
from tonnage.cluster.events import Drop, Limits, Recorder, Severity
from tonnage.cluster.records import ConfigMap
from tonnage.objects.meta import ObjectMeta
from tonnage.objects.nodes import Node
from tonnage.objects.pods import Pod
from tonnage.testing.clock import VirtualClock

EVENTS = "/api/v1/namespaces/default/events"
POD = Pod(metadata=ObjectMeta(name="db-0", namespace="default", uid="u1", resource_version="7"))


@asynccontextmanager
async def recording(
    server: ApiServer, clock: VirtualClock, *, limits: Limits | None = None
) -> AsyncIterator[Recorder]:
    numbers = itertools.count(1)
    recorder = Recorder(
        server.client(clock),
        component="tonnage",
        instance="tonnage-0",
        clock=clock,
        new_id=lambda: str(next(numbers)),
        limits=limits,
    )
    task = asyncio.ensure_future(recorder.run())
    try:
        yield recorder
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def written(server: ApiServer) -> list[Json]:
    return list(server.objects.values())


async def test_an_event_names_the_object_and_who_says_it(clock: VirtualClock) -> None:
    async with ApiServer() as server, recording(server, clock) as recorder:
        recorder.record(POD, reason="TriggeredScaleUp", message="1 node more")
        await recorder.flush()
        event = server.objects[f"{EVENTS}/db-0.1"]
        assert event["involvedObject"] == {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": "default",
            "name": "db-0",
            "uid": "u1",
        }
        assert (event["type"], event["reason"], event["message"], event["count"]) == (
            "Normal",
            "TriggeredScaleUp",
            "1 node more",
            1,
        )
        assert (event["source"], event["reportingComponent"]) == (
            {"component": "tonnage"},
            "tonnage",
        )
        assert event["firstTimestamp"] == event["lastTimestamp"] == "2030-01-01T00:00:00Z"


async def test_the_same_said_again_raises_the_count(clock: VirtualClock) -> None:
    async with ApiServer() as server, recording(server, clock) as recorder:
        for _ in range(3):
            recorder.record(POD, reason="NotTriggerScaleUp", message="no group fits")
            await recorder.flush()
            await clock.sleep(60)
        (event,) = written(server)
        assert (event["count"], event["firstTimestamp"], event["lastTimestamp"]) == (
            3,
            "2030-01-01T00:00:00Z",
            "2030-01-01T00:02:00Z",
        )


async def test_another_version_of_the_object_is_the_same_object(clock: VirtualClock) -> None:
    async with ApiServer() as server, recording(server, clock) as recorder:
        for version in ("7", "8"):
            meta = ObjectMeta(name="db-0", namespace="default", uid="u1", resource_version=version)
            recorder.record(Pod(metadata=meta), reason="A", message="m")
            await recorder.flush()
        assert [event["count"] for event in written(server)] == [2]


async def test_another_message_is_another_event(clock: VirtualClock) -> None:
    async with ApiServer() as server, recording(server, clock) as recorder:
        recorder.record(POD, reason="A", message="one")
        recorder.record(POD, reason="A", message="two", severity=Severity.WARNING)
        await recorder.flush()
        assert sorted((e["message"], e["type"]) for e in written(server)) == [
            ("one", "Normal"),
            ("two", "Warning"),
        ]


async def test_what_is_said_while_the_server_is_slow_becomes_one_write(
    clock: VirtualClock,
) -> None:
    limits = Limits(burst=1)
    async with ApiServer() as server, recording(server, clock, limits=limits) as recorder:
        for _ in range(5):
            recorder.record(POD, reason="A", message="m")
        await recorder.flush()
        assert (len(server.requests), recorder.dropped.total()) == (1, 0)
        assert [event["count"] for event in written(server)] == [5]


async def test_events_on_objects_without_namespace_go_to_default(clock: VirtualClock) -> None:
    async with ApiServer() as server, recording(server, clock) as recorder:
        recorder.record(Node(metadata=ObjectMeta(name="n1")), reason="A", message="m")
        await recorder.flush()
        assert f"{EVENTS}/n1.1" in server.objects


async def test_an_event_the_server_forgot_is_written_anew(clock: VirtualClock) -> None:
    async with ApiServer() as server, recording(server, clock) as recorder:
        recorder.record(POD, reason="A", message="m")
        await recorder.flush()
        server.remove(f"{EVENTS}/db-0.1")
        recorder.record(POD, reason="A", message="m")
        await recorder.flush()
        assert list(server.objects) == [f"{EVENTS}/db-0.2"]


async def test_too_much_about_one_object_is_held_back_and_counted(clock: VirtualClock) -> None:
    limits = Limits(burst=3, seconds_per_event=60)
    async with ApiServer() as server, recording(server, clock, limits=limits) as recorder:
        for number in range(10):
            recorder.record(POD, reason="A", message=str(number))
        await recorder.flush()
        assert len(written(server)) == 3
        assert recorder.dropped[Drop.RATE] == 7


async def test_what_is_said_for_another_reason_does_not_suffer(clock: VirtualClock) -> None:
    limits = Limits(burst=1, seconds_per_event=60)
    async with ApiServer() as server, recording(server, clock, limits=limits) as recorder:
        for number in range(5):
            recorder.record(POD, reason="A", message=str(number))
        recorder.record(POD, reason="B", message="m")
        await recorder.flush()
        assert [event["reason"] for event in written(server)] == ["A", "B"]


async def test_more_may_be_said_about_a_config_map_because_it_stands_for_many(
    clock: VirtualClock,
) -> None:
    async with ApiServer() as server, recording(server, clock) as recorder:
        about = ConfigMap(metadata=ObjectMeta(name="status", namespace="default"))
        for number in range(100):
            recorder.record(about, reason="ScaledUpGroup", message=str(number))
            await clock.sleep(10.1)
        await recorder.flush()
        assert len(written(server)) == 100
        assert not recorder.dropped


async def test_other_objects_do_not_suffer(clock: VirtualClock) -> None:
    limits = Limits(burst=1, seconds_per_event=60)
    async with ApiServer() as server, recording(server, clock, limits=limits) as recorder:
        for name in ("a", "b"):
            recorder.record(Node(metadata=ObjectMeta(name=name)), reason="A", message="m")
        await recorder.flush()
        assert len(written(server)) == 2


async def test_what_was_held_back_is_in_the_next_count(clock: VirtualClock) -> None:
    limits = Limits(burst=1, seconds_per_event=60)
    async with ApiServer() as server, recording(server, clock, limits=limits) as recorder:
        for _ in range(3):
            recorder.record(POD, reason="A", message="m")
            await recorder.flush()
        await clock.sleep(60)
        recorder.record(POD, reason="A", message="m")
        await recorder.flush()
        assert [event["count"] for event in written(server)] == [4]


async def test_a_full_queue_drops_and_counts(clock: VirtualClock) -> None:
    limits = Limits(queue=2)
    async with ApiServer() as server, recording(server, clock, limits=limits) as recorder:
        for number in range(5):
            recorder.record(POD, reason="A", message=str(number))
        await recorder.flush()
        assert (len(written(server)), recorder.dropped[Drop.QUEUE]) == (2, 3)


async def test_a_refused_event_is_counted_and_the_next_one_written(clock: VirtualClock) -> None:
    async with ApiServer() as server, recording(server, clock) as recorder:
        server.script("POST", EVENTS, answer(lambda: status(403, "Forbidden")))
        recorder.record(POD, reason="A", message="one")
        recorder.record(POD, reason="A", message="two")
        await recorder.flush()
        assert [event["message"] for event in written(server)] == ["two"]
        assert recorder.dropped[Drop.REFUSED] == 1


async def test_names_and_messages_fit_what_a_server_accepts(clock: VirtualClock) -> None:
    async with ApiServer() as server, recording(server, clock) as recorder:
        long = Node(metadata=ObjectMeta(name="n" * 250 + "-xx"))
        recorder.record(long, reason="A", message="m" * 5000)
        await recorder.flush()
        (event,) = written(server)
        assert len(event["metadata"]["name"]) <= 253
        assert "-." not in event["metadata"]["name"]
        assert len(event["message"]) == 1024


async def test_saying_the_same_about_thousands_of_objects_forgets_the_oldest(
    clock: VirtualClock,
) -> None:
    limits = Limits(remembered=2)
    async with ApiServer() as server, recording(server, clock, limits=limits) as recorder:
        for name in ("a", "b", "c", "a"):
            recorder.record(Node(metadata=ObjectMeta(name=name)), reason="A", message="m")
            await recorder.flush()
        assert sorted(server.objects) == [
            f"{EVENTS}/{name}" for name in ("a.1", "a.4", "b.2", "c.3")
        ]
