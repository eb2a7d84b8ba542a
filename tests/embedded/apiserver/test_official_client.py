"""The official Python client works on the embedded API."""

import asyncio
import random
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import kubernetes
import pytest
from kubernetes.client.exceptions import ApiException
from kubernetes.dynamic import DynamicClient

from tonnage.clock import SystemClock
from tonnage.embedded.apiserver import ApiServer
from tonnage.embedded.apiserver.http import HttpFront

POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"generateName": "web-", "labels": {"app": "web"}},
    "spec": {"containers": [{"name": "main", "image": "example"}]},
}


@pytest.fixture
def client() -> Iterator[kubernetes.client.ApiClient]:
    """A client of a server in another thread: this client blocks its own."""
    started, stop = threading.Event(), asyncio.Event()
    place: dict[str, object] = {}

    async def serve() -> None:
        front = HttpFront(ApiServer(clock=SystemClock(), rng=random.Random(1)), token="token")
        await front.start()
        place.update(url=front.url, loop=asyncio.get_running_loop())
        started.set()
        await stop.wait()
        await front.close()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    assert started.wait(10)
    configuration = kubernetes.client.Configuration(host=str(place["url"]))
    configuration.no_proxy = "127.0.0.1"
    with kubernetes.client.ApiClient(configuration) as made:
        yield made
    loop = place["loop"]
    assert isinstance(loop, asyncio.AbstractEventLoop)
    loop.call_soon_threadsafe(stop.set)
    thread.join(10)
    assert not thread.is_alive()


@pytest.fixture
def core(client: kubernetes.client.ApiClient) -> Any:
    return kubernetes.client.CoreV1Api(client)


def test_pods_are_created_read_listed_and_deleted(core: Any) -> None:
    made = core.create_namespaced_pod("default", POD)
    read = core.read_namespaced_pod(made.metadata.name, "default")
    assert (read.metadata.uid, read.status.phase) == (made.metadata.uid, "Pending")
    listed = core.list_namespaced_pod("default", label_selector="app=web", limit=1)
    assert [one.metadata.name for one in listed.items] == [made.metadata.name]
    core.delete_namespaced_pod(made.metadata.name, "default")
    assert core.list_namespaced_pod("default").items == []


def test_an_old_version_is_a_conflict(core: Any) -> None:
    old = core.create_namespaced_config_map("default", {"metadata": {"name": "cm"}})
    core.patch_namespaced_config_map("cm", "default", {"data": {"a": "1"}})
    with pytest.raises(ApiException) as caught:
        core.replace_namespaced_config_map("cm", "default", old)
    assert caught.value.status == 409


def test_a_pod_is_bound_and_evicted(core: Any) -> None:
    name = core.create_namespaced_pod("default", POD).metadata.name
    target = {"apiVersion": "v1", "kind": "Node", "name": "n1"}
    binding = {"metadata": {"name": name}, "target": target}
    core.create_namespaced_pod_binding(name, "default", binding, _preload_content=False)
    assert core.read_namespaced_pod(name, "default").spec.node_name == "n1"
    eviction = {"metadata": {"name": name}, "deleteOptions": {"gracePeriodSeconds": 0}}
    core.create_namespaced_pod_eviction(name, "default", eviction, _preload_content=False)
    assert core.list_namespaced_pod("default").items == []


def test_a_watch_tells_what_is_there_and_what_happens(core: Any) -> None:
    core.create_namespaced_config_map("default", {"metadata": {"name": "first"}})
    seen = []
    watch = kubernetes.watch.Watch()
    for event in watch.stream(core.list_namespaced_config_map, "default", timeout_seconds=20):
        seen.append((event["type"], event["object"].metadata.name))
        if len(seen) == 1:
            core.create_namespaced_config_map("default", {"metadata": {"name": "second"}})
            core.delete_namespaced_config_map("first", "default")
        if len(seen) == 3:
            watch.stop()
    assert seen == [("ADDED", "first"), ("ADDED", "second"), ("DELETED", "first")]


def test_replicas_are_scaled(client: kubernetes.client.ApiClient) -> None:
    apps: Any = kubernetes.client.AppsV1Api(client)
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": POD["spec"]}
    spec = {"serviceName": "w", "selector": {"matchLabels": labels}, "template": template}
    body = {"metadata": {"name": "web"}, "spec": spec}
    apps.create_namespaced_stateful_set("default", body)
    apps.patch_namespaced_stateful_set_scale("web", "default", {"spec": {"replicas": 4}})
    assert apps.read_namespaced_stateful_set_scale("web", "default").spec.replicas == 4


def test_kinds_are_discovered(client: kubernetes.client.ApiClient, tmp_path: Path) -> None:
    # What it discovers it keeps, by address, for the next one who listens there.
    dynamic = DynamicClient(client, cache_file=str(tmp_path / "kinds.json"))
    resource = dynamic.resources.get(api_version="storage.k8s.io/v1", kind="CSINode")
    resource.create(body={"metadata": {"name": "n1"}, "spec": {"drivers": []}})
    assert [one.metadata.name for one in resource.get().items] == ["n1"]


def test_a_refusal_says_why(core: Any) -> None:
    with pytest.raises(ApiException) as caught:
        core.create_namespaced_config_map("default", {"metadata": {"name": "NOT_a_name"}})
    assert caught.value.status == 422
    assert "metadata.name" in str(caught.value.body)


def test_a_patch_joins_lists_by_key(core: Any) -> None:
    name = core.create_namespaced_pod("default", POD).metadata.name
    for type_ in ("Ready", "PodScheduled"):
        status = {"conditions": [{"type": type_, "status": "False"}]}
        core.patch_namespaced_pod_status(name, "default", {"status": status})
    found = core.read_namespaced_pod(name, "default").status.conditions
    assert sorted(one.type for one in found) == ["PodScheduled", "Ready"]


def test_a_lease_is_taken_once_and_renewed_by_its_holder(
    client: kubernetes.client.ApiClient,
) -> None:
    leases: Any = kubernetes.client.CoordinationV1Api(client)
    now = datetime(2030, 1, 1, 12, 0, 0, 123456, tzinfo=UTC)
    spec = {"holderIdentity": "a", "leaseDurationSeconds": 15, "renewTime": now}
    body = {"metadata": {"name": "one"}, "spec": spec}
    held = leases.create_namespaced_lease("default", body)
    stale = leases.read_namespaced_lease("one", "default")
    held.spec.renew_time = now + timedelta(seconds=10)
    renewed = leases.replace_namespaced_lease("one", "default", held)
    assert renewed.spec.renew_time == now + timedelta(seconds=10)
    stale.spec.holder_identity = "b"
    with pytest.raises(ApiException) as caught:
        leases.replace_namespaced_lease("one", "default", stale)
    assert caught.value.status == 409


def test_a_list_comes_in_pages(core: Any) -> None:
    for name in ("a", "b", "c"):
        core.create_namespaced_config_map("default", {"metadata": {"name": name}})
    first = core.list_namespaced_config_map("default", limit=2)
    rest = core.list_namespaced_config_map("default", limit=2, _continue=first.metadata._continue)
    assert [one.metadata.name for one in (*first.items, *rest.items)] == ["a", "b", "c"]


def test_custom_objects_are_kept(client: kubernetes.client.ApiClient) -> None:
    extensions: Any = kubernetes.client.ApiextensionsV1Api(client)
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object"}},
    }
    spec = {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [version],
    }
    body = {"metadata": {"name": "widgets.example.com"}, "spec": spec}
    extensions.create_custom_resource_definition(body)
    custom: Any = kubernetes.client.CustomObjectsApi(client)
    kind = ("example.com", "v1", "default", "widgets")
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "one"}}
    custom.create_namespaced_custom_object(*kind, {**widget, "spec": {"size": 1}})
    change = {"spec": {"size": 2}}
    assert custom.patch_namespaced_custom_object(*kind, "one", change)["spec"] == {"size": 2}
