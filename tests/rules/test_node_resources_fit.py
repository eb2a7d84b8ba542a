"""NodeResourcesFit: room for one more pod and for what it requests."""

import msgspec
import pytest

from tests.rules.asking import FITS, answer, reasons, version
from tonnage.objects.meta import Condition, ResourceList
from tonnage.objects.nodes import Node, NodeStatus
from tonnage.objects.pods import ContainerStatus, Pod, ResourceRequirements
from tonnage.rules.causes import Cause
from tonnage.rules.node_resources_fit import NodeResourcesFit
from tonnage.testing.builders import container, node, pod

GPU = "example.com/gpu"
RUNNING = pod("running", on="n1", cpu="3", memory="12Gi", requests={"ephemeral-storage": "90Gi"})


def with_pod_level(one: Pod, requests: ResourceList) -> Pod:
    wanted = ResourceRequirements(requests=requests)
    return msgspec.structs.replace(one, spec=msgspec.structs.replace(one.spec, resources=wanted))


@pytest.mark.parametrize(
    ("asking", "expected"),
    [
        pytest.param(pod("web", cpu="1", memory="4Gi"), FITS, id="exactly what is left fits"),
        pytest.param(
            pod("web", cpu="1001m"),
            "U: Insufficient cpu",
            id="a thousandth of a core too much, which other pods could give",
        ),
        pytest.param(
            pod("web", cpu="4001m"),
            "UU: Insufficient cpu",
            id="more than the node ever had, which no other pod could give",
        ),
        pytest.param(
            pod("web", memory=4 * 1024**3 + 1), "U: Insufficient memory", id="a byte too much"
        ),
        pytest.param(
            pod("web", requests={"ephemeral-storage": "11Gi"}),
            "U: Insufficient ephemeral-storage",
            id="not enough ephemeral storage",
        ),
        pytest.param(
            pod("web", cpu="2", memory="8Gi"),
            "U: Insufficient cpu; Insufficient memory",
            id="everything that is short is named, in the order of the checks",
        ),
        pytest.param(
            pod("web", cpu="2", memory="32Gi"),
            "UU: Insufficient cpu; Insufficient memory",
            id="one thing out of reach makes the whole refusal final",
        ),
        pytest.param(pod("web"), FITS, id="a pod that requests nothing fits"),
        pytest.param(pod("web", cpu="0"), FITS, id="a request of zero is no request"),
        pytest.param(
            pod("web", cpu="500m", overhead={"cpu": "600m"}),
            "U: Insufficient cpu",
            id="overhead counts",
        ),
        pytest.param(
            pod("web", cpu="500m", containers=[container("second", cpu="600m")]),
            "U: Insufficient cpu",
            id="containers add up",
        ),
        pytest.param(
            pod("web", cpu="500m", init_containers=[container("init", cpu="1")]),
            FITS,
            id="an init container runs before the others, not beside them",
        ),
        pytest.param(
            pod("web", cpu="500m", init_containers=[container("init", cpu="1100m")]),
            "U: Insufficient cpu",
            id="an init container may want more than the others",
        ),
        pytest.param(
            pod("web", cpu="500m", init_containers=[container("side", cpu="600m", sidecar=True)]),
            "U: Insufficient cpu",
            id="a sidecar stays beside the others",
        ),
        pytest.param(
            pod(
                "web",
                init_containers=[
                    container("side", cpu="600m", sidecar=True),
                    container("init", cpu="500m"),
                ],
            ),
            "U: Insufficient cpu",
            id="an init container runs beside the sidecars before it",
        ),
        pytest.param(
            pod(
                "web",
                init_containers=[
                    container("init", cpu="500m"),
                    container("side", cpu="600m", sidecar=True),
                ],
            ),
            FITS,
            id="an init container does not run beside the sidecars after it",
        ),
        pytest.param(
            with_pod_level(pod("web", cpu="500m"), {"cpu": "1100m"}),
            "U: Insufficient cpu",
            id="a request of the pod as a whole takes the place of its containers'",
        ),
        pytest.param(
            with_pod_level(pod("web", cpu="2"), {"cpu": "1"}),
            FITS,
            id="a request of the pod as a whole may be smaller than its containers'",
        ),
        pytest.param(
            with_pod_level(pod("web", requests={"ephemeral-storage": "11Gi"}), {"cpu": "1"}),
            "U: Insufficient ephemeral-storage",
            id="ephemeral storage has no request of the pod as a whole",
        ),
        pytest.param(
            pod("web", requests={GPU: 1}),
            f"UU: Insufficient {GPU}",
            id="a device the node does not have",
        ),
        pytest.param(
            pod("web", requests={GPU: 0}), FITS, id="no device asked for of a node without any"
        ),
        pytest.param(
            pod("web", requests={"nonsense": 7}), FITS, id="a name the scheduler does not know"
        ),
        pytest.param(
            pod("web", requests={"hugepages-2Mi": "2Mi"}),
            "UU: Insufficient hugepages-2Mi",
            id="huge pages are a resource of their own",
        ),
    ],
)
def test_a_pod_fits_into_what_is_left(asking, expected) -> None:
    """The node offers 4 cores, 16Gi and 100Gi; 1 core, 4Gi and 10Gi of it are left."""
    assert answer(NodeResourcesFit(), asking, [node("n1"), RUNNING]) == expected


def test_devices_in_use_are_not_free() -> None:
    others = [
        node("n1", allocatable={GPU: 2}),
        pod("running", on="n1", requests={GPU: 2}),
    ]

    assert answer(NodeResourcesFit(), pod("web", requests={GPU: 1}), others) == (
        f"U: Insufficient {GPU}"
    )


@pytest.mark.parametrize(
    ("allowed", "expected"),
    [
        pytest.param(2, FITS, id="room for two"),
        pytest.param(1, "U: Too many pods", id="room for one"),
        pytest.param(0, "U: Too many pods", id="room for none is no final refusal either"),
    ],
)
def test_pods_are_counted(allowed, expected) -> None:
    others = [node("n1", pods=allowed), pod("running", on="n1")]

    assert answer(NodeResourcesFit(), pod("web"), others) == expected


def test_too_many_pods_is_named_before_what_is_short() -> None:
    others = [node("n1", pods=1), RUNNING]

    assert answer(NodeResourcesFit(), pod("web", cpu="2"), others) == (
        "U: Too many pods; Insufficient cpu"
    )


def test_a_node_that_does_not_say_how_many_pods_it_takes_takes_none() -> None:
    silent = Node(
        metadata=node("n1").metadata, status=NodeStatus(allocatable={"cpu": "4", "memory": "16Gi"})
    )

    assert answer(NodeResourcesFit(), pod("web"), [silent]) == "U: Too many pods"


def test_what_counts_is_allocatable_not_capacity() -> None:
    reserved = Node(
        metadata=node("n1").metadata,
        status=NodeStatus(
            capacity={"cpu": "4", "pods": 110}, allocatable={"cpu": "3", "pods": 110}
        ),
    )

    assert answer(NodeResourcesFit(), pod("web", cpu="4"), [reserved]) == "UU: Insufficient cpu"


@pytest.mark.parametrize(
    ("running", "expected"),
    [
        pytest.param(
            pod("running", on="n1", cpu="4", phase="Succeeded"),
            FITS,
            id="a finished pod uses nothing",
        ),
        pytest.param(
            pod("running", on="n1", cpu="4", phase="Failed"), FITS, id="a failed pod uses nothing"
        ),
        pytest.param(
            pod("running", on="n1", cpu="4", deleting=True),
            "U: Insufficient cpu",
            id="a pod being deleted uses what it used",
        ),
        pytest.param(
            pod("running", on="n2", cpu="4"), FITS, id="a pod elsewhere uses nothing here"
        ),
    ],
)
def test_pods_on_the_node_use_what_they_request(running, expected) -> None:
    assert answer(NodeResourcesFit(), pod("web", cpu="1"), [node("n1"), running]) == expected


def resizing(*, in_force: str, allocated: str, infeasible: bool = False) -> Pod:
    status = ContainerStatus(
        name="main",
        resources=ResourceRequirements(requests={"cpu": in_force}),
        allocated_resources={"cpu": allocated},
    )
    stuck = Condition(type="PodResizePending", status="True", reason="Infeasible")
    running = pod("running", on="n1", cpu="1")
    return msgspec.structs.replace(
        running,
        status=msgspec.structs.replace(
            running.status,
            container_statuses=(status,),
            conditions=(stuck,) if infeasible else (),
        ),
    )


@pytest.mark.parametrize(
    ("running", "left"),
    [
        pytest.param(
            resizing(in_force="3", allocated="2"), "1", id="it still has more than it asks for"
        ),
        pytest.param(
            resizing(in_force="1", allocated="2"), "2", id="it was promised more than it has"
        ),
        pytest.param(
            resizing(in_force="500m", allocated="500m"), "3", id="it asks for more than it has"
        ),
        pytest.param(
            resizing(in_force="500m", allocated="500m", infeasible=True),
            "3500m",
            id="what it asks for can never be, so it does not count",
        ),
    ],
)
@pytest.mark.parametrize("kubernetes", ["1.36", "1.37"])
def test_a_pod_being_resized_uses_the_most_it_may_have(running, left, kubernetes) -> None:
    of = version(kubernetes)
    others = [node("n1"), running]

    assert answer(NodeResourcesFit(), pod("web", cpu=left), others, of=of) == FITS
    more = pod("web", cpu=left, overhead={"cpu": "1m"})
    assert answer(NodeResourcesFit(), more, others, of=of) == "U: Insufficient cpu"


def test_the_versions_differ_in_pods_of_several_containers_being_resized() -> None:
    """1.37 compares the sums over the pod, 1.36 container by container."""
    statuses = tuple(
        ContainerStatus(name=name, resources=ResourceRequirements(requests={"cpu": cpu}))
        for name, cpu in (("main", "2"), ("second", "500m"))
    )
    running = pod("running", on="n1", cpu="1", containers=[container("second", cpu="1")])
    running = msgspec.structs.replace(
        running, status=msgspec.structs.replace(running.status, container_statuses=statuses)
    )
    asking = pod("web", cpu="1500m")
    others = [node("n1"), running]

    assert answer(NodeResourcesFit(), asking, others, of=version("1.37")) == FITS
    assert answer(NodeResourcesFit(), asking, others, of=version("1.36")) == "U: Insufficient cpu"


def test_what_is_short_comes_with_its_numbers() -> None:
    (reason,) = reasons(NodeResourcesFit(), pod("web", cpu="2"), [node("n1"), RUNNING])

    assert reason.cause is Cause.INSUFFICIENT_RESOURCE
    assert reason.facts == {"resource": "cpu", "wanted": 2000, "used": 3000, "limit": 4000}


def test_too_many_pods_comes_with_its_numbers() -> None:
    (reason,) = reasons(NodeResourcesFit(), pod("web"), [node("n1", pods=1), RUNNING])

    assert reason.cause is Cause.TOO_MANY_PODS
    assert reason.facts == {"used": 1, "limit": 1}
