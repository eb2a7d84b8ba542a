import json

import pytest
from aiohttp import web

from tests.cluster.apiserver import ApiServer, answer, pod, status
from tonnage.cluster import errors
from tonnage.cluster.calls import CallPatience
from tonnage.cluster.client import PatchStyle, Selection
from tonnage.cluster.config import Access, Endpoint
from tonnage.cluster.records import ConfigMap
from tonnage.errors import InputError
from tonnage.objects.meta import ObjectMeta
from tonnage.objects.nodes import Node
from tonnage.objects.pods import Pod
from tonnage.objects.storage import VolumeAttachment
from tonnage.objects.workloads import StatefulSet
from tonnage.testing.clock import VirtualClock

PODS = "/api/v1/namespaces/default/pods"
MAPS = "/api/v1/namespaces/default/configmaps"


def config_map(version: str = "", **data: str) -> ConfigMap:
    meta = ObjectMeta(name="status", namespace="default", resource_version=version)
    return ConfigMap(metadata=meta, data=data)


async def test_get_gives_the_typed_object(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        server.put(PODS, pod("web-1", nodeName="n1"))
        found = await server.client(clock).get(Pod, "web-1", namespace="default")
        assert (found.metadata.name, found.spec.node_name) == ("web-1", "n1")


async def test_names_are_quoted_in_paths(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        server.script("GET", "/api/v1/nodes/a/b?c", answer(lambda: status(404, "NotFound")))
        with pytest.raises(errors.NotFound):
            await server.client(clock).get(Node, "a/b?c")
        assert server.requests[0].raw_path == "/api/v1/nodes/a%2Fb%3Fc"


async def test_a_list_is_fetched_in_pages(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        for number in range(5):
            server.put(PODS, pod(f"web-{number}"))
        listing = await server.client(clock).list(Pod, page=2)
        assert [each.metadata.name for each in listing.items] == [f"web-{n}" for n in range(5)]
        first, *others = [each.query.get("continue") for each in server.requests]
        assert (first, len(set(others)), None in others) == (None, 2, False)


async def test_a_list_carries_the_version_to_watch_from(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        server.put(PODS, pod("web-1"))
        listing = await server.client(clock).list(Pod)
        assert listing.resource_version == str(server.version)


async def test_a_list_asks_for_what_is_selected(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        selection = Selection(namespace="default", labels="app=db", fields="spec.nodeName=n1")
        await server.client(clock).list(Pod, selection)
        asked = server.asked("GET", PODS)[0].query
        assert (asked["labelSelector"], asked["fieldSelector"]) == ("app=db", "spec.nodeName=n1")


async def test_only_the_first_page_names_a_version(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        for number in range(2):
            server.put(PODS, pod(f"web-{number}"))
        pages = server.client(clock).pages(Pod, page=1, resource_version="0")
        assert len([each async for each in pages]) == 2
        assert [each.query.get("resourceVersion") for each in server.requests] == ["0", None]


async def test_a_list_whose_pages_expire_is_fetched_in_one_piece(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        for number in range(4):
            server.put(PODS, pod(f"web-{number}"))
        first = {"metadata": {"continue": "2"}, "items": [pod("web-0")]}
        server.script(
            "GET",
            "/api/v1/pods",
            answer(lambda: web.json_response(first)),
            answer(lambda: status(410, "Expired")),
        )
        listing = await server.client(clock).list(Pod, page=2)
        assert len(listing.items) == 4
        assert "limit" not in server.requests[-1].query


async def test_an_object_that_does_not_decode_is_told_apart(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        server.put(PODS, pod("bad", containers="none"))
        server.put(PODS, pod("good"))
        listing = await server.client(clock).list(Pod)
        assert [each.metadata.name for each in listing.items] == ["good"]
        assert [(each.namespace, each.name) for each in listing.unreadable] == [("default", "bad")]
        assert "spec.containers" in listing.unreadable[0].problem


async def test_create_sends_the_kind_along(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        created = await server.client(clock).create(ConfigMap, config_map(a="1"))
        sent = json.loads(server.bodies[0])
        assert (sent["apiVersion"], sent["kind"]) == ("v1", "ConfigMap")
        assert created.metadata.resource_version == str(server.version)


async def test_creating_what_exists_is_a_conflict(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        client = server.client(clock)
        await client.create(ConfigMap, config_map())
        with pytest.raises(errors.Conflict) as caught:
            await client.create(ConfigMap, config_map())
        assert caught.value.already_exists


async def test_replacing_an_old_version_is_a_conflict(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        client = server.client(clock)
        old = await client.create(ConfigMap, config_map(a="1"))
        await client.replace(ConfigMap, config_map(old.metadata.resource_version, a="2"))
        with pytest.raises(errors.Conflict) as caught:
            await client.replace(ConfigMap, config_map(old.metadata.resource_version, a="3"))
        assert not caught.value.already_exists


@pytest.mark.parametrize("style", list(PatchStyle))
async def test_a_patch_says_how_it_is_to_be_read(style: PatchStyle, clock: VirtualClock) -> None:
    async with ApiServer() as server:
        server.put(MAPS, {"metadata": {"name": "status", "namespace": "default"}})
        server.script(
            "PATCH", f"{MAPS}/status", answer(lambda: web.json_response({"metadata": {}}))
        )
        change = [] if style is PatchStyle.JSON else {"data": {"a": "1"}}
        await server.client(clock).patch(
            ConfigMap, "status", change, style=style, namespace="default"
        )
        assert server.requests[0].headers["Content-Type"] == style.value


async def test_a_merge_patch_leaves_the_rest_alone(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        server.put(MAPS, {"metadata": {"name": "m", "namespace": "default"}, "data": {"a": "1"}})
        client = server.client(clock)
        changed = await client.patch(ConfigMap, "m", {"data": {"b": "2"}}, namespace="default")
        assert changed.data == {"a": "1", "b": "2"}


async def test_apply_sends_the_kind_along_and_takes_fields_over_when_told(
    clock: VirtualClock,
) -> None:
    async with ApiServer() as server:
        server.put(MAPS, {"metadata": {"name": "m", "namespace": "default"}})
        await server.client(clock).patch(
            ConfigMap,
            "m",
            {"metadata": {"name": "m"}},
            style=PatchStyle.APPLY,
            namespace="default",
            force=True,
        )
        query = server.requests[0].query
        assert json.loads(server.bodies[0])["kind"] == "ConfigMap"
        assert (query["force"], query["fieldManager"]) == ("true", "tonnage")


async def test_status_is_patched_at_its_own_path(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        path = "/api/v1/nodes/n1/status"
        server.script(
            "PATCH", path, answer(lambda: web.json_response({"metadata": {"name": "n1"}}))
        )
        await server.client(clock).patch(Node, "n1", {"status": {}}, subresource="status")
        assert len(server.asked("PATCH", path)) == 1


async def test_delete_spares_an_object_that_was_made_anew(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        server.put(PODS, pod("web-1"))
        with pytest.raises(errors.Conflict):
            await server.client(clock).delete(Pod, "web-1", namespace="default", uid="another")
        assert f"{PODS}/web-1" in server.objects


async def test_delete_passes_the_grace_period_on(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        server.put(PODS, pod("web-1"))
        await server.client(clock).delete(Pod, "web-1", namespace="default", grace_period=0)
        assert json.loads(server.bodies[0])["gracePeriodSeconds"] == 0
        assert server.objects == {}


async def test_bind_names_the_node_and_this_very_pod(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        path = f"{PODS}/web-1/binding"
        server.script("POST", path, answer(lambda: web.json_response({}, status=201)))
        meta = ObjectMeta(name="web-1", namespace="default", uid="u1")
        await server.client(clock).bind(Pod(metadata=meta), "n1")
        sent = json.loads(server.bodies[0])
        assert (sent["target"]["name"], sent["metadata"]["uid"]) == ("n1", "u1")


async def test_an_eviction_a_budget_forbids_is_not_repeated(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        path = f"{PODS}/web-1/eviction"
        server.script("POST", path, answer(lambda: status(429, "TooManyRequests")))
        meta = ObjectMeta(name="web-1", namespace="default", uid="u1")
        with pytest.raises(errors.TooManyRequests):
            await server.client(clock).evict(Pod(metadata=meta))
        assert len(server.asked("POST", path)) == 1


async def test_scale_sets_the_replicas_of_any_kind(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        path = "/apis/apps/v1/namespaces/default/statefulsets/db/scale"
        scaled = {"metadata": {"name": "db"}, "spec": {"replicas": 5}}
        server.script("PATCH", path, answer(lambda: web.json_response(scaled)))
        found = await server.client(clock).scale(StatefulSet, "db", 5, namespace="default")
        assert found.spec.replicas == 5
        assert json.loads(server.bodies[0]) == {"spec": {"replicas": 5}}


async def test_the_scale_of_any_kind_can_be_read(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        path = "/apis/apps/v1/namespaces/default/statefulsets/db/scale"
        scale = {"metadata": {}, "spec": {"replicas": 5}, "status": {"replicas": 3}}
        server.script("GET", path, answer(lambda: web.json_response(scale)))
        found = await server.client(clock).get_scale(StatefulSet, "db", namespace="default")
        assert (found.spec.replicas, found.status.replicas) == (5, 3)


async def test_the_version_of_the_server_can_be_asked(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        server.script(
            "GET", "/version", answer(lambda: web.json_response({"gitVersion": "v1.37.0"}))
        )
        assert await server.client(clock).version() == "v1.37.0"


async def test_the_versions_of_a_group_are_told_with_the_preferred_one_first(
    clock: VirtualClock,
) -> None:
    versions = [{"version": "v1beta1"}, {"version": "v1beta2"}]
    group = {"versions": versions, "preferredVersion": {"version": "v1beta2"}}
    async with ApiServer() as server:
        server.script("GET", "/apis/x.io", answer(lambda: web.json_response(group)))
        assert await server.client(clock).group_versions("x.io") == ("v1beta2", "v1beta1")


async def test_a_group_that_is_not_served_has_no_versions(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        assert await server.client(clock).group_versions("none.io") == ()


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (400, errors.Invalid),
        (401, errors.Unauthorized),
        (403, errors.Forbidden),
        (404, errors.NotFound),
        (409, errors.Conflict),
        (410, errors.Gone),
        (422, errors.Invalid),
        (429, errors.TooManyRequests),
        (500, errors.ServerError),
        (503, errors.ServerError),
        (302, errors.ServerError),
    ],
)
async def test_each_status_has_its_error(
    code: int, error: type[errors.ApiError], clock: VirtualClock
) -> None:
    async with ApiServer() as server:
        server.script("GET", "/api/v1/nodes/n1", answer(lambda: status(code, "Why")))
        client = server.client(clock, patience=CallPatience(attempts=1))
        with pytest.raises(error) as caught:
            await client.get(Node, "n1")
        assert caught.value.status == code


async def test_a_missing_right_is_named_by_verb_kind_and_group(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        path = "/apis/storage.k8s.io/v1/volumeattachments"
        server.script("GET", path, answer(lambda: status(403, "Forbidden", message="no role")))
        with pytest.raises(errors.Forbidden) as caught:
            await server.client(clock).list(VolumeAttachment)
        error = caught.value
        assert (error.verb, error.kind, error.group) == (
            "list",
            "VolumeAttachment",
            "storage.k8s.io",
        )
        assert str(error) == "list volumeattachments.storage.k8s.io: 403 no role"


async def test_a_missing_object_is_told_from_a_missing_kind(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        client = server.client(clock)
        with pytest.raises(errors.NotFound) as caught:
            await client.get(Node, "n1")
        assert not caught.value.kind_missing
        plain = answer(lambda: web.Response(status=404, text="404 page not found"))
        server.script("GET", "/api/v1/nodes/n1", plain)
        with pytest.raises(errors.NotFound) as caught:
            await client.get(Node, "n1")
        assert caught.value.kind_missing


async def test_too_many_requests_waits_as_long_as_the_server_asks(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        server.put("/api/v1/nodes", {"metadata": {"name": "n1"}})
        later = answer(lambda: status(429, "TooManyRequests", headers={"Retry-After": "7"}))
        server.script("GET", "/api/v1/nodes/n1", later)
        await server.client(clock).get(Node, "n1")
        assert clock.monotonic() == pytest.approx(7, abs=0.01)


async def test_even_a_create_is_repeated_when_the_server_was_too_busy_to_look(
    clock: VirtualClock,
) -> None:
    async with ApiServer() as server:
        later = answer(lambda: status(429, "TooManyRequests", headers={"Retry-After": "1"}))
        server.script("POST", MAPS, later)
        await server.client(clock).create(ConfigMap, config_map())
        assert len(server.asked("POST", MAPS)) == 2


async def test_a_pause_longer_than_our_patience_is_the_callers_business(
    clock: VirtualClock,
) -> None:
    async with ApiServer() as server:
        later = answer(lambda: status(429, "TooManyRequests", headers={"Retry-After": "3600"}))
        server.script("GET", "/api/v1/nodes/n1", later)
        with pytest.raises(errors.TooManyRequests) as caught:
            await server.client(clock).get(Node, "n1")
        assert caught.value.retry_after == 3600
        assert clock.monotonic() == 0


async def test_a_read_is_repeated_after_server_errors_with_growing_pauses(
    clock: VirtualClock,
) -> None:
    async with ApiServer() as server:
        server.put("/api/v1/nodes", {"metadata": {"name": "n1"}})
        moments: list[float] = []

        async def fail(_: web.Request) -> web.StreamResponse:
            moments.append(clock.monotonic())
            return status(500, "InternalError")

        server.script("GET", "/api/v1/nodes/n1", fail, fail, fail)
        await server.client(clock).get(Node, "n1")
        assert 0.125 <= moments[1] - moments[0] <= 0.25 <= moments[2] - moments[1] <= 0.5


async def test_after_the_last_attempt_the_error_is_raised(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        fail = answer(lambda: status(503, "ServiceUnavailable"))
        server.script("GET", "/api/v1/nodes/n1", *[fail] * 9)
        with pytest.raises(errors.ServerError):
            await server.client(clock, patience=CallPatience(attempts=3)).get(Node, "n1")
        assert len(server.requests) == 3


async def test_a_create_is_not_repeated_after_a_server_error(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        server.script("POST", MAPS, answer(lambda: status(500, "InternalError")))
        with pytest.raises(errors.ServerError):
            await server.client(clock).create(ConfigMap, config_map())
        assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("style", "attempts"), [(PatchStyle.MERGE, 2), (PatchStyle.APPLY, 2), (PatchStyle.JSON, 1)]
)
async def test_a_patch_is_repeated_unless_twice_may_be_too_much(
    style: PatchStyle, attempts: int, clock: VirtualClock
) -> None:
    async with ApiServer() as server:
        fail = answer(lambda: status(500, "InternalError"))
        server.script("PATCH", f"{MAPS}/m", fail, fail)
        client = server.client(clock, patience=CallPatience(attempts=2))
        with pytest.raises(errors.ServerError):
            await client.patch(ConfigMap, "m", {}, style=style, namespace="default")
        assert len(server.requests) == attempts


async def test_a_server_that_does_not_answer_is_a_failed_connection(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        server.freeze()
        client = server.client(clock, patience=CallPatience(timeout=5, attempts=1))
        with pytest.raises(errors.ConnectionFailed, match="get nodes n1: nothing came for 5 s"):
            await client.get(Node, "n1")
        assert clock.monotonic() == 5


async def test_a_server_that_is_not_there_is_a_failed_connection(clock: VirtualClock) -> None:
    async with ApiServer() as gone:
        access = Access(endpoint=Endpoint(server=gone.url))
    async with ApiServer() as other:
        client = other.client_with(access, clock, patience=CallPatience(attempts=1))
        with pytest.raises(errors.ConnectionFailed, match=gone.url):
            await client.get(Node, "n1")


async def test_an_answer_that_is_no_json_is_the_servers_error(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        server.script("GET", "/api/v1/nodes", answer(lambda: web.Response(text="<html>")))
        with pytest.raises(errors.ServerError, match="not understood"):
            await server.client(clock).list(Node)


async def test_a_bad_object_asked_for_by_name_says_what_is_wrong(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        server.put(PODS, pod("bad", containers="none"))
        with pytest.raises(InputError, match=r"Pod default/bad: spec\.containers"):
            await server.client(clock).get(Pod, "bad", namespace="default")
