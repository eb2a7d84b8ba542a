"""The status ConfigMap as an object: events on it, rights to it, what it says when rounds fail."""

from pathlib import Path

import pytest
from aiohttp import web

from tests.autoscaler.harness import (
    CONFIG_MAPS,
    STATUS,
    Cloud,
    autoscaling,
    events,
    put_pod,
    started,
    status,
)
from tests.cluster.apiserver import Answer, ApiServer, Json, answer, until
from tests.cluster.apiserver import status as refusal
from tonnage.autoscaler.provider_state import ProviderState
from tonnage.autoscaler.report import RoundReport
from tonnage.autoscaler.status import StatusConfigMap
from tonnage.errors import ProviderError
from tonnage.groups.group_machines import Failure
from tonnage.groups.model import Group
from tonnage.groups.readiness import GroupReadiness, Readiness
from tonnage.groups.registry import GroupBackoff, GroupHealth, Observation
from tonnage.service.live_cluster import Trust
from tonnage.testing.clock import VirtualClock

EVENTS = "/api/v1/namespaces/{}/events"


def forbidden(times: int) -> list[Answer]:
    return [answer(lambda: refusal(403, "Forbidden"))] * times


def about(event: Json) -> tuple[str, str]:
    return event["involvedObject"]["name"], event["involvedObject"].get("uid", "")


async def test_events_on_the_status_carry_its_uid_from_the_first(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        started(server)
        put_pod(server, "web")
        async with autoscaling(server, Cloud(server), clock):
            await until(lambda: bool(events(server, "ScaledUpGroup")), clock=clock)
        uid = server.objects[STATUS]["metadata"]["uid"]
        told = {about(event) for event in events(server, "ScaledUpGroup")}
        assert told == {("cluster-autoscaler-status", uid)}


async def test_a_status_that_is_there_already_is_not_overwritten_at_the_start(
    clock: VirtualClock,
) -> None:
    async with ApiServer() as server:
        started(server)
        server.put(
            CONFIG_MAPS,
            {"metadata": {"name": "cluster-autoscaler-status"}, "data": {"status": "before"}},
        )
        cloud = Cloud(server)
        seen: list[str] = []

        async def look() -> None:
            seen.append(server.objects[STATUS]["data"]["status"])

        cloud.before_increase = look
        put_pod(server, "web")
        async with autoscaling(server, cloud, clock):
            await until(lambda: bool(seen), clock=clock)
        assert seen == ["before"]


async def test_events_follow_a_status_that_gets_another_name(
    tmp_path: Path, clock: VirtualClock
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("{}")
    async with ApiServer() as server:
        started(server)
        async with autoscaling(server, Cloud(server), clock, config=config):
            config.write_text("statusConfigMapName: another")
            await until(lambda: f"{CONFIG_MAPS}/another" in server.objects, clock=clock)
            put_pod(server, "web")
            await until(lambda: bool(events(server, "ScaledUpGroup")), clock=clock)
        uid = server.objects[f"{CONFIG_MAPS}/another"]["metadata"]["uid"]
        assert {about(one) for one in events(server, "ScaledUpGroup")} == {("another", uid)}


async def test_a_missing_right_to_write_events_is_named_until_it_is_given_back(
    clock: VirtualClock,
) -> None:
    async with ApiServer() as server:
        started(server)
        for namespace in ("default", "kube-system"):
            server.script("POST", EVENTS.format(namespace), *forbidden(2))
        put_pod(server, "web")
        async with autoscaling(server, Cloud(server), clock):
            await clock.sleep(25)
            told = status(server)["tonnage"]
            right = {"verb": "create", "kind": "Event", "group": ""}
            assert told["missingRights"] == [right]
            words = "missing right: verb create, kind Event, the core group"
            assert f"events are not written: {words}" in told["problems"]
            for number in range(4):
                put_pod(server, f"huge-{number}", cpu="99")
                await clock.sleep(25)
            assert status(server)["tonnage"]["missingRights"] == []


async def test_a_namespace_that_is_going_away_is_no_missing_right(clock: VirtualClock) -> None:
    def going() -> web.Response:
        refused = refusal(403, "Forbidden", name="web")
        refused.text = str(refused.text).replace(
            '"details": {', '"details": {"causes": [{"reason": "NamespaceTerminating"}], '
        )
        return refused

    async with ApiServer() as server:
        started(server)
        refusals = [answer(going)] * 5
        server.script("POST", EVENTS.format("default"), *refusals)
        put_pod(server, "web", cpu="99")
        async with autoscaling(server, Cloud(server), clock):
            await clock.sleep(25)
            assert events(server, "NotTriggerScaleUp") == []
            assert status(server)["tonnage"]["missingRights"] == []


async def test_a_missing_right_to_write_the_status_is_named_at_the_endpoint(
    clock: VirtualClock,
) -> None:
    async with ApiServer() as server:
        started(server)
        server.script("PATCH", STATUS, *forbidden(100))
        async with autoscaling(server, Cloud(server), clock) as program:
            await clock.sleep(25)
            told = program.autoscaler.document["tonnage"]
            assert told["missingRights"] == [{"verb": "patch", "kind": "ConfigMap", "group": ""}]
            assert any("the status ConfigMap is not written" in one for one in told["problems"])


async def test_a_round_that_fails_is_told_in_the_status_too(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        started(server)
        cloud = Cloud(server)
        async with autoscaling(server, cloud, clock):
            before = status(server)
            cloud.refresh_fails = ProviderError("no credentials")
            await clock.sleep(25)
            told = status(server)
            assert told["message"] == "cloudProviderError: no credentials"
            assert told["autoscalerStatus"] == "Running"
            assert before["time"] < told["time"]
            # Nobody could look at groups since, and the times of the last look say so.
            assert (told["nodeGroups"], told["clusterWide"]) == (
                before["nodeGroups"],
                before["clusterWide"],
            )


@pytest.mark.parametrize(
    ("standing", "told"),
    [
        ({}, "NoActivity"),
        ({"scaling_up": True, "healthy": False, "backed_off": True}, "InProgress"),
        ({"healthy": False, "backed_off": True}, "Unhealthy"),
        ({"backed_off": True}, "Backoff"),
    ],
)
def test_what_a_group_does_goes_in_upstreams_order(standing: dict[str, bool], told: str) -> None:
    failure = Failure(error_class="other", code="c", message="m")
    backoff = GroupBackoff(until=9.0, duration=9.0, failed_at=0.0, failure=failure)
    known = GroupHealth(
        group="g",
        scaling_up=standing.get("scaling_up", False),
        healthy=standing.get("healthy", True),
        backoff=backoff if standing.get("backed_off") else None,
    )
    report = RoundReport(
        now=0.0,
        held="",
        trust=Trust("", (), (), ()),
        provided=ProviderState([Group(id="g", max_size=3, target=1)], {}, {}, {}),
        readiness=Readiness(groups={"g": GroupReadiness(group="g")}),
        observation=Observation(groups={"g": known}),
    )
    status = StatusConfigMap()
    status.take(report)
    (shown,) = status.document(mode={})["nodeGroups"]
    assert shown["scaleUp"]["status"] == told
