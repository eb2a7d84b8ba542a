"""Auto Scaling groups keep what every provider promises."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from tests.providers.aws.emulated import Aws
from tonnage.objects.nodes import Node
from tonnage.objects.scenarios import GroupTemplate, NodeGroup
from tonnage.providers.aws import tags
from tonnage.providers.aws.provider import AwsProvider
from tonnage.providers.protocol import Provider
from tonnage.testing.provider_contract import ReadingProviderContract

pytestmark = pytest.mark.xdist_group("aws")


class TestAws(ReadingProviderContract):
    @pytest.fixture(autouse=True)
    def _account(self, aws: Aws) -> None:
        self.aws = aws

    async def make(self, groups: Sequence[NodeGroup], nodes: Sequence[Node]) -> Provider:
        assert len(nodes) == sum(len(one.spec.nodes) for one in groups)
        aws, prices = self.aws, {}
        for group in groups:
            spec, name = group.spec, group.metadata.name
            type_ = f"priced.{name}" if spec.price_per_hour else "m5.large"
            if spec.price_per_hour:
                prices[type_] = float(spec.price_per_hour)
            aws.group(
                name,
                least=min(spec.min_size, len(spec.nodes)),
                most=spec.max_size,
                size=len(spec.nodes),
                type_=type_,
            )
            for instance, node in zip(aws.instances(name), spec.nodes, strict=True):
                aws.register(instance, node)
            # A size that AWS has been asked for and has no instances for.
            behind = aws.behind(name)
            behind.min_size = spec.min_size
            if spec.target_size is not None:
                behind.desired_capacity = spec.target_size
        self._made = aws.provider(prices=prices)
        return _StillStarting(self._made, aws, groups)

    async def spoil(self, group: str) -> None:
        tag = {"Key": f"{tags.RESOURCE}disks", "Value": "many", "PropagateAtLaunch": False}
        named = {"ResourceId": group, "ResourceType": "auto-scaling-group"}
        self.aws.autoscaling.create_or_update_tags(Tags=[{**named, **tag}])
        # A minute goes by.
        self._made._looked_at = None


class _StillStarting:
    """The provider, in a world where new instances take longer than a test.

    Templates are the declared ones: how AWS describes them is tested by itself.
    """

    def __init__(self, provider: AwsProvider, aws: Aws, groups: Sequence[NodeGroup]) -> None:
        self._provider = provider
        self._aws = aws
        self._declared = {one.metadata.name: one.spec.template for one in groups}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._provider, name)

    async def refresh(self) -> None:
        registered = {node.spec.provider_id.rpartition("/")[2] for node in self._aws.nodes}
        for name in self._declared:
            for state in self._aws.behind(name).instance_states:
                if state.instance.id not in registered:
                    state.lifecycle_state = "Pending"
        await self._provider.refresh()

    async def template(self, group: str) -> GroupTemplate | None:
        if group not in self._declared:
            return await self._provider.template(group)
        return msgspec.structs.replace(found) if (found := self._declared[group]) else None
