"""Auto Scaling groups in moto's server, on loopback: AWS as far as it can run here."""

import urllib.request
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import boto3
import botocore.session
import pytest
from moto.autoscaling.models import autoscaling_backends
from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.server import ThreadedMotoServer

from tonnage.clock import SystemClock
from tonnage.objects.nodes import Node, NodeSpec
from tonnage.providers.aws import discovery
from tonnage.providers.aws.calls import Calls
from tonnage.providers.aws.config import AwsConfig
from tonnage.providers.aws.provider import AwsProvider
from tonnage.testing import builders

REGION = "us-east-1"
ENABLED = "k8s.io/cluster-autoscaler/enabled"


class Aws:
    """An account, and the groups a test makes in it."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self.autoscaling: Any = boto3.client("autoscaling", endpoint_url=endpoint)
        self.ec2: Any = boto3.client("ec2", endpoint_url=endpoint)
        self.nodes: list[Node] = []
        self._templates = 0

    def template(self, instance_type: str = "m5.large") -> dict[str, str]:
        self._templates += 1
        made = self.ec2.create_launch_template(
            LaunchTemplateName=f"of-{instance_type}-{self._templates}",
            LaunchTemplateData={"InstanceType": instance_type, "ImageId": "ami-12c6146b"},
        )
        return {"LaunchTemplateId": made["LaunchTemplate"]["LaunchTemplateId"]}

    def group(
        self,
        name: str,
        *,
        least: int = 0,
        most: int = 10,
        size: int = 0,
        type_: str = "m5.large",
        tags: dict[str, str] | None = None,
        zones: Sequence[str] = ("us-east-1a",),
        **more: Any,
    ) -> None:
        described = more or {"LaunchTemplate": self.template(type_)}
        self.autoscaling.create_auto_scaling_group(
            AutoScalingGroupName=name,
            MinSize=least,
            MaxSize=most,
            DesiredCapacity=size,
            AvailabilityZones=list(zones),
            Tags=[
                {"Key": key, "Value": value, "PropagateAtLaunch": False}
                for key, value in {ENABLED: "true", **(tags or {})}.items()
            ],
            **described,
        )

    def instances(self, group: str) -> list[str]:
        answer = self.autoscaling.describe_auto_scaling_groups(AutoScalingGroupNames=[group])
        return [one["InstanceId"] for one in answer["AutoScalingGroups"][0]["Instances"]]

    def register(self, instance: str, name: str) -> None:
        """A node of the cluster for an instance."""
        made = builders.node(name)
        spec = NodeSpec(provider_id=f"aws:///us-east-1a/{instance}")
        self.nodes.append(Node(metadata=made.metadata, spec=spec, status=made.status))

    def behind(self, group: str) -> Any:
        """What the emulator holds of a group, to bring about what it does not by itself."""
        return autoscaling_backends[DEFAULT_ACCOUNT_ID][REGION].autoscaling_groups[group]

    def provider(
        self, *specs: str, sizes: dict[str, tuple[int, int]] | None = None, **config: Any
    ) -> AwsProvider:
        wanted = discovery.parse(specs or (() if sizes else (f"asg:tag={ENABLED}",)), sizes or {})
        settings = AwsConfig(region=REGION, endpoint_url=self.endpoint, **config)
        self.calls = Calls(region=REGION, endpoint_url=self.endpoint)
        return AwsProvider(
            self.calls, wanted, config=settings, nodes=lambda: self.nodes, clock=SystemClock()
        )


async def looked(provider: AwsProvider) -> AwsProvider:
    await provider.refresh()
    return provider


@pytest.fixture(scope="session")
def endpoint() -> Iterator[str]:
    """The emulator; what AWS and the emulator are described by is read once, not for each test."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(botocore.session, "create_loader", cache(botocore.session.create_loader))
        patch.setenv("MOTO_EC2_LOAD_DEFAULT_AMIS", "false")
        yield from _serving()


def _serving() -> Iterator[str]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def aws(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Aws:
    """An empty account."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
    request = urllib.request.Request(f"{endpoint}/moto-api/reset", method="POST")
    urllib.request.urlopen(request).close()
    return Aws(endpoint)
