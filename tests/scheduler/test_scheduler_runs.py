"""The scheduler on a cluster: who gets which node, and what the others are told."""

from collections import Counter

import msgspec

from tests.scheduler.harness import (
    DRIVER,
    NAME,
    REPLICA,
    Cluster,
    a_pod,
    a_program,
    claims,
    running,
    scheduling,
    scheduling_on,
)
from tonnage.cluster.transport import HttpRequest, Response
from tonnage.objects.meta import ObjectMeta
from tonnage.objects.nodes import Node, Taint
from tonnage.objects.pods import Pod, PodTemplateSpec, ResourceClaimReference
from tonnage.objects.storage import (
    SELECTED_NODE_ANNOTATION,
    CSIDriver,
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    VolumeAttachment,
)
from tonnage.objects.workloads import StatefulSet, StatefulSetSpec
from tonnage.testing import builders
from tonnage.testing.clock import VirtualClock


async def test_a_pod_of_ours_gets_a_node(clock: VirtualClock) -> None:
    async with scheduling(clock) as cluster:
        await cluster.node("n1")
        await cluster.pod("web", cpu="100m")
        assert await cluster.bound("web") == {"web": "n1"}


async def test_binding_is_told_as_kube_scheduler_does(clock: VirtualClock) -> None:
    async with scheduling(clock) as cluster:
        await cluster.node("n1")
        await cluster.pod("web")
        await cluster.bound("web")
        await clock.sleep(1)
        (event,) = await cluster.events("Scheduled")
        assert event.message == "Successfully assigned default/web to n1"
        assert event.source.component == NAME


async def test_pods_of_other_schedulers_are_left_alone(clock: VirtualClock) -> None:
    async with scheduling(clock) as cluster:
        await cluster.node("n1")
        await cluster.add(builders.pod("theirs"))
        await clock.sleep(30)
        assert await cluster.where("theirs") == ""


async def test_a_pod_without_a_node_is_told_why(clock: VirtualClock) -> None:
    async with scheduling(clock) as cluster:
        await cluster.node("small", cpu="1")
        await cluster.node("tainted", taints=[Taint(key="k", effect="NoSchedule")])
        await cluster.pod("big", cpu="2")
        assert await cluster.refused("big") == (
            "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s)."
            " preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
        )
        (event,) = await cluster.events("FailedScheduling")
        assert event.message == await cluster.refused("big")
        assert event.type == "Warning"


async def test_a_refused_pod_is_not_tried_before_something_can_cure_it(
    clock: VirtualClock,
) -> None:
    async with scheduling(clock) as cluster:
        await cluster.node("n1", cpu="1")
        await cluster.pod("big", cpu="2")
        await cluster.refused("big")
        await cluster.add(builders.storage_class("other", "o"))
        await clock.sleep(100)
        assert cluster.metric(
            "scheduler_schedule_attempts_total", result="unschedulable", profile=NAME
        ) == 1  # fmt: skip


async def test_leftovers_are_tried_again_after_five_minutes(clock: VirtualClock) -> None:
    async with scheduling(clock) as cluster:
        await cluster.node("n1", cpu="1")
        await cluster.pod("big", cpu="2")
        await cluster.refused("big")
        await clock.sleep(310)
        assert cluster.metric(
            "scheduler_schedule_attempts_total", result="unschedulable", profile=NAME
        ) == 2  # fmt: skip


async def test_a_new_node_wakes_who_had_none(clock: VirtualClock) -> None:
    async with scheduling(clock) as cluster:
        await cluster.node("n1", cpu="1")
        await cluster.pod("big", cpu="2")
        await cluster.refused("big")
        await cluster.node("n2", cpu="4")
        assert await cluster.bound("big", within=12) == {"big": "n2"}


async def test_a_deleted_pod_makes_room(clock: VirtualClock) -> None:
    async with scheduling(clock) as cluster:
        await cluster.node("n1", cpu="1")
        await cluster.pod("old", on="n1", cpu="1")
        await cluster.pod("new", cpu="1")
        await cluster.refused("new")
        await cluster.client.delete(Pod, "old", namespace="default", grace_period=0)
        assert await cluster.bound("new", within=12) == {"new": "n1"}


async def test_gates_hold_a_pod_until_the_last_is_lifted(clock: VirtualClock) -> None:
    async with scheduling(clock) as cluster:
        await cluster.node("n1")
        await cluster.pod("gated", gates=["wait"])
        await clock.sleep(20)
        assert await cluster.where("gated") == ""
        await cluster.patch(Pod, "gated", {"spec": {"schedulingGates": []}}, namespace="default")
        assert await cluster.bound("gated", within=2) == {"gated": "n1"}


async def test_important_pods_come_first(clock: VirtualClock) -> None:
    cluster = Cluster(clock)
    await cluster.node("n1", cpu="1")
    await cluster.pod("low", cpu="1", priority=1)
    await cluster.pod("high", cpu="1", priority=10)
    async with running(a_program(cluster)):
        await cluster.bound("high")
        await cluster.refused("low")


async def test_claims_that_wait_are_served_where_their_pod_goes(clock: VirtualClock) -> None:
    async with scheduling(clock) as cluster:
        await cluster.add(builders.storage_class("fast", DRIVER))
        await cluster.node("n1", drivers={DRIVER: 5})
        await claims(cluster, ["data"])
        await cluster.pod("db", pvcs=["data"])
        assert await cluster.bound("db") == {"db": "n1"}
        claim = await cluster.get(PersistentVolumeClaim, "data")
        assert claim.metadata.annotations[SELECTED_NODE_ANNOTATION] == "n1"
        assert claim.fully_bound


async def test_a_volume_that_is_there_is_taken_before_one_is_made(clock: VirtualClock) -> None:
    async with scheduling(clock) as cluster:
        await cluster.add(builders.storage_class("fast", DRIVER))
        await cluster.node("n1", zone="a", drivers={DRIVER: 5})
        await cluster.node("n2", zone="b", drivers={DRIVER: 5})
        for name, zone, size in (("big", "a", "9Gi"), ("fit", "a", "2Gi"), ("far", "b", "1Gi")):
            await cluster.add(
                builders.pv(
                    name, driver=DRIVER, storage_class="fast", size=size,
                    node_affinity=builders.nodes_with(builders.ZONE, zone),
                )
            )  # fmt: skip
        await claims(cluster, ["data"])
        await cluster.pod("db", pvcs=["data"], node_selector={builders.ZONE: "a"})
        assert await cluster.bound("db") == {"db": "n1"}
        assert (await cluster.get(PersistentVolumeClaim, "data")).spec.volume_name == "fit"
        reference = (await cluster.get(PersistentVolume, "fit", namespace="")).spec.claim_ref
        assert reference is not None
        assert reference.name == "data"


async def test_two_pods_do_not_take_the_same_volume(clock: VirtualClock) -> None:
    async with scheduling(clock) as cluster:
        await cluster.add(builders.storage_class("fast", "kubernetes.io/no-provisioner"))
        await cluster.node("n1", cpu="8")
        for name in ("one", "two"):
            await cluster.add(builders.pv(name, driver=DRIVER, storage_class="fast"))
            await claims(cluster, [f"{name}-data"])
        await cluster.add(a_pod("one", pvcs=["one-data"]), a_pod("two", pvcs=["two-data"]))
        await cluster.bound("one", "two")
        taken = {
            (await cluster.get(PersistentVolumeClaim, f"{name}-data")).spec.volume_name
            for name in ("one", "two")
        }
        assert taken == {"one", "two"}


async def test_a_burst_never_takes_a_node_over_its_limit(clock: VirtualClock) -> None:
    cluster = Cluster(clock)
    names = [f"db-{number}" for number in range(9)]
    await cluster.add(builders.storage_class("fast", DRIVER))
    await cluster.node("n1", drivers={DRIVER: 5})
    await cluster.node("n2", drivers={DRIVER: 3})
    await claims(cluster, names)
    for name in names:
        await cluster.pod(name, pvcs=[name], cpu="10m")
    async with scheduling_on(cluster):
        await clock.sleep(20)
        where = [await cluster.where(name) for name in names]
    assert (where.count("n1"), where.count("n2"), where.count("")) == (5, 3, 1)


async def test_the_opt_in_holds_a_pod_until_the_driver_registers(clock: VirtualClock) -> None:
    async with scheduling(clock) as cluster:
        await cluster.add(
            builders.storage_class("fast", DRIVER), builders.csidriver(DRIVER, opt_in=True)
        )
        await cluster.node("n1", drivers={})
        await claims(cluster, ["data"])
        await cluster.pod("db", pvcs=["data"])
        assert (await cluster.refused("db")).startswith(
            "0/1 nodes are available: 1 ebs.csi.aws.com CSI driver is not installed on the node."
        )
        # Without a limit: upstream does not notice this one.
        registered = {"spec": {"drivers": [{"name": DRIVER, "nodeID": "n1"}]}}
        await cluster.patch(CSINode, "n1", registered)
        assert await cluster.bound("db", within=12) == {"db": "n1"}


async def test_switching_the_opt_in_off_lets_pods_in(clock: VirtualClock) -> None:
    async with scheduling(clock) as cluster:
        await cluster.add(
            builders.storage_class("fast", DRIVER), builders.csidriver(DRIVER, opt_in=True)
        )
        await cluster.node("n1", drivers={})
        await claims(cluster, ["data"])
        await cluster.pod("db", pvcs=["data"])
        await cluster.refused("db")
        off = {"spec": {"preventPodSchedulingIfMissing": False}}
        await cluster.patch(CSIDriver, DRIVER, off)
        await clock.sleep(12)
        claim = await cluster.get(PersistentVolumeClaim, "data")
        # No volume is made where the driver is not; but the node is chosen.
        assert claim.metadata.annotations[SELECTED_NODE_ANNOTATION] == "n1"


async def test_a_volume_still_attached_takes_its_slot(clock: VirtualClock) -> None:
    cluster = Cluster(clock)
    await cluster.node("n1", drivers={DRIVER: 1})
    for name in ("old", "new"):
        claim = builders.pvc(name, volume=name)
        await cluster.add(builders.pv(name, driver=DRIVER, claim=claim), claim)
    await cluster.add(builders.attachment("old", "n1", attacher=DRIVER))
    # Nobody detaches the volume before its time.
    async with running(a_program(cluster)):
        await cluster.pod("db", pvcs=["new"])
        assert "exceed max volume count" in await cluster.refused("db")
        await cluster.client.delete(VolumeAttachment, "old-on-n1")
        assert await cluster.bound("db", within=12) == {"db": "n1"}


async def test_a_pod_may_return_to_its_volume(clock: VirtualClock) -> None:
    cluster = Cluster(clock)
    await cluster.node("n1", drivers={DRIVER: 1})
    claim = builders.pvc("data", volume="v")
    await cluster.add(builders.pv("v", driver=DRIVER, claim=claim), claim)
    await cluster.add(builders.attachment("v", "n1", attacher=DRIVER))
    async with running(a_program(cluster)):
        await cluster.pod("db", pvcs=["data"])
        assert await cluster.bound("db") == {"db": "n1"}


async def test_a_binding_that_fails_for_a_moment_is_tried_again(clock: VirtualClock) -> None:
    async with scheduling(clock) as cluster:
        failures = iter([503, 503])

        def fault(request: HttpRequest) -> Response | None:
            code = next(failures, 0) if request.path.endswith("/binding") else 0
            return Response(status=code) if code else None

        cluster.transport.fault = fault
        await cluster.node("n1")
        await cluster.pod("web")
        assert await cluster.bound("web", within=5) == {"web": "n1"}


async def test_a_binding_that_is_refused_is_decided_anew(clock: VirtualClock) -> None:
    async with scheduling(clock) as cluster:
        refusals = iter([400])

        def fault(request: HttpRequest) -> Response | None:
            code = next(refusals, 0) if request.path.endswith("/binding") else 0
            return Response(status=code) if code else None

        cluster.transport.fault = fault
        await cluster.node("n1")
        await cluster.pod("web")
        assert await cluster.bound("web", within=5) == {"web": "n1"}
        assert await cluster.events("FailedScheduling")


async def test_a_pod_whose_binding_failed_gives_its_room_back(clock: VirtualClock) -> None:
    async with scheduling(clock, podInitialBackoff=100, podMaxBackoff=100) as cluster:
        failing = {"web"}

        def fault(request: HttpRequest) -> Response | None:
            if request.path.endswith("/web/binding") and "web" in failing:
                return Response(status=400)
            return None

        cluster.transport.fault = fault
        await cluster.node("n1", cpu="1")
        await cluster.pod("web", cpu="1")
        await cluster.refused("web")
        await cluster.pod("other", cpu="1")
        assert await cluster.bound("other", within=5) == {"other": "n1"}


async def test_only_the_leader_schedules(clock: VirtualClock) -> None:
    cluster = Cluster(clock)
    first, second = (a_program(cluster, identity=one, elect=True) for one in ("a", "b"))
    await cluster.node("n1")
    async with running(first):
        await cluster.pod("one")
        await cluster.bound("one")
        async with running(second):
            await clock.sleep(30)
            assert first.leadership.leading()
            assert not second.leadership.leading()
    async with running(second):
        await cluster.pod("two")
        assert await cluster.bound("two") == {"two": "n1"}


async def test_a_node_that_is_cordoned_is_passed_over(clock: VirtualClock) -> None:
    async with scheduling(clock) as cluster:
        await cluster.node("n1")
        await cluster.node("n2")
        await cluster.patch(Node, "n1", {"spec": {"unschedulable": True}})
        await clock.sleep(1)
        await cluster.pod("web")
        assert await cluster.bound("web") == {"web": "n2"}


async def test_a_claim_whose_volume_cannot_be_made_sends_its_pod_elsewhere(
    clock: VirtualClock,
) -> None:
    cluster = Cluster(clock)
    await cluster.add(builders.storage_class("fast", DRIVER))
    await cluster.node("n1", drivers={DRIVER: 5})
    await claims(cluster, ["data"])
    async with running(a_program(cluster)):
        await cluster.pod("db", pvcs=["data"])
        await clock.sleep(5)
        taken_away = {"metadata": {"annotations": {SELECTED_NODE_ANNOTATION: None}}}
        await cluster.patch(PersistentVolumeClaim, "data", taken_away, namespace="default")
        assert await cluster.refused("db", within=1) == (
            'binding volumes: provisioning failed for PVC "data"'
        )
        await cluster.node("n2", drivers={DRIVER: 50})
        await cluster.patch(Node, "n1", {"spec": {"unschedulable": True}})
        await clock.sleep(12)
        claim = await cluster.get(PersistentVolumeClaim, "data")
        assert claim.metadata.annotations[SELECTED_NODE_ANNOTATION] == "n2"


async def test_a_claim_that_is_never_bound_is_given_up_in_the_end(clock: VirtualClock) -> None:
    cluster = Cluster(clock)
    await cluster.add(builders.storage_class("fast", DRIVER))
    await cluster.node("n1", drivers={DRIVER: 5})
    await claims(cluster, ["data"])
    async with running(a_program(cluster, bindTimeout=60)):
        await cluster.pod("db", pvcs=["data"])
        await clock.sleep(50)
        assert await cluster.condition("db") is None
        assert await cluster.refused("db", within=20) == (
            "binding volumes: not all claims were bound within 60 s"
        )


async def test_a_decided_pod_keeps_its_room_while_its_volume_is_made(clock: VirtualClock) -> None:
    cluster = Cluster(clock)
    await cluster.add(builders.storage_class("fast", DRIVER))
    await cluster.node("n1", drivers={DRIVER: 1})
    await claims(cluster, ["one", "two"])
    async with running(a_program(cluster)):
        await cluster.pod("one", pvcs=["one"])
        await clock.sleep(2)
        await cluster.patch(
            Pod, "one", {"metadata": {"labels": {"changed": "yes"}}}, namespace="default"
        )
        await clock.sleep(2)
        await cluster.pod("two", pvcs=["two"])
        assert "exceed max volume count" in await cluster.refused("two")


async def test_a_pod_made_anew_under_the_same_name_is_scheduled_too(clock: VirtualClock) -> None:
    cluster = Cluster(clock)
    await cluster.add(builders.storage_class("fast", DRIVER))
    await cluster.node("n1", drivers={DRIVER: 1})
    await claims(cluster, ["data"])
    async with scheduling_on(cluster):
        await cluster.pod("db", pvcs=["data"])
        await clock.sleep(0.3)
        await cluster.client.delete(Pod, "db", namespace="default", grace_period=0)
        await cluster.pod("db", pvcs=["data"])
        assert await cluster.bound("db") == {"db": "n1"}


async def test_pods_that_share_a_waiting_claim_go_to_the_same_node(clock: VirtualClock) -> None:
    cluster = Cluster(clock)
    await cluster.add(builders.storage_class("fast", DRIVER))
    for name in ("n1", "n2", "n3"):
        await cluster.node(name, drivers={DRIVER: 1})
    await claims(cluster, ["data"])
    for name in ("one", "two", "three"):
        await cluster.pod(name, pvcs=["data"])
    async with scheduling_on(cluster):
        assert len(set((await cluster.bound("one", "two", "three")).values())) == 1


async def test_a_pod_that_wants_devices_is_told_that_they_are_not_supported(
    clock: VirtualClock,
) -> None:
    async with scheduling(clock) as cluster:
        await cluster.node("n1")
        made = a_pod("gpu")
        wanting = msgspec.structs.replace(
            made.spec, resource_claims=(ResourceClaimReference(name="gpu"),)
        )
        await cluster.add(msgspec.structs.replace(made, spec=wanting))
        assert "DynamicResources" in await cluster.refused("gpu")


async def test_without_the_right_to_read_nodes_nothing_is_decided(clock: VirtualClock) -> None:
    cluster = Cluster(clock)
    await cluster.node("n1")
    cluster.transport.fault = lambda request: (
        Response(status=403) if request.path == "/api/v1/nodes" else None
    )
    async with scheduling_on(cluster):
        await cluster.pod("web")
        await clock.sleep(30)
        assert await cluster.where("web") == ""
        assert "Node objects cannot be read" in cluster.program.scheduler.hold


async def test_in_zones_a_burst_is_spread_evenly(clock: VirtualClock) -> None:
    cluster = Cluster(clock)
    for number in range(6):
        await cluster.node(f"n{number}", zone=f"z{number % 3}", cpu="16")
    await cluster.add(
        StatefulSet(
            metadata=ObjectMeta(name="db", namespace="default"),
            spec=StatefulSetSpec(
                selector=builders.selecting({"app": "db"}),
                template=PodTemplateSpec(metadata=ObjectMeta(labels={"app": "db"})),
            ),
        )
    )
    owner = msgspec.structs.replace(
        REPLICA, uid=(await cluster.get(StatefulSet, "db")).metadata.uid
    )
    names = [f"db-{number}" for number in range(24)]
    for name in names:
        await cluster.pod(name, labels={"app": "db"}, owner=owner, cpu="100m")
    async with scheduling_on(cluster):
        where = await cluster.bound(*names)
    assert sorted(Counter(where.values()).values()) == [4] * 6
