"""What a CapacityBuffer asks for, and what is said of one that cannot be used."""

from typing import Any

import msgspec
import pytest

from tonnage.groups import capacity_buffers
from tonnage.groups.capacity_buffers import AS_ASKED, WINDOWS_ANNOTATION, BufferReading
from tonnage.objects.buffers import (
    CapacityBuffer,
    CapacityBufferSpec,
    PodTemplate,
    PodTemplateReference,
    ScalableReference,
)
from tonnage.objects.meta import ObjectMeta
from tonnage.objects.pods import PodTemplateSpec
from tonnage.objects.volume_sources import VolumeSource
from tonnage.objects.workloads import Deployment, DeploymentSpec, Job, JobSpec
from tonnage.testing import builders as make

NOW = 1_800_000_000.0
BY_TEMPLATE = PodTemplateReference(name="chunk")
BY_WORKLOAD = ScalableReference(api_group="apps", kind="Deployment", name="web")


def template(*volumes: VolumeSource) -> PodTemplateSpec:
    spec = make.pod("x", cpu="500m", memory="1Gi").spec
    return PodTemplateSpec(spec=msgspec.structs.replace(spec, volumes=volumes))


OBJECTS = (
    PodTemplate(
        metadata=ObjectMeta(name="chunk", namespace="default", generation=3),
        template=template(
            make.ephemeral_volume("a", storage_class="fast", size="10Gi"),
            make.ephemeral_volume("b", storage_class="fast", size="20Gi"),
        ),
    ),
    Deployment(
        metadata=ObjectMeta(name="web", namespace="default"),
        spec=DeploymentSpec(replicas=7, template=template()),
    ),
    Job(metadata=ObjectMeta(name="job", namespace="default"), spec=JobSpec(parallelism=4)),
)


def read(*, windows: str | None = None, **spec: Any) -> BufferReading:
    annotations = {} if windows is None else {WINDOWS_ANNOTATION: windows}
    buffer = CapacityBuffer(
        metadata=ObjectMeta(name="room", namespace="default", annotations=annotations),
        spec=CapacityBufferSpec(**spec),
    )
    (found,) = capacity_buffers.of_objects([*OBJECTS, buffer], now=NOW)
    return found


@pytest.mark.parametrize(
    ("spec", "chunks"),
    [
        pytest.param({"replicas": 4}, 4, id="as many as it says"),
        pytest.param({"replicas": 0}, 0, id="none"),
        pytest.param({"limits": {"cpu": "2"}}, 4, id="as many as fit into the limits"),
        pytest.param({"replicas": 9, "limits": {"cpu": "1900m"}}, 3, id="capped by cpu"),
        pytest.param({"replicas": 9, "limits": {"memory": "2Gi"}}, 2, id="capped by memory"),
        pytest.param({"replicas": 9, "limits": {"requests.cpu": "1"}}, 2, id="as in a quota"),
        pytest.param({"replicas": 9, "limits": {"requests.storage": "95Gi"}}, 3, id="by storage"),
        pytest.param({"replicas": 9, "limits": {"persistentvolumeclaims": 5}}, 2, id="by claims"),
        pytest.param({"replicas": 9, "limits": {"pods": 5}}, 5, id="by pods"),
        pytest.param({"replicas": 9, "limits": {"example.com/gpu": 1}}, 9, id="of something else"),
        pytest.param({"replicas": 9, "limits": {"cpu": "100m"}}, 0, id="not even one"),
    ],
)
def test_so_many_chunks_of_a_template(spec: dict[str, Any], chunks: int) -> None:
    found = read(pod_template_ref=BY_TEMPLATE, **spec)

    assert (found.reason, found.chunks) == (AS_ASKED, chunks)
    assert (found.template, found.generation) == (BY_TEMPLATE, 3)


@pytest.mark.parametrize(
    ("spec", "chunks"),
    [
        pytest.param({"percentage": 20}, 2, id="a share, rounded up"),
        pytest.param({"percentage": 20, "replicas": 5}, 5, id="the larger of both"),
        pytest.param({"percentage": 100, "replicas": 5}, 7, id="or the other"),
        pytest.param({"percentage": 100, "limits": {"cpu": "1"}}, 2, id="and never more than that"),
    ],
)
def test_so_many_chunks_of_a_workload(spec: dict[str, Any], chunks: int) -> None:
    assert read(scalable_ref=BY_WORKLOAD, **spec).chunks == chunks


def test_a_job_has_as_many_pods_as_run_at_once() -> None:
    job = ScalableReference(api_group="batch", kind="Job", name="job")
    assert read(scalable_ref=job, percentage=50).chunks == 2


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        pytest.param(
            {"pod_template_ref": BY_TEMPLATE, "scalable_ref": BY_WORKLOAD, "replicas": 1},
            "BothReferences",
        ),
        pytest.param({"replicas": 1}, "NoReference"),
        pytest.param({"pod_template_ref": BY_TEMPLATE, "replicas": -1}, "NegativeReplicas"),
        pytest.param({"scalable_ref": BY_WORKLOAD, "percentage": -1}, "NegativePercentage"),
        pytest.param(
            {"pod_template_ref": BY_TEMPLATE, "percentage": 10}, "PercentageWithoutScalable"
        ),
        pytest.param(
            {"pod_template_ref": PodTemplateReference(name="gone"), "replicas": 1},
            "PodTemplateNotFound",
        ),
        pytest.param(
            {
                "scalable_ref": ScalableReference(api_group="apps", kind="Deployment", name="gone"),
                "replicas": 1,
            },
            "ScalableNotFound",
        ),
        pytest.param(
            {
                "scalable_ref": ScalableReference(api_group="example.com", kind="Farm", name="f"),
                "replicas": 1,
            },
            "UnsupportedScalable",
        ),
        pytest.param({"pod_template_ref": BY_TEMPLATE}, "NoSize"),
        pytest.param({"pod_template_ref": BY_TEMPLATE, "limits": {"example.com/x": 1}}, "NoSize"),
        pytest.param({"pod_template_ref": BY_TEMPLATE, "limits": {"cpu": "many"}}, "BadLimits"),
        pytest.param({"pod_template_ref": BY_TEMPLATE, "limits": {"cpu": "-1"}}, "BadLimits"),
        pytest.param({"pod_template_ref": BY_TEMPLATE, "replicas": 1_000_000}, "TooManyChunks"),
        pytest.param(
            {"pod_template_ref": BY_TEMPLATE, "limits": {"cpu": "1000k"}}, "TooManyChunks"
        ),
    ],
)
def test_what_is_wrong_is_a_reason_and_a_sentence(spec: dict[str, Any], reason: str) -> None:
    found = read(**spec)

    assert (found.reason, found.room, found.is_good) == (reason, None, False)
    assert found.message


@pytest.mark.parametrize(
    "windows",
    ["often", "{}", '[{"start": "0 1 * *", "lasts": 60}]', '[{"start": "0 1 * * *", "lasts": 1}]'],
)
def test_windows_that_cannot_be_read_are_told(windows: str) -> None:
    found = read(windows=windows, pod_template_ref=BY_TEMPLATE, replicas=1)

    assert found.reason == "BadWindows"
    assert WINDOWS_ANNOTATION in found.message


def test_outside_its_windows_a_buffer_is_good_and_keeps_nothing() -> None:
    closed = '[{"start": "0 0 1 1 *", "lasts": "1h"}]'
    found = read(windows=closed, pod_template_ref=BY_TEMPLATE, replicas=1)

    assert found.is_good
    assert (found.reason, found.chunks) == (capacity_buffers.OUTSIDE_WINDOW, 0)


def test_buffers_of_another_strategy_are_left_to_others() -> None:
    buffer = CapacityBuffer(spec=CapacityBufferSpec(provisioning_strategy="example.com/standby"))

    assert capacity_buffers.of_objects([buffer], now=NOW) == ()
