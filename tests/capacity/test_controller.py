"""The controller as a whole: what it writes when, and what it does not."""

import random
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from tests.capacity.capacity_objects import NAMESPACE, a_class, a_node, its_disk
from tests.capacity.harness import (
    CLASSES,
    CONFIG_MAPS,
    NODES,
    OBJECTS,
    THEIRS,
    a_program,
    controlling,
    events,
    only,
    published,
    put,
    started,
    until,
    writes,
)
from tests.cluster.apiserver import ApiServer, answer, status
from tests.cluster.programs import running
from tonnage.capacity.program import LEASE_NAME, CapacitySettings, uninstall
from tonnage.capacity.sources import FileGroups
from tonnage.capacity.step_writer import Rate
from tonnage.cluster.records import ConfigMap
from tonnage.errors import InputError
from tonnage.objects.meta import ObjectMeta
from tonnage.objects.scenarios import API_VERSION
from tonnage.testing.clock import VirtualClock

LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{LEASE_NAME}"


def cluster(server: ApiServer) -> None:
    """One class that asks, one node."""
    started(server)
    put(server, CLASSES, a_class())
    put(server, NODES, a_node("n1"))


def node_group(instance: str) -> dict[str, Any]:
    node = msgspec.to_builtins(a_node("t", instance))
    return {
        "apiVersion": API_VERSION,
        "kind": "NodeGroup",
        "metadata": {"name": instance},
        "spec": {"maxSize": 3, "template": {"node": node}},
    }


async def test_an_object_is_published_and_then_nothing_is_sent(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        cluster(server)
        async with controlling(server, clock):
            assert writes(server) == [("POST", "")]
            await clock.sleep(3600)
            assert writes(server) == [("POST", "")]
            sent = [one for one in server.requests if one.query.get("watch") != "true"]
            assert len(sent) == 1


async def test_a_new_class_and_a_new_size_are_followed(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        cluster(server)
        async with controlling(server, clock):
            put(server, CLASSES, a_class("slow", "1Ti"))
            await until(lambda: len(published(server)) == 2, clock)
            put(server, CLASSES, a_class("slow", "2Ti"))
            await until(
                lambda: "2Ti" in [one["capacity"] for one in published(server).values()], clock
            )


async def test_a_relabelled_node_moves_its_object(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        cluster(server)
        async with controlling(server, clock):
            before = only(server)["metadata"]["name"]
            put(server, NODES, a_node("n1", "c5"))
            await until(lambda: before not in published(server), clock)
            assert only(server)["metadata"]["labels"]["tonnage.dev/node-group"] == "c5"


async def test_heartbeats_and_reports_of_drivers_call_for_no_look(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        cluster(server)
        async with controlling(server, clock) as program:
            await clock.sleep(5)
            report = program.syncer.report
            put(server, NODES, a_node("n1"))
            put(server, THEIRS, its_disk("n1", "5Gi"))
            await clock.sleep(60)
            assert program.syncer.report is report


async def test_without_news_everything_is_looked_at_every_five_minutes(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        started(server)
        put(server, CLASSES, a_class("fast", "auto"))
        put(server, NODES, a_node("n1"))
        async with controlling(server, clock):
            put(server, THEIRS, its_disk("n1", "5Gi"))
            await clock.sleep(250)
            assert published(server) == {}
            await clock.sleep(60)
            assert only(server)["capacity"] == "5Gi"


@pytest.mark.parametrize(
    "edit",
    [{"capacity": "1Gi"}, {"metadata": {"labels": {}}}, {"maximumVolumeSize": "1Gi"}],
    ids=lambda edit: next(iter(edit)),
)
async def test_what_somebody_edits_is_put_back(edit: dict[str, Any], clock: VirtualClock) -> None:
    async with ApiServer() as server:
        cluster(server)
        async with controlling(server, clock):
            await clock.sleep(5)
            before = only(server)
            meta = {**before["metadata"], **edit.get("metadata", {})}
            server.put(OBJECTS, {**before, **edit, "metadata": meta})
            await clock.sleep(5)
            after = only(server)
            assert {**after, "metadata": 0} == {**before, "metadata": 0}
            assert after["metadata"]["labels"] == before["metadata"]["labels"]
            (event,) = events(server, "CapacityTemplateRestored")
            assert event["involvedObject"]["name"] == "fast"


async def test_what_somebody_deletes_is_there_again(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        cluster(server)
        async with controlling(server, clock):
            await clock.sleep(5)
            name = only(server)["metadata"]["name"]
            server.remove(f"{OBJECTS}/{name}")
            await clock.sleep(5)
            assert only(server)["metadata"]["name"] == name


async def test_an_object_that_fails_stops_no_other_and_is_tried_again(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        cluster(server)
        put(server, NODES, *(a_node(f"more-{n}", f"t{n}") for n in range(5)))
        refused = answer(lambda: status(422, "Invalid", message="not today"))
        server.script("POST", OBJECTS, refused)
        async with controlling(server, clock) as program:
            assert len(published(server)) == 5
            assert program.syncer.report is not None
            assert len(program.syncer.report.failing) == 1
            await until(lambda: len(published(server)) == 6, clock)
            await until(lambda: not program.syncer.report.failing, clock)  # type: ignore[union-attr]
            (event,) = events(server, "CapacityTemplateFailed")
            assert "not today" in event["message"]


async def test_a_failure_is_tried_again_less_and_less_often(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        cluster(server)
        refused = answer(lambda: status(422, "Invalid"))
        server.script("POST", OBJECTS, *[refused] * 100)
        async with controlling(server, clock):
            await clock.sleep(3600)
            assert 12 <= len(writes(server)) <= 40


async def test_writes_are_paced(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        cluster(server)
        put(server, NODES, *(a_node(f"more-{n}", f"t{n}") for n in range(99)))
        began = clock.monotonic()
        async with controlling(server, clock, rate=Rate(per_second=10, burst=20)):
            assert len(published(server)) == 100
            assert clock.monotonic() - began >= 8


async def test_news_that_come_together_are_one_look(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        cluster(server)
        async with controlling(server, clock):
            for number in range(50):
                put(server, NODES, a_node("n1", f"t{number}"))
            await clock.sleep(10)
            assert len(writes(server)) == 3  # the first, the last, and the first again to delete it


async def test_a_restart_in_the_middle_goes_on_where_it_was(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        cluster(server)
        put(server, NODES, *(a_node(f"more-{n}", f"t{n}") for n in range(29)))
        slow = Rate(per_second=1, burst=10)
        async with running(a_program(server, clock, rate=slow), server, clock):
            await until(lambda: len(published(server)) >= 12, clock)
        assert len(published(server)) < 30
        async with controlling(server, clock, identity="b"):
            assert len(published(server)) == 30
        assert sorted(writes(server)) == [("POST", "")] * 30


async def test_of_two_replicas_only_the_leader_writes(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        cluster(server)
        async with controlling(server, clock, identity="a", leader_elect=True):
            second = a_program(server, clock, identity="b", leader_elect=True)
            async with running(second, server, clock):
                await clock.sleep(60)
                assert second.syncer.report is None
                assert server.objects[LEASE]["spec"]["holderIdentity"] == "a"
            assert writes(server) == [("POST", "")]


async def test_nothing_goes_when_the_server_says_nothing_of_nodes(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        cluster(server)
        refused = answer(lambda: status(403, "Forbidden"))
        async with controlling(server, clock):
            pass
        server.script("GET", NODES, *[refused] * 50)
        program = a_program(server, clock)
        async with running(program, server, clock):
            await clock.sleep(600)
            assert len(published(server)) == 1
            assert "Node" in program.unready()


async def test_groups_of_a_file_have_objects_before_they_have_nodes(
    tmp_path: Path, clock: VirtualClock
) -> None:
    file = tmp_path / "groups.yaml"
    file.write_text(yaml.safe_dump(node_group("i3")))
    async with ApiServer() as server:
        cluster(server)
        async with controlling(server, clock, files=FileGroups([str(file)])):
            assert len(published(server)) == 2
            file.write_text(yaml.safe_dump_all([node_group("i3"), node_group("i4")]))
            await until(lambda: len(published(server)) == 3, clock)


async def test_a_file_that_is_no_longer_readable_takes_nothing_away(
    tmp_path: Path, clock: VirtualClock
) -> None:
    file = tmp_path / "groups.yaml"
    file.write_text(yaml.safe_dump(node_group("i3")))
    async with ApiServer() as server:
        cluster(server)
        async with controlling(server, clock, files=FileGroups([str(file)])) as program:
            file.write_text("kind: [")
            await clock.sleep(700)
            assert len(published(server)) == 2
            assert "groups.yaml" in program.syncer.groups_problem


def stored(*instances: str, misspelt: str = "") -> ConfigMap:
    groups = [node_group(one) for one in instances]
    for one, instance in zip(groups, instances, strict=True):
        if instance == misspelt:
            one["spec"]["maxsize"] = one["spec"].pop("maxSize")
    meta = ObjectMeta(name="groups", namespace=NAMESPACE)
    return ConfigMap(metadata=meta, data={"groups.yaml": yaml.safe_dump_all(groups)})


async def test_groups_of_a_config_map_are_watched(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        cluster(server)
        put(server, CONFIG_MAPS, stored("i3"))
        async with controlling(server, clock, node_groups_configmap="groups"):
            assert len(published(server)) == 2
            put(server, CONFIG_MAPS, stored("i3", "i4"))
            await clock.sleep(5)
            assert len(published(server)) == 3


async def test_a_misspelt_group_of_a_config_map_stays_and_the_others_go_on(
    clock: VirtualClock,
) -> None:
    async with ApiServer() as server:
        cluster(server)
        put(server, CONFIG_MAPS, stored("i3"))
        async with controlling(server, clock, node_groups_configmap="groups") as program:
            put(server, CONFIG_MAPS, stored("i3", "i4", misspelt="i3"))
            await clock.sleep(5)
            assert len(published(server)) == 3
            assert "spec.maxsize" in program.syncer.groups_problem


async def test_with_a_group_misspelt_from_the_start_nothing_is_published_or_deleted(
    clock: VirtualClock,
) -> None:
    async with ApiServer() as server:
        cluster(server)
        put(server, CONFIG_MAPS, stored("i3", "i4", misspelt="i3"))
        program = a_program(server, clock, node_groups_configmap="groups")
        async with running(program, server, clock):
            await clock.sleep(60)
            assert published(server) == {}
            assert "spec.maxsize" in program.syncer.groups_problem


async def test_without_its_config_map_nothing_is_published_or_deleted(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        cluster(server)
        program = a_program(server, clock, node_groups_configmap="groups")
        async with running(program, server, clock):
            await clock.sleep(60)
            assert published(server) == {}
            assert "ConfigMap groups" in program.syncer.groups_problem


async def test_a_dry_run_writes_nothing_at_all(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        cluster(server)
        put(server, CLASSES, a_class("bad", "lots"))
        async with controlling(server, clock, dry_run=True) as program:
            assert {one.method for one in server.requests} == {"GET"}
            assert program.syncer.report is not None
            assert len(program.syncer.report.objects) == 1


async def test_a_problem_is_an_event_of_its_class_and_a_figure(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        cluster(server)
        put(server, CLASSES, a_class("bad", "lots"))
        async with controlling(server, clock) as program:
            await clock.sleep(1000)
            (event,) = events(server, "CapacityTemplateInvalid")
            assert (event["involvedObject"]["name"], event["count"]) == ("bad", 1)
            figure = program.metrics.registry.get_sample_value(
                "tonnage_capacity_template_problems", {"reason": "CapacityTemplateInvalid"}
            )
            assert figure == 1


async def test_once_is_one_look(clock: VirtualClock) -> None:
    async with ApiServer() as server:
        cluster(server)
        await a_program(server, clock, once=True, leader_elect=True).run()
        assert len(published(server)) == 1


async def test_uninstalling_deletes_what_was_published_and_nothing_else(
    clock: VirtualClock,
) -> None:
    async with ApiServer() as server:
        cluster(server)
        put(server, NODES, *(a_node(f"more-{n}", f"t{n}") for n in range(3)))
        async with controlling(server, clock):
            pass
        stranger = {"metadata": {"name": "x", "namespace": NAMESPACE}, "storageClassName": "fast"}
        server.put(OBJECTS, stranger)
        settings = CapacitySettings(namespace=NAMESPACE, identity="me")

        deleted = await uninstall(server.client(clock), settings, clock=clock, rng=random.Random(1))
        assert deleted == 4
        assert list(published(server)) == ["x"]


async def test_nothing_is_uninstalled_while_somebody_publishes(clock: VirtualClock) -> None:

    async with ApiServer() as server:
        cluster(server)
        async with controlling(server, clock, leader_elect=True, identity="busy"):
            settings = CapacitySettings(namespace=NAMESPACE, identity="me")
            with pytest.raises(InputError, match="held by busy: stop the controller first"):
                await uninstall(server.client(clock), settings, clock=clock, rng=random.Random(1))
            assert len(published(server)) == 1
