"""Instance types that would strand less, and that nothing else is offered."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.groups import catalogue
from tonnage.groups.catalogue import AZURE_DISK, EBS, GCE_PD, denser

aws_types = st.sampled_from(sorted(catalogue.types_of(EBS)))


@pytest.mark.parametrize(
    ("instance_type", "driver", "offered"),
    [
        ("m5.large", EBS, [("m7a.large", 31), ("m7i.large", 31), ("m8a.large", 31)]),
        ("m5.4xlarge", EBS, [("m7a.4xlarge", 31), ("m7i.4xlarge", 31), ("m5.2xlarge", 26)]),
        ("m5d.2xlarge", EBS, [("m8id.2xlarge", 31), ("m5d.xlarge", 25), ("m5d.large", 25)]),
        ("r6g.4xlarge", EBS, [("r8g.4xlarge", 31), ("r9g.4xlarge", 31), ("r6g.2xlarge", 26)]),
        ("Standard_D2s_v3", AZURE_DISK, [("Standard_D2s_v6", 8)]),
        ("n4-standard-32", GCE_PD, [("n4-standard-16", 31), ("n4-standard-8", 15)]),
    ],
)
def test_denser_types_are_of_the_same_kind_and_say_how_many_slots(
    instance_type: str, driver: str, offered: list[tuple[str, int]]
) -> None:
    assert [(one.instance_type, one.count) for one in denser.than(instance_type, driver)] == offered


@pytest.mark.parametrize(
    ("instance_type", "driver"),
    [
        ("m99.large", EBS),
        ("m5.metal", EBS),
        ("t3.medium", EBS),
        ("hpc7a.96xlarge", EBS),
        ("Standard_DS2_v2", AZURE_DISK),
        ("n1-standard-1", GCE_PD),
        ("c3-standard-22", GCE_PD),
        ("m5.large", "csi.hetzner.cloud"),
        ("", EBS),
    ],
)
def test_where_names_do_not_tell_the_cpus_nothing_is_offered(
    instance_type: str, driver: str
) -> None:
    assert denser.than(instance_type, driver) == []


@given(aws_types)
def test_what_is_offered_is_in_the_catalogue_and_has_more_slots_per_cpu(name: str) -> None:
    own = catalogue.lookup(EBS, name)
    assert own is not None
    offered = denser.than(name, EBS)
    assert len(offered) <= 3
    for one in offered:
        found = catalogue.lookup(EBS, one.instance_type)
        assert found is not None
        assert found.count == one.count
        assert one.instance_type != name
