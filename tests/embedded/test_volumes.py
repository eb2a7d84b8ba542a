"""Claims, volumes and attachments of the played world, one part of it at a time."""

from tests.embedded.loopback import ATTACHMENTS, CLAIMS, VOLUMES, driver, played
from tonnage.embedded.world import Delay
from tonnage.objects.storage import VolumeAttachment


async def test_a_claim_waits_for_its_first_consumer(clock):
    async with played(clock, drivers=(driver(),)) as stage:
        stage.node()
        await stage.after(40)
        stage.claim(mode="WaitForFirstConsumer")
        await stage.after(60)
        assert stage.names(VOLUMES) == []
        stage.claim(mode="WaitForFirstConsumer", selected="n1")
        await stage.after(1)
        assert len(stage.names(VOLUMES)) == 1


async def test_a_volume_is_what_the_claim_asked_for_where_its_node_is(clock):
    zonal = driver(topology={"d/zone": "topology.kubernetes.io/zone"})
    async with played(clock, drivers=(zonal,)) as stage:
        stage.node(zone="z1")
        await stage.after(40)
        claim = stage.claim(mode="WaitForFirstConsumer", selected="n1")
        await stage.after(1)
        spec = stage.get(VOLUMES, f"pvc-{claim['metadata']['uid']}")["spec"]
    assert spec["claimRef"]["uid"] == claim["metadata"]["uid"]
    assert (spec["capacity"], spec["csi"]["driver"]) == ({"storage": "5Gi"}, "d")
    (term,) = spec["nodeAffinity"]["required"]["nodeSelectorTerms"]
    assert term["matchExpressions"] == [{"key": "d/zone", "operator": "In", "values": ["z1"]}]


async def test_a_volume_is_made_only_once_its_driver_is_on_the_node(clock):
    async with played(clock, drivers=(driver(),)) as stage:
        stage.node()
        stage.claim(mode="WaitForFirstConsumer", selected="n1")
        await stage.after(29)
        assert stage.names(VOLUMES) == []
        await stage.after(3)
        assert len(stage.names(VOLUMES)) == 1


async def test_a_claim_of_an_immediate_class_waits_for_nobody(clock):
    async with played(clock, drivers=(driver(),)) as stage:
        stage.node()
        await stage.after(40)
        stage.claim(mode="Immediate")
        await stage.after(1)
        assert len(stage.names(VOLUMES)) == 1


async def test_binding_is_left_to_the_servers_own_controllers(clock):
    async with played(clock, drivers=(driver(),)) as stage:
        stage.node()
        await stage.after(40)
        stage.claim(mode="Immediate")
        await stage.after(60)
        assert "volumeName" not in stage.get(CLAIMS, "c")["spec"]


async def test_where_nobody_else_does_claims_are_bound(clock):
    async with played(clock, controllers=True, drivers=(driver(),)) as stage:
        stage.node()
        await stage.after(40)
        stage.claim(mode="Immediate")
        await stage.after(1)
        claim, (volume,) = stage.get(CLAIMS, "c"), stage.names(VOLUMES)
    assert claim["spec"]["volumeName"] == volume
    assert "pv.kubernetes.io/bind-completed" in claim["metadata"]["annotations"]
    assert claim["status"] == {
        "phase": "Bound",
        "capacity": {"storage": "5Gi"},
        "accessModes": ["ReadWriteOnce"],
    }


async def test_a_volume_goes_with_its_claim(clock):
    async with played(clock, drivers=(driver(),)) as stage:
        stage.node()
        await stage.after(40)
        stage.claim(mode="Immediate")
        await stage.after(1)
        stage.server.remove(f"{CLAIMS}/c")
        await stage.after(1)
        assert stage.names(VOLUMES) == []


async def test_an_attachment_becomes_true_after_a_while(clock):
    async with played(clock, attach=Delay(5.0)) as stage:
        stage.attachment()
        await stage.after(4)
        assert not stage.get(ATTACHMENTS, "va").get("status", {}).get("attached", False)
        await stage.after(2)
        assert stage.get(ATTACHMENTS, "va")["status"]["attached"] is True


async def test_an_attachment_that_is_deleted_stays_until_it_is_detached(clock):
    async with played(clock, detach=Delay(5.0)) as stage:
        attached = stage.attachment()
        await stage.after(1)
        client = stage.server.client(clock)
        await client.delete(VolumeAttachment, attached["metadata"]["name"])
        await stage.after(4)
        assert stage.find(ATTACHMENTS, "va") is not None
        await stage.after(2)
        assert stage.find(ATTACHMENTS, "va") is None


async def test_an_attachment_that_fails_says_so_and_is_tried_again(clock):
    async with played(clock, attach=Delay(5.0), attach_failure_chance=0.9) as stage:
        stage.attachment()
        await stage.after(6)
        assert "attachError" in stage.get(ATTACHMENTS, "va")["status"]
        await stage.after(1_000)
        assert stage.get(ATTACHMENTS, "va")["status"] == {"attached": True}
