"""`tonnage plan -f` with ProvisioningRequests, planned as `tonnage run` would."""

from pathlib import Path
from typing import Any

import msgspec

from tests.cli.conftest import Written
from tests.cli.planning import bought, document, run
from tests.scaleup.groups import group
from tests.scheduler.bookings import booked, taking, template
from tonnage.objects.buffers import (
    CapacityBuffer,
    CapacityBufferSpec,
    PodTemplateReference,
    ScalableReference,
)
from tonnage.objects.meta import ObjectMeta
from tonnage.objects.provisioning_requests import CHECK_CAPACITY, ProvisioningRequest
from tonnage.testing import builders as make
from tonnage.testing.clock import VirtualClock

EXAMPLE = str(Path(__file__).parents[2] / "examples" / "gangs" / "requests.yaml")
GROUP = group("g", most=4, cpu="2")


def asked(count: int, **spec: Any) -> ProvisioningRequest:
    """A request that nobody has answered yet."""
    found = booked(VirtualClock(), count, status="False")
    return msgspec.structs.replace(
        found, spec=msgspec.structs.replace(found.spec, **spec), status=type(found.status)()
    )


def outcomes(result: Any) -> dict[str, bool]:
    return {one["gang"].split()[1]: one["helped"] for one in document(result)["gangs"]}


def test_an_atomic_request_is_bought_for_and_a_check_is_not() -> None:
    result = run("-f", EXAMPLE, "-o", "json")
    assert bought(result) == {"research": 2}
    assert outcomes(result) == {"research/train": True, "research/sweep": False}
    (helped,) = (one for one in document(result)["gangs"] if one["helped"])
    assert [one["chunks"] for one in helped["nodes"]] == [2, 1]


def test_the_table_says_what_the_nodes_are_for_and_where_the_room_is() -> None:
    words = run("-f", EXAMPLE).stdout
    assert words.startswith("No pod waits for a node; 2 new nodes for room that is kept")
    assert "room on research-new-1, research-new-2" in words


def test_a_what_if_changes_what_requests_come_to() -> None:
    result = run("-f", EXAMPLE, "--what-if", "limit=ebs.csi.aws.com:1", "-o", "json")
    assert bought(result) == {"research": 3}


def test_no_node_is_bought_for_a_part(written: Written) -> None:
    result = run("-f", written(template("2"), asked(5), GROUP), "-o", "json")
    assert bought(result) == {}
    assert outcomes(result) == {"default/job": False}


def test_nothing_is_bought_for_pods_that_take_room_of_a_request(written: Written) -> None:
    pod = taking(make.pod("job-0", cpu="2"))
    request = asked(1, provisioning_class_name=CHECK_CAPACITY)
    result = run("-f", written(template("2"), request, pod, GROUP), "-o", "json")
    assert bought(result) == {}


def test_bad_requests_and_buffers_are_told_of_and_stop_nothing_else(written: Written) -> None:
    buffer = CapacityBuffer(
        metadata=ObjectMeta(name="both", namespace="default"),
        spec=CapacityBufferSpec(
            pod_template_ref=PodTemplateReference(name="worker"),
            scalable_ref=ScalableReference(api_group="apps", kind="Deployment", name="web"),
            replicas=1,
        ),
    )
    objects = [asked(1), buffer, make.pod("web", cpu="2"), GROUP]
    result = run("-f", written(*objects), "-o", "json")
    assert bought(result) == {"g": 1}
    bad, other = sorted(document(result)["warnings"])
    assert bad.startswith("CapacityBuffer default/both: BothReferences: ")
    assert other == (
        "ProvisioningRequest default/job: FailedToCreatePods: podSets[0].podTemplateRef:"
        " there is no PodTemplate default/worker"
    )
