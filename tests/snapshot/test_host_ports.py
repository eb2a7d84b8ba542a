"""Host ports in use: held by row, as long as somebody does."""

import pytest

from tonnage.snapshot.classes import ANY_IP, HostPort
from tonnage.snapshot.host_ports import HostPorts

HTTP = HostPort("TCP", 80, ANY_IP)
LOCAL = HostPort("TCP", 80, "127.0.0.1")
OTHER = HostPort("TCP", 80, "10.0.0.1")


@pytest.mark.parametrize(
    ("held", "wanted", "conflict"),
    [
        pytest.param(HTTP, HTTP, True, id="the same"),
        pytest.param(LOCAL, HTTP, True, id="one address is part of all"),
        pytest.param(HTTP, LOCAL, True, id="all addresses have every one"),
        pytest.param(LOCAL, OTHER, False, id="two addresses"),
        pytest.param(HTTP, HostPort("UDP", 80, ANY_IP), False, id="two protocols"),
        pytest.param(HTTP, HostPort("TCP", 81, ANY_IP), False, id="two ports"),
    ],
)
def test_ports_conflict_on_the_row_where_they_are_held(held, wanted, conflict) -> None:
    ports = HostPorts()
    ports.take(3, [held])

    assert ports.conflicts([wanted]) == ({3} if conflict else set())


def test_a_port_is_free_when_its_last_holder_gave_it_back() -> None:
    ports = HostPorts()
    ports.take(0, [HTTP])
    ports.take(0, [HTTP])
    ports.give_back(0, [HTTP])
    still = ports.conflicts([HTTP])
    ports.give_back(0, [HTTP])

    assert (still, ports.conflicts([HTTP])) == ({0}, set())


def test_one_of_several_wanted_ports_is_enough_for_a_conflict() -> None:
    ports = HostPorts()
    ports.take(0, [HTTP])

    assert ports.conflicts([HostPort("TCP", 81, ANY_IP), HTTP]) == {0}
