"""The capacity-template controller on a real API server, with the rights that are shipped."""

import asyncio
import json
import os
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e import deployed, manifests
from tests.e2e.connections import connected
from tests.e2e.controlplane import REPOSITORY, ControlPlane, wait_until
from tests.e2e.manifests import Manifest
from tests.e2e.workspace import Workspace
from tonnage.capacity import conventions
from tonnage.capacity.conventions import LOCAL_CSI_DRIVER, OURS, Convention
from tonnage.capacity.program import CapacityProgram, CapacitySettings, uninstall
from tonnage.capacity.step_writer import Rate
from tonnage.capacity.sync import SyncPace
from tonnage.clock import SystemClock
from tonnage.cluster import config
from tonnage.cluster.client import Client
from tonnage.cluster.http import HttpTransport
from tonnage.cluster.lease import Timing
from tonnage.cluster.transport import HttpRequest, Response, Stream
from tonnage.groups.model import TEMPLATE_NODE_LABEL
from tonnage.objects.scenarios import API_VERSION

NAMESPACE = "tonnage-system"
ACCOUNT = "tonnage-capacity-templates"
NODE_GROUPS = "tonnage-capacity-templates-node-groups"
GROUP = "capacity.example.com/group"
"""A label of our own makes the groups, so that nodes of other tests make none."""
KIND = "csistoragecapacities"

CLOCK = SystemClock()
QUICK = Timing(retry_period=0.5)
"""To take a lease that was given back; one that is held is not lost on a machine that is slow."""


class Counting:
    """A transport that counts what goes over it: `create csistoragecapacities`, watches apart."""

    def __init__(self, transport: HttpTransport) -> None:
        self._transport = transport
        self.counts: Counter[str] = Counter()

    async def send(self, request: HttpRequest) -> Response:
        resource = KIND if KIND in request.path else request.path.rpartition("/")[2]
        for other in ("leases", "events"):
            if f"/{other}" in request.path:
                resource = other
        self.counts[f"{request.method} {resource}"] += 1
        return await self._transport.send(request)

    def stream(self, request: HttpRequest) -> AbstractAsyncContextManager[Stream]:
        return self._transport.stream(request)

    async def close(self) -> None:
        await self._transport.close()

    def of_objects(self) -> dict[str, int]:
        """Requests about capacity objects, by method."""
        return {
            name.partition(" ")[0]: count
            for name, count in sorted(self.counts.items())
            if name.endswith(KIND)
        }

    def writes(self) -> dict[str, int]:
        """Those that change something: a list may be asked for again at any time."""
        return {method: count for method, count in self.of_objects().items() if method != "GET"}


class Stage:
    """What a test needs to see of the controller: its rights are in place."""

    def __init__(self, work: Workspace, account: str) -> None:
        self.work = work
        self._account = account
        self.cluster = work.cluster
        self.driver = f"{work.namespace}.example.com"

    def kubeconfig(self) -> Path:
        return self.cluster.kubeconfig_of_account(self._account, namespace=NAMESPACE)

    def storage_class(self, name: str, asks: str | None, **more: str) -> Manifest:
        made = manifests.storage_class(
            f"{self.work.namespace}-{name}", more.get("driver", self.driver)
        )
        annotation = more.get("annotation", OURS.annotation)
        if asks is not None:
            made["metadata"]["annotations"] = {annotation: asks}
        return made

    def name(self, name: str) -> str:
        return f"{self.work.namespace}-{name}"

    def create(self, *objects: Manifest) -> None:
        self.work.create(*objects)

    def apply_groups(self, *groups: str) -> None:
        """Node groups without nodes, each with a template that has the label."""
        documents = [
            {
                "apiVersion": API_VERSION,
                "kind": "NodeGroup",
                "metadata": {"name": one},
                "spec": {
                    "maxSize": 3,
                    "template": {"node": {"metadata": {"name": "t", "labels": {GROUP: one}}}},
                },
            }
            for one in groups
        ]
        data = {"node-groups.yaml": yaml.safe_dump_all(documents)}
        patch = json.dumps({"data": data})
        self.cluster.kubectl(
            "patch", "configmap", NODE_GROUPS, "-n", NAMESPACE, "--type=merge", "--patch", patch
        )

    def objects(self) -> list[Manifest]:
        """Capacity of the storage classes of this test."""
        listed = self.cluster.kubectl("get", KIND, "-n", NAMESPACE, "-o", "json")
        found: list[Manifest] = json.loads(listed)["items"]
        return [one for one in found if one["storageClassName"].startswith(self.name(""))]

    def pairs(self, convention: Convention = OURS) -> dict[tuple[str, str], str]:
        """What is published: the size, by class without its prefix and group."""
        found = {}
        for one in self.objects():
            labels = one["metadata"].get("labels", {})
            name = one["storageClassName"].removeprefix(f"{self.work.namespace}-")
            found[name, labels.get(convention.group_label, "")] = str(one.get("capacity"))
        return found


@pytest.fixture(scope="module")
def shipped(cluster: ControlPlane) -> str:
    """The account, with its rights as shipped; nobody here runs the pods of the Deployment."""
    cluster.mend()
    rendered = cluster.kubectl("kustomize", str(REPOSITORY / "deploy" / "capacity-templates"))
    wanted = [
        one
        for one in yaml.safe_load_all(rendered)
        if one and one["kind"] not in ("Deployment", "PodDisruptionBudget")
    ]
    deployed.install(cluster, wanted, account=ACCOUNT, namespace=NAMESPACE)
    return ACCOUNT


@pytest.fixture
def stage(work: Workspace, shipped: str) -> Iterator[Stage]:
    made = Stage(work, shipped)
    work.create(
        {**manifests.csidriver(made.driver), "spec": {"storageCapacity": True}},
    )
    made.apply_groups()
    try:
        yield made
    finally:
        work.cluster.kubectl("delete", KIND, "--all", "-n", NAMESPACE)


@asynccontextmanager
async def client_of(stage: Stage) -> AsyncIterator[tuple[Client, Counting]]:
    transport = HttpTransport(
        config.from_files([stage.kubeconfig()]), clock=CLOCK, environ=os.environ
    )
    counting = Counting(transport)
    try:
        yield Client(counting, clock=CLOCK, rng=random.Random()), counting
    finally:
        await transport.close()


def settings(*, convention: Convention = OURS, **more: Any) -> CapacitySettings:
    return CapacitySettings(
        namespace=NAMESPACE,
        groupings=((GROUP,),),
        convention=convention,
        identity=f"e2e-{random.random()}",
        address="127.0.0.1:0",
        timing=QUICK,
        node_groups_configmap=NODE_GROUPS,
        pace=SyncPace(resync=more.pop("resync", 300.0), gather=0.1),
        **more,
    )


@asynccontextmanager
async def controlling(stage: Stage, **more: Any) -> AsyncIterator[tuple[CapacityProgram, Counting]]:
    """A replica as leader, until the block ends."""
    async with client_of(stage) as (client, counting):
        numbers = iter(range(10**9))
        program = CapacityProgram(
            client,
            settings=settings(**more),
            files=None,
            clock=CLOCK,
            rng=random.Random(),
            new_id=lambda: f"{stage.work.namespace}-{next(numbers)}",
        )
        task = asyncio.ensure_future(program.run())
        try:
            yield program, counting
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def until(condition: Callable[[], bool], *, within: float = 180.0) -> None:
    """Off the loop: the condition may ask kubectl while the controller goes on."""
    deadline = time.monotonic() + within
    while not await asyncio.to_thread(condition):
        assert time.monotonic() < deadline, "it never came to be so"
        await asyncio.sleep(0.2)


async def kubectl(stage: Stage, *arguments: str) -> str:
    return await asyncio.to_thread(stage.cluster.kubectl, *arguments)


async def test_objects_are_created_updated_and_deleted_as_classes_and_nodes_change(
    stage: Stage,
) -> None:
    node = stage.name("n1")
    stage.create(
        stage.storage_class("fast", "100Gi"),
        manifests.node(node, labels={GROUP: "m5"}),
    )
    async with controlling(stage):
        await until(lambda: stage.pairs() == {("fast", "m5"): "100Gi"})
        asks = f'{OURS.annotation}={{"m5": {{"capacity": "2Ti", "maximumVolumeSize": "1Ti"}}}}'
        await kubectl(stage, "annotate", "--overwrite", "sc", stage.name("fast"), asks)
        await until(lambda: [one.get("maximumVolumeSize") for one in stage.objects()] == ["1Ti"])
        assert stage.pairs() == {("fast", "m5"): "2Ti"}
        await kubectl(
            stage, "annotate", "--overwrite", "sc", stage.name("fast"), f"{OURS.annotation}=3Ti"
        )
        await until(lambda: stage.pairs() == {("fast", "m5"): "3Ti"})
        assert "maximumVolumeSize" not in stage.objects()[0]
        await kubectl(stage, "label", "--overwrite", "node", node, f"{GROUP}=c5")
        await until(lambda: stage.pairs() == {("fast", "c5"): "3Ti"})
        await kubectl(stage, "annotate", "sc", stage.name("fast"), f"{OURS.annotation}-")
        await until(lambda: stage.pairs() == {})


async def test_what_somebody_edits_or_deletes_is_put_back(stage: Stage) -> None:
    stage.create(stage.storage_class("fast", "100Gi"))
    stage.apply_groups("m5")
    async with controlling(stage):
        await until(lambda: stage.pairs() == {("fast", "m5"): "100Gi"})
        (before,) = stage.objects()
        name = before["metadata"]["name"]
        await kubectl(
            stage, "patch", KIND, name, "-n", NAMESPACE, "--type=merge", "--patch",
            json.dumps({"capacity": "1Gi", "metadata": {"labels": {OURS.manager_label: None}}}),
        )  # fmt: skip
        await until(lambda: stage.pairs() == {("fast", "m5"): "100Gi"})
        (after,) = stage.objects()
        assert after["metadata"]["labels"] == before["metadata"]["labels"]
        assert after["metadata"]["uid"] == before["metadata"]["uid"]
        await kubectl(stage, "delete", KIND, name, "-n", NAMESPACE)
        await until(lambda: stage.pairs() == {("fast", "m5"): "100Gi"})
        await until(lambda: restored(stage, "fast") == ["changed", "deleted"])


def restored(stage: Stage, name: str) -> list[str]:
    """What the events of a class say that its objects were when they were put back."""
    listed = stage.cluster.kubectl(
        "get", "events", "-n", "default", "-o", "json", "--field-selector",
        f"involvedObject.name={stage.name(name)},reason=CapacityTemplateRestored",
    )  # fmt: skip
    messages = [str(one["message"]) for one in json.loads(listed)["items"]]
    return sorted(message.partition(" was ")[2][:7] for message in messages)


async def test_an_object_whose_selector_is_wrong_is_replaced(stage: Stage) -> None:
    stage.create(stage.storage_class("fast", "100Gi"))
    pair = (stage.name("fast"), ((GROUP, "m5"),))
    name = OURS.names([pair])[pair]
    wrong = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIStorageCapacity",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": OURS.labels(pair)},
        "storageClassName": pair[0],
        "nodeTopology": {"matchLabels": {"elsewhere": "true"}},
        "capacity": "100Gi",
    }
    stage.cluster.create(wrong)
    (before,) = stage.objects()
    uid = before["metadata"]["uid"]
    stage.apply_groups("m5")
    async with controlling(stage) as (_, counting):
        # For a moment there is none: it is deleted first.
        await until(lambda: [one["metadata"]["uid"] != uid for one in stage.objects()] == [True])
        (after,) = stage.objects()
        assert after["nodeTopology"]["matchLabels"] == {GROUP: "m5", TEMPLATE_NODE_LABEL: "true"}
        assert counting.writes() == {"DELETE": 1, "POST": 1}


async def test_pairs_that_would_share_a_vendors_name_both_have_an_object(stage: Stage) -> None:
    vendor = {"driver": LOCAL_CSI_DRIVER.provisioner, "annotation": LOCAL_CSI_DRIVER.annotation}
    stage.create(stage.storage_class("a.b", "1Gi", **vendor))
    stage.apply_groups("Standard_L8s_v3")
    async with controlling(stage, convention=LOCAL_CSI_DRIVER):
        await until(lambda: len(stage.objects()) == 1)
        (first,) = stage.objects()
        plain = f"local-csi-template-{stage.work.namespace}-a-b-standard-l8s-v3"
        assert first["metadata"]["name"] == plain
        stage.create(stage.storage_class("a-b", "2Gi", **vendor))
        await until(
            lambda: (
                stage.pairs(LOCAL_CSI_DRIVER)
                == {("a.b", "Standard_L8s_v3"): "1Gi", ("a-b", "Standard_L8s_v3"): "2Gi"}
                and plain not in [one["metadata"]["name"] for one in stage.objects()]
            )
        )


async def test_names_and_labels_at_their_limits_are_accepted_by_the_server(stage: Stage) -> None:
    long = "a" * (253 - len(stage.name("")) - 2)
    stage.create(stage.storage_class(f"{long}.x", "1Gi"), stage.storage_class(f"{long}.y", "2Gi"))
    stage.apply_groups("G" * 63)
    async with controlling(stage):
        await until(lambda: len(stage.objects()) == 2)


async def test_objects_of_others_are_left_alone_and_reported(stage: Stage) -> None:
    stage.create(stage.storage_class("fast", "100Gi"))
    stage.apply_groups("m5")
    provisioner = {
        "csi.storage.k8s.io/drivername": stage.driver,
        "csi.storage.k8s.io/managed-by": "external-provisioner",
        OURS.manager_label: OURS.manager,
    }
    theirs = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIStorageCapacity",
        "metadata": {"name": "csisc-x", "namespace": NAMESPACE, "labels": provisioner},
        "storageClassName": stage.name("fast"),
        "nodeTopology": {"matchLabels": {GROUP: "m5"}},
        "capacity": "7Gi",
    }
    stage.cluster.create(theirs)
    before = stage.cluster.get(KIND, "csisc-x", namespace=NAMESPACE)
    async with controlling(stage) as (program, _):
        await until(lambda: len(stage.objects()) == 2)
        await until(lambda: "CapacityTemplateConflict" in problems(program))
    async with client_of(stage) as (client, _):
        assert await uninstall(client, settings(), clock=CLOCK, rng=random.Random()) == 1
    assert stage.cluster.get(KIND, "csisc-x", namespace=NAMESPACE) == before


def problems(program: CapacityProgram) -> list[str]:
    """What its last look found to complain of."""
    report = program.syncer.report
    return [one.reason for one in report.problems] if report is not None else []


@pytest.mark.patience(900)
async def test_two_hundred_groups_and_twenty_classes_converge_through_a_restart(
    stage: Stage, figure: Callable[[str], None]
) -> None:
    stage.create(*(stage.storage_class(f"c{n}", f"{n + 1}Gi") for n in range(20)))
    stage.apply_groups(*(f"g{n}" for n in range(200)))
    fast = Rate(per_second=500, burst=50)
    async with controlling(stage, rate=fast) as (_, first):
        await until(lambda: first.of_objects().get("POST", 0) >= 1000, within=300)
    began = time.monotonic()
    async with controlling(stage, rate=fast, resync=2.0) as (program, second):
        await until(
            lambda: (
                program.syncer.report is not None
                and program.syncer.report.steps == {}
                and not program.syncer.report.failing
            ),
            within=400,
        )
        seconds = time.monotonic() - began
        assert len(await asyncio.to_thread(stage.objects)) == 4000
        sent = second.writes()
        looks = program.metrics.registry.get_sample_value
        before = looks("tonnage_capacity_template_sync_seconds_count") or 0
        await until(
            lambda: (looks("tonnage_capacity_template_sync_seconds_count") or 0) >= before + 3
        )
        assert second.writes() == sent
        figure(
            f"capacity templates, 200 groups x 20 classes: first replica stopped after"
            f" {first.of_objects()}, second finished in {seconds:.0f} s with {sent};"
            f" 3 more looks sent nothing"
        )
    created = first.of_objects()["POST"] + second.of_objects()["POST"]
    # A request that was under way when the first replica stopped may have arrived, or not.
    assert 4000 <= created <= 4008
    began = time.monotonic()
    async with client_of(stage) as (client, counting):
        quick = settings(rate=fast)
        assert await uninstall(client, quick, clock=CLOCK, rng=random.Random()) == 4000
        took = time.monotonic() - began
        figure(f"capacity templates, uninstall: {counting.of_objects()} in {took:.0f} s")
    assert await asyncio.to_thread(stage.objects) == []


async def test_a_right_that_is_missing_is_told_and_writes_nothing(stage: Stage) -> None:
    async with connected(stage.cluster.kubeconfig("nobody")) as client:
        program = CapacityProgram(
            client, settings=settings(leader_elect=False), files=None, clock=CLOCK,
            rng=random.Random(), new_id=str,
        )  # fmt: skip
        task = asyncio.ensure_future(program.run())
        await until(lambda: "forbidden" in program.unready())
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def test_the_scheduler_takes_the_node_that_is_marked_as_imagined_and_never_a_real_one(
    stage: Stage,
) -> None:
    """A Node with the label stands in for an imagined one: only so can the scheduler be asked."""
    labels = {GROUP: "m5"}
    real, imagined = stage.name("real"), stage.name("imagined")
    stage.create(
        stage.storage_class("fast", None),
        manifests.node(real, labels=labels),
        manifests.csinode(real, {stage.driver: None}),
        manifests.node(imagined, labels={**labels, TEMPLATE_NODE_LABEL: "true"}),
        manifests.csinode(imagined, {stage.driver: None}),
    )
    wish = manifests.claim("data", stage.name("fast"), namespace=stage.work.namespace)
    wish["spec"]["resources"]["requests"]["storage"] = "60Gi"
    pod = manifests.pod("db", namespace=stage.work.namespace, claims=["data"], nodeSelector=labels)
    stage.create(wish, pod)
    wait_until(
        lambda: "2 node(s) did not have enough free storage" in stage.work.scheduler_says("db"),
        what="both nodes are refused",
        late=lambda: stage.work.scheduler_says("db"),
    )

    def chosen() -> str:
        meta = stage.work.get("pvc", "data")["metadata"]
        return str(meta.get("annotations", {}).get("volume.kubernetes.io/selected-node", ""))

    async def publish() -> None:
        async with controlling(stage):
            await kubectl(stage, "annotate", "sc", stage.name("fast"), f"{OURS.annotation}=100Gi")
            await until(lambda: chosen() != "")

    asyncio.run(publish())
    assert chosen() == imagined
    selector = conventions.selector(((GROUP, "m5"),))
    assert [one["nodeTopology"]["matchLabels"] for one in stage.objects()] == [
        selector.match_labels
    ]
