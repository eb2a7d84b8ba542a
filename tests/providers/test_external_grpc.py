"""Upstream's gRPC protocol, over real connections: our client, our server, and worse servers."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from tests.providers.external_grpc_clients import client
from tonnage.errors import InputError, ProviderError
from tonnage.providers import external_grpc_config, external_grpc_server
from tonnage.providers.declarative import DeclarativeProvider
from tonnage.providers.external_grpc import SERVICE
from tonnage.providers.external_grpc_config import ExternalGrpcConfig
from tonnage.providers.protocol import GroupOptions
from tonnage.providers.protos import externalgrpc_pb2 as wire
from tonnage.testing import builders
from tonnage.testing.provider_contract import declared

REPOSITORY = Path(__file__).parent.parent.parent


@asynccontextmanager
async def answering(**methods: Callable[[Any], Awaitable[Any]]) -> AsyncIterator[int]:
    """A server with some methods of its own and otherwise one group `a` of 0 to 10 nodes."""
    provider = DeclarativeProvider([declared("a")])
    servicer = external_grpc_server.Servicer(provider)
    for name, answer in methods.items():
        setattr(servicer, name, answer)
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((external_grpc_server._handlers(servicer),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield port
    finally:
        await server.stop(None)


def test_methods_the_server_does_not_have_are_not_missed() -> None:
    async def main() -> None:
        provider = DeclarativeProvider([declared("a")])
        servicer = external_grpc_server.Servicer(provider)
        for name in ("NodeGroupTemplateNodeInfo", "NodeGroupGetOptions"):
            setattr(servicer, name, None)
        server = grpc.aio.server()
        server.add_generic_rpc_handlers((external_grpc_server._handlers(servicer),))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        found = client(port)
        await found.refresh()
        assert await found.template("a") is None
        assert await found.price("a") is None
        assert await found.options("a") == GroupOptions()
        await server.stop(None)

    asyncio.run(main())


def test_a_price_is_what_the_server_says_of_an_hour() -> None:
    seen: list[wire.PricingNodePriceRequest] = []

    async def price(request: wire.PricingNodePriceRequest) -> wire.PricingNodePriceResponse:
        seen.append(request)
        return wire.PricingNodePriceResponse(price=0.25)

    async def main() -> None:
        async with answering(PricingNodePrice=price) as port:
            provider = client(port)
            await provider.refresh()
            assert await provider.price("a") == 0.25

    asyncio.run(main())
    (asked,) = seen
    assert asked.endTimestamp.seconds - asked.startTimestamp.seconds == 3600


def test_groups_without_an_id_and_groups_told_twice_are_named() -> None:
    async def groups(_: Any) -> wire.NodeGroupsResponse:
        told = [wire.NodeGroup(id=name, maxSize=10) for name in ("a", "", "a", "b")]
        return wire.NodeGroupsResponse(nodeGroups=told)

    async def size(_: Any) -> wire.NodeGroupTargetSizeResponse:
        return wire.NodeGroupTargetSizeResponse(targetSize=0)

    async def nodes(_: Any) -> wire.NodeGroupNodesResponse:
        return wire.NodeGroupNodesResponse()

    async def main() -> None:
        methods = {"NodeGroups": groups, "NodeGroupTargetSize": size, "NodeGroupNodes": nodes}
        async with answering(**methods) as port:
            provider = client(port)
            await provider.refresh()
            assert [one.id for one in await provider.groups()] == ["a", "b"]
            assert list(await provider.problems()) == [
                "NodeGroups: 1 groups without an id; left out",
                "NodeGroups: group a is there twice; the last is used",
            ]

    asyncio.run(main())


def test_a_node_the_server_fails_at_stays_where_it_was_and_the_others_go_on() -> None:
    failing = False

    async def group_of(request: wire.NodeGroupForNodeRequest) -> wire.NodeGroupForNodeResponse:
        if failing and request.node.name == "n1":
            raise ProviderError("what is that?")
        return wire.NodeGroupForNodeResponse(nodeGroup=wire.NodeGroup(id="a"))

    async def main() -> None:
        nonlocal failing
        async with answering(NodeGroupForNode=group_of) as port:
            provider = client(port, [builders.node("n1"), builders.node("n2")])
            await provider.refresh()
            failing = True
            await provider.refresh()
            (group,) = await provider.groups()
            assert set(group.nodes) == {"n1", "n2"}
            (problem,) = await provider.problems()
            assert problem.startswith("node n1: the server does not say which group it is of")

    asyncio.run(main())


def test_a_group_whose_size_is_not_told_cannot_grow_and_the_others_can() -> None:
    async def groups(_: Any) -> wire.NodeGroupsResponse:
        return wire.NodeGroupsResponse(
            nodeGroups=[wire.NodeGroup(id=name, maxSize=10) for name in ("a", "b")]
        )

    async def size(request: wire.NodeGroupTargetSizeRequest) -> wire.NodeGroupTargetSizeResponse:
        if request.id == "b":
            raise ProviderError("broken")
        return wire.NodeGroupTargetSizeResponse(targetSize=0)

    async def main() -> None:
        async with answering(NodeGroups=groups, NodeGroupTargetSize=size) as port:
            provider = client(port)
            await provider.refresh()
            found = {one.id: one for one in await provider.groups()}
            assert (found["a"].max_size, found["a"].problems) == (10, ())
            assert found["b"].max_size == found["b"].target
            assert "broken" in found["b"].problems[0]

    asyncio.run(main())


@pytest.mark.parametrize(
    ("told", "why"),
    [
        (wire.NodeGroup(id="a", minSize=5, maxSize=2), "make no sense"),
        (wire.NodeGroup(id="a", minSize=-1, maxSize=2), "make no sense"),
    ],
)
def test_sizes_that_make_no_sense_are_not_acted_on(told: wire.NodeGroup, why: str) -> None:
    async def groups(_: Any) -> wire.NodeGroupsResponse:
        return wire.NodeGroupsResponse(nodeGroups=[told])

    async def main() -> None:
        async with answering(NodeGroups=groups) as port:
            provider = client(port)
            await provider.refresh()
            (group,) = await provider.groups()
            assert group.max_size == group.target
            assert why in group.problems[0]

    asyncio.run(main())


def test_a_negative_size_is_not_believed() -> None:
    async def size(_: Any) -> wire.NodeGroupTargetSizeResponse:
        return wire.NodeGroupTargetSizeResponse(targetSize=-3)

    async def main() -> None:
        async with answering(NodeGroupTargetSize=size) as port:
            provider = client(port)
            await provider.refresh()
            (group,) = await provider.groups()
            assert (group.target, group.max_size) == (0, 0)

    asyncio.run(main())


def test_groups_and_instances_told_twice_count_once() -> None:
    async def groups(_: Any) -> wire.NodeGroupsResponse:
        return wire.NodeGroupsResponse(nodeGroups=[wire.NodeGroup(id="a", maxSize=3)] * 2)

    async def nodes(_: Any) -> wire.NodeGroupNodesResponse:
        return wire.NodeGroupNodesResponse(instances=[wire.Instance(id="i")] * 2)

    async def main() -> None:
        async with answering(NodeGroups=groups, NodeGroupNodes=nodes) as port:
            provider = client(port)
            await provider.refresh()
            assert len(await provider.groups()) == 1
            assert [one.id for one in await provider.instances("a")] == ["i"]

    asyncio.run(main())


def test_a_template_that_is_no_node_is_an_error_of_the_provider() -> None:
    async def template(_: Any) -> wire.NodeGroupTemplateNodeInfoResponse:
        return wire.NodeGroupTemplateNodeInfoResponse(nodeBytes=b"\xff\xff\xff")

    async def main() -> None:
        async with answering(NodeGroupTemplateNodeInfo=template) as port:
            provider = client(port)
            await provider.refresh()
            with pytest.raises(ProviderError, match="group a: its template is no Node"):
                await provider.template("a")

    asyncio.run(main())


def test_why_an_instance_failed_is_told_by_class() -> None:
    async def nodes(_: Any) -> wire.NodeGroupNodesResponse:
        error = wire.InstanceErrorInfo(errorCode="STOCKOUT", instanceErrorClass=1)
        status = wire.InstanceStatus(instanceState=2, errorInfo=error)  # type: ignore[arg-type]
        return wire.NodeGroupNodesResponse(instances=[wire.Instance(id="i", status=status)])

    async def main() -> None:
        async with answering(NodeGroupNodes=nodes) as port:
            provider = client(port)
            await provider.refresh()
            (one,) = await provider.instances("a")
            assert one.error is not None
            assert (one.state, one.error.error_class) == ("creating", "outOfResources")

    asyncio.run(main())


def test_a_slow_server_costs_the_timeout_and_no_more() -> None:
    async def slow(_: Any) -> wire.RefreshResponse:
        await asyncio.sleep(30)
        return wire.RefreshResponse()

    async def main() -> None:
        async with answering(Refresh=slow) as port:
            with pytest.raises(ProviderError, match="DEADLINE_EXCEEDED") as raised:
                await client(port, grpc_timeout=0.1).refresh()
            assert raised.value.retryable

    asyncio.run(main())


def test_an_increase_nobody_knows_the_end_of_is_not_retried_at_once() -> None:
    async def slow(_: Any) -> wire.NodeGroupIncreaseSizeResponse:
        await asyncio.sleep(30)
        return wire.NodeGroupIncreaseSizeResponse()

    async def main() -> None:
        async with answering(NodeGroupIncreaseSize=slow) as port:
            provider = client(port, grpc_timeout=0.2)
            await provider.refresh()
            with pytest.raises(ProviderError) as raised:
                await provider.increase("a", 1)
            assert not raised.value.retryable

    asyncio.run(main())


def test_a_lack_of_machines_is_told_apart() -> None:
    async def refuse(_: Any) -> wire.NodeGroupIncreaseSizeResponse:
        raise ProviderError("no machines left", cause="outOfResources")

    async def main() -> None:
        async with answering(NodeGroupIncreaseSize=refuse) as port:
            provider = client(port)
            await provider.refresh()
            with pytest.raises(ProviderError, match="no machines left") as raised:
                await provider.increase("a", 1)
            assert raised.value.cause == "outOfResources"

    asyncio.run(main())


def test_a_node_without_an_instance_is_asked_about() -> None:
    node = builders.node("n1")

    async def of(request: wire.NodeGroupForNodeRequest) -> wire.NodeGroupForNodeResponse:
        mine = wire.NodeGroup(id="a" if request.node.name == "n1" else "")
        return wire.NodeGroupForNodeResponse(nodeGroup=mine)

    async def main() -> None:
        async with answering(NodeGroupForNode=of) as port:
            provider = client(port, [node, builders.node("foreign")])
            await provider.refresh()
            (group,) = await provider.groups()
            assert group.nodes == ("n1",)

    asyncio.run(main())


# The wire: numbers and names that upstream published.


@pytest.mark.parametrize(
    ("message", "data"),
    [
        (
            wire.NodeGroupsResponse(nodeGroups=[wire.NodeGroup(id="a", minSize=1, maxSize=2)]),
            b"\n\x07\n\x01a\x10\x01\x18\x02",
        ),
        (wire.NodeGroupIncreaseSizeRequest(delta=3, id="a"), b"\x08\x03\x12\x01a"),
        (wire.NodeGroupTargetSizeResponse(targetSize=7), b"\x08\x07"),
        (wire.NodeGroupTemplateNodeInfoResponse(nodeBytes=b"x"), b"\x12\x01x"),
        (wire.PricingPodPriceRequest(pod_bytes=b"x"), b'"\x01x'),
        (wire.NodeGroupAutoscalingOptions(zeroOrMaxNodeScaling=True), b"0\x01"),
        (
            wire.Instance(id="i", status=wire.InstanceStatus(instanceState=3)),  # type: ignore[arg-type]
            b"\n\x01i\x12\x02\x08\x03",
        ),
    ],
)
def test_messages_have_the_published_numbers(message: Any, data: bytes) -> None:
    assert message.SerializeToString() == data


def test_the_service_has_the_published_methods() -> None:
    service = wire.DESCRIPTOR.services_by_name["CloudProvider"]
    assert service.full_name == SERVICE
    assert {method.name for method in service.methods} == {
        "NodeGroups",
        "NodeGroupForNode",
        "PricingNodePrice",
        "PricingPodPrice",
        "GPULabel",
        "GetAvailableGPUTypes",
        "Cleanup",
        "Refresh",
        "NodeGroupTargetSize",
        "NodeGroupIncreaseSize",
        "NodeGroupDeleteNodes",
        "NodeGroupDecreaseTargetSize",
        "NodeGroupNodes",
        "NodeGroupTemplateNodeInfo",
        "NodeGroupGetOptions",
    }


# The file that says where the server is.


def test_the_configuration_is_upstreams(tmp_path: Path) -> None:
    path = tmp_path / "cloud-config.yaml"
    path.write_text("address: example:8086\ngrpc_timeout: 1m30s\n")
    assert external_grpc_config.read(path) == ExternalGrpcConfig(
        address="example:8086", grpc_timeout=90
    )


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[]", "expected fields"),
        ("key: x", "address: expected HOST:PORT"),
        ("adress: x", "unknown field adress"),
        ("address: 3", "address: expected text"),
        ("address: x\nkey: k", "key and cert: expected both or neither"),
        ("address: x\nkey: k\ncert: c", "cacert: expected"),
        ("address: x\ngrpc_timeout: soon", "grpc_timeout: expected a duration"),
        ("address: [", "not YAML"),
    ],
)
def test_a_mistake_in_the_configuration_is_named(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "cloud-config.yaml"
    path.write_text(text)
    with pytest.raises(InputError, match=complaint) as raised:
        external_grpc_config.read(path)
    assert str(path) in str(raised.value)


def test_a_certificate_that_is_not_there_is_named(tmp_path: Path) -> None:
    config = ExternalGrpcConfig(address="x", cacert=str(tmp_path / "none.pem"))
    with pytest.raises(InputError, match=r"none\.pem"):
        config.secrets()


def test_a_machine_without_a_node_is_deleted_by_its_id() -> None:
    seen: list[wire.NodeGroupDeleteNodesRequest] = []

    async def nodes(_: Any) -> wire.NodeGroupNodesResponse:
        return wire.NodeGroupNodesResponse(instances=[wire.Instance(id="machine-1")])

    async def size(_: Any) -> wire.NodeGroupTargetSizeResponse:
        return wire.NodeGroupTargetSizeResponse(targetSize=1)

    async def delete(
        request: wire.NodeGroupDeleteNodesRequest,
    ) -> wire.NodeGroupDeleteNodesResponse:
        seen.append(request)
        return wire.NodeGroupDeleteNodesResponse()

    async def main() -> None:
        answers = {"NodeGroupNodes": nodes, "NodeGroupTargetSize": size}
        async with answering(**answers, NodeGroupDeleteNodes=delete) as port:
            provider = client(port)
            await provider.refresh()
            await provider.delete("a", ["machine-1"])

    asyncio.run(main())
    assert [one.providerID for one in seen[0].nodes] == ["machine-1"]
