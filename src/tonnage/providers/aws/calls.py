"""The calls we make to AWS: off the event loop, counted, and with the cause of what goes wrong."""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from tonnage.errors import InputError, ProviderCause, ProviderError

if TYPE_CHECKING:
    from types_boto3_autoscaling.client import AutoScalingClient
    from types_boto3_ec2.client import EC2Client

T = TypeVar("T")

_PAGE = 100
"""Groups, instance types and activities to ask for at once: the most the API allows."""

_THROTTLED = frozenset(
    {"Throttling", "ThrottlingException", "RequestLimitExceeded", "TooManyRequestsException"}
)
_BUSY = frozenset({"ScalingActivityInProgress", "ResourceContention", "ResourceInUse"})
_QUOTA = frozenset({"LimitExceeded", "VcpuLimitExceeded", "InstanceLimitExceeded"})
_OUT_OF_RESOURCES = frozenset({"InsufficientInstanceCapacity", "InsufficientHostCapacity"})


class Calls:
    """Every call is counted in `made`, pages of a list each for itself."""

    def __init__(self, *, region: str, endpoint_url: str | None = None) -> None:
        self._autoscaling, self._ec2 = _clients(region, endpoint_url)
        self.made: Counter[str] = Counter()

    async def groups(
        self, *, filters: Sequence[Mapping[str, Any]] = (), names: Sequence[str] = ()
    ) -> list[Any]:
        """Auto Scaling groups by tags, or by name; names nobody has are simply missing."""
        found: list[Any] = []
        if filters:
            found += await self._groups({"Filters": list(filters)})
        for start in range(0, len(names), _PAGE):
            some = names[start : start + _PAGE]
            found += await self._groups({"AutoScalingGroupNames": list(some)})
        return found

    async def _groups(self, asked: dict[str, Any]) -> list[Any]:
        found: list[Any] = []
        call = partial(self._autoscaling.describe_auto_scaling_groups, MaxRecords=_PAGE, **asked)
        answer = await self._do("DescribeAutoScalingGroups", call)
        found += answer["AutoScalingGroups"]
        while answer.get("NextToken"):
            page = partial(call, NextToken=answer["NextToken"])
            answer = await self._do("DescribeAutoScalingGroups", page)
            found += answer["AutoScalingGroups"]
        return found

    async def activities(self, group: str) -> list[Any]:
        """The newest scaling activities of a group."""
        answer = await self._do(
            "DescribeScalingActivities",
            lambda: self._autoscaling.describe_scaling_activities(
                AutoScalingGroupName=group, MaxRecords=20
            ),
        )
        return list(answer["Activities"])

    async def instance_types(self, names: Sequence[str]) -> list[Any]:
        found: list[Any] = []
        for start in range(0, len(names), _PAGE):
            some: Any = list(names[start : start + _PAGE])
            answer = await self._do(
                "DescribeInstanceTypes",
                partial(self._ec2.describe_instance_types, InstanceTypes=some),
            )
            found += answer["InstanceTypes"]
        return found

    async def launch_template(self, specification: Mapping[str, str]) -> Any:
        """The data of one version of a launch template."""
        which: dict[str, Any] = (
            {"LaunchTemplateId": specification["LaunchTemplateId"]}
            if specification.get("LaunchTemplateId")
            else {"LaunchTemplateName": specification["LaunchTemplateName"]}
        )
        version = specification.get("Version") or "$Default"
        answer = await self._do(
            "DescribeLaunchTemplateVersions",
            lambda: self._ec2.describe_launch_template_versions(Versions=[version], **which),
        )
        versions = answer["LaunchTemplateVersions"]
        if not versions:
            name = next(iter(which.values()))
            raise ProviderError(f"AWS: launch template {name} has no version {version}")
        return versions[0]["LaunchTemplateData"]

    async def launch_configuration(self, name: str) -> Any:
        answer = await self._do(
            "DescribeLaunchConfigurations",
            lambda: self._autoscaling.describe_launch_configurations(
                LaunchConfigurationNames=[name]
            ),
        )
        found = answer["LaunchConfigurations"]
        if not found:
            raise ProviderError(f"AWS: there is no launch configuration {name}")
        return found[0]

    async def set_desired(self, group: str, size: int) -> None:
        await self._do(
            "SetDesiredCapacity",
            lambda: self._autoscaling.set_desired_capacity(
                AutoScalingGroupName=group, DesiredCapacity=size, HonorCooldown=False
            ),
        )

    async def terminate(self, instance: str) -> None:
        """Terminate an instance, and lower the size of its group by one."""
        await self._do(
            "TerminateInstanceInAutoScalingGroup",
            lambda: self._autoscaling.terminate_instance_in_auto_scaling_group(
                InstanceId=instance, ShouldDecrementDesiredCapacity=True
            ),
        )

    async def _do(self, name: str, call: Callable[[], T]) -> T:
        from botocore.exceptions import BotoCoreError, ClientError
        from botocore.parsers import ResponseParserError

        self.made[name] += 1
        try:
            return await asyncio.to_thread(call)
        except ClientError as error:
            told = error.response.get("Error", {})
            code = str(told.get("Code", ""))
            text = f"AWS: {name}: {code}: {told.get('Message', '')}"
            raise ProviderError(text, cause=cause_of(code)) from error
        except (BotoCoreError, ResponseParserError) as error:
            # A connection that broke, credentials that cannot be found, a proxy's error page.
            raise ProviderError(f"AWS: {name}: {str(error).splitlines()[0]}") from error


def cause_of(code: str) -> ProviderCause:
    """What an error code of AWS means for the next attempt."""
    if code in _THROTTLED or code in _BUSY:
        return "transient"
    if code in _OUT_OF_RESOURCES:
        return "outOfResources"
    return "quota" if code in _QUOTA else "other"


def _clients(region: str, endpoint_url: str | None) -> "tuple[AutoScalingClient, EC2Client]":
    try:
        import boto3
        from botocore.config import Config
    except ImportError as error:
        raise InputError(
            f"--provider aws needs the package {error.name}: install tonnage[aws]"
        ) from error
    from botocore.exceptions import BotoCoreError

    # The loop asks again by itself; waiting here would only hide that AWS throttles us.
    config = Config(retries={"total_max_attempts": 2}, connect_timeout=5, read_timeout=20)
    try:
        session = boto3.Session(region_name=region or None)
        if not session.region_name:
            raise InputError("AWS: no region: set region in --cloud-config, or AWS_REGION")
        return (
            session.client("autoscaling", endpoint_url=endpoint_url, config=config),
            session.client("ec2", endpoint_url=endpoint_url, config=config),
        )
    except BotoCoreError as error:
        raise InputError(f"AWS: {error}") from error
