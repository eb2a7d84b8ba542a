"""NodePorts: when two pods want the same port of a node."""

import pytest

from tests.rules.asking import FITS, SKIPPED, answer
from tonnage.objects.pods import ContainerPort
from tonnage.rules.node_ports import NodePorts
from tonnage.testing.builders import container, node, pod

TAKEN = "U: node(s) didn't have free ports for the requested pod ports"


def port(number: int, *, ip: str = "", protocol: str = "") -> ContainerPort:
    return ContainerPort(container_port=80, host_port=number, host_ip=ip, protocol=protocol)


@pytest.mark.parametrize(
    ("wanted", "held", "expected"),
    [
        pytest.param(port(8080), port(8080), TAKEN, id="the same port"),
        pytest.param(port(8080), port(8081), FITS, id="another port"),
        pytest.param(port(8080, protocol="UDP"), port(8080), FITS, id="another protocol"),
        pytest.param(port(8080, protocol="TCP"), port(8080), TAKEN, id="no protocol is TCP"),
        pytest.param(
            port(8080, ip="10.0.0.1"), port(8080, ip="10.0.0.2"), FITS, id="another address"
        ),
        pytest.param(
            port(8080, ip="10.0.0.1"), port(8080, ip="10.0.0.1"), TAKEN, id="the same address"
        ),
        pytest.param(
            port(8080, ip="10.0.0.1"), port(8080), TAKEN, id="held on all addresses, wanted on one"
        ),
        pytest.param(
            port(8080, ip="0.0.0.0"),
            port(8080, ip="10.0.0.1"),
            TAKEN,
            id="wanted on all addresses, held on one",
        ),
        pytest.param(
            port(8080, ip="::"), port(8080, ip="10.0.0.1"), FITS, id=":: is an address like another"
        ),
    ],
)
def test_ports_conflict(wanted, held, expected) -> None:
    others = [node("n1"), pod("other", on="n1", host_ports=[held])]

    assert answer(NodePorts(), pod("web", host_ports=[wanted]), others) == expected


def test_a_port_of_another_node_is_free() -> None:
    others = [node("n1"), node("n2"), pod("other", on="n2", host_ports=[8080])]

    assert answer(NodePorts(), pod("web", host_ports=[8080]), others) == FITS


def test_a_pod_without_host_ports_is_not_looked_at() -> None:
    assert answer(NodePorts(), pod("web"), [node("n1")]) == SKIPPED


@pytest.mark.parametrize(
    ("sidecar", "expected"),
    [
        pytest.param(True, TAKEN, id="a sidecar holds its port"),
        pytest.param(False, FITS, id="an ordinary init container holds none"),
    ],
)
def test_init_containers_hold_ports_if_they_stay(sidecar, expected) -> None:
    init = container("init", host_ports=[8080], sidecar=sidecar)
    others = [node("n1"), pod("other", on="n1", init_containers=[init])]

    assert answer(NodePorts(), pod("web", host_ports=[8080]), others) == expected


def test_an_ordinary_init_container_wants_no_port() -> None:
    asking = pod("web", init_containers=[container("init", host_ports=[8080])])

    assert answer(NodePorts(), asking, [node("n1")]) == SKIPPED


def test_a_port_is_held_until_its_last_holder_goes() -> None:
    """Two pods on one port cannot be scheduled, but a cluster may have them."""
    holders = [pod(name, on="n1", host_ports=[8080]) for name in ("a", "b")]
    finished = pod("a", on="n1", host_ports=[8080], phase="Succeeded")

    assert (
        answer(NodePorts(), pod("web", host_ports=[8080]), [node("n1"), *holders, finished])
        == TAKEN
    )
