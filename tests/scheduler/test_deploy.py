"""The shipped manifests: the rights the scheduler uses and no others, two replicas, one name."""

from collections.abc import Iterator

import msgspec
import yaml

from tests.deploy.manifests import Manifest, Right, of_kind, rights
from tests.scheduler.harness import (
    DRIVER,
    Cluster,
    a_pod,
    a_program,
    claims,
    running,
    scheduling_on,
)
from tonnage.cluster.transport import HttpRequest, Response
from tonnage.objects.gangs import COSCHEDULING_LABELS
from tonnage.objects.pods import SchedulingGroup
from tonnage.scheduler.config import SchedulerConfig
from tonnage.scheduler.program import SchedulerSettings
from tonnage.service import config_file
from tonnage.testing import builders
from tonnage.testing.clock import VirtualClock

OVERLAY = "scheduler"
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


def used(request: HttpRequest) -> Iterator[Right]:
    """The rights a request needs; who watches must be able to list as well."""
    parts = request.path.strip("/").split("/")
    group, parts = ("", parts[2:]) if parts[0] == "api" else (parts[1], parts[3:])
    if parts[0] == "namespaces" and len(parts) > 2:
        parts = parts[2:]
    resource, name, subresource = (*parts, "", "")[:3]
    kind = f"{resource}/{subresource}" if subresource else resource
    if request.method == "GET":
        verbs = ("get",) if name else ("list", "watch")
    else:
        verbs = (_VERBS[request.method],)
    yield from (Right(group, kind, verb) for verb in verbs)


async def test_every_right_that_is_used_is_granted_and_no_other(clock: VirtualClock) -> None:
    cluster = Cluster(clock)
    failures = iter([503])

    def fault(request: HttpRequest) -> Response | None:
        code = next(failures, 0) if request.path.endswith("/low/binding") else 0
        return Response(status=code) if code else None

    cluster.transport.fault = fault
    await cluster.add(builders.storage_class("fast", DRIVER))
    await cluster.node("n1", cpu="1", drivers={DRIVER: 5})
    async with scheduling_on(cluster):
        await clock.sleep(1)
        await cluster.add(builders.pv("there", driver=DRIVER, storage_class="fast", size="5Gi"))
        await claims(cluster, ["found", "made"])
        await cluster.pod("low", cpu="1", pvcs=["found", "made"])
        await cluster.bound("low")
        await cluster.pod("high", cpu="1", priority=10)
        await cluster.bound("high")
        await cluster.pod("never", cpu="9")
        await cluster.refused("never")
        await cluster.pod("of-a-gang", labels={COSCHEDULING_LABELS[0]: "job"})
        pod = a_pod("of-a-workload")
        named = SchedulingGroup(pod_group_name="job")
        spec = msgspec.structs.replace(pod.spec, scheduling_group=named)
        await cluster.add(msgspec.structs.replace(pod, spec=spec))
        await clock.sleep(400)  # Long enough to say something a second time.
    async with running(a_program(cluster, elect=True)):
        await clock.sleep(30)
    assert {right for one in cluster.transport.sent for right in used(one)} == set(rights(OVERLAY))


def deployment() -> Manifest:
    (found,) = of_kind("Deployment", OVERLAY)
    return found


def test_there_are_two_replicas() -> None:
    assert deployment()["spec"]["replicas"] == 2


def test_the_account_of_the_deployment_has_the_rights() -> None:
    account = deployment()["spec"]["template"]["spec"]["serviceAccountName"]
    bindings = [*of_kind("ClusterRoleBinding", OVERLAY), *of_kind("RoleBinding", OVERLAY)]
    assert {one["subjects"][0]["name"] for one in bindings} == {account}


def test_the_lease_of_the_role_is_the_one_that_is_used() -> None:
    (role,) = of_kind("Role", OVERLAY)
    (names,) = (rule["resourceNames"] for rule in role["rules"] if "resourceNames" in rule)
    assert names == [SchedulerSettings(identity="").lease_name]


def test_the_configuration_is_understood() -> None:
    (shipped,) = of_kind("ConfigMap", OVERLAY)
    text = shipped["data"]["config.yaml"]
    assert yaml.safe_load(text)["kind"] == "SchedulerConfig"
    config_file.parse(text.encode(), SchedulerConfig, where="shipped", given={})
