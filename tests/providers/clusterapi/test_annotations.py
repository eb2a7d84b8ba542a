import pytest

from tonnage.objects.nodes import Taint
from tonnage.providers.clusterapi.annotations import (
    CPU,
    CSI_DRIVER,
    EPHEMERAL_DISK,
    GPU_COUNT,
    GPU_TYPE,
    LABELS,
    MAX_PODS,
    MEMORY,
    PRICE,
    TAINTS,
    Annotations,
    Keys,
    Sizes,
)
from tonnage.providers.protocol import GroupOptions

KEYS = Keys()
EBS, EFS, DISK = "ebs.csi.aws.com", "efs.csi.aws.com", "disk.csi.azure.com"


def read(values: dict[str, str]) -> Annotations:
    return Annotations(values, keys=KEYS)


def sized(least: str | None, most: str | None) -> Annotations:
    values = {KEYS.min_size: least, KEYS.max_size: most}
    return read({key: value for key, value in values.items() if value is not None})


# Sizes


def test_sizes_are_whole_numbers() -> None:
    assert sized("1", "10").sizes() == Sizes(1, 10)


def test_without_a_minimum_it_is_zero() -> None:
    assert sized(None, "10").sizes() == Sizes(0, 10)


def test_without_either_nothing_is_wrong() -> None:
    annotations = read({})
    assert (annotations.sizes(), annotations.problems) == (None, [])


@pytest.mark.parametrize(
    ("least", "most", "complaint"),
    [
        ("one", "10", 'min-size: expected a whole number, 0 or more, found "one"'),
        ("-1", "10", "min-size: expected a whole number"),
        ("1", "ten", "max-size: expected a whole number"),
        ("1", "1.5", "max-size: expected a whole number"),
        ("1", "", 'max-size: expected a whole number, 0 or more, found ""'),
        ("1", None, "max-size: expected a number, found none beside"),
        ("5", "2", "max-size: expected at least"),
        ("0", "99999999999", "max-size: expected a whole number"),
    ],
)
def test_sizes_that_cannot_be_used_are_named(least: str, most: str | None, complaint: str) -> None:
    annotations = sized(least, most)
    assert annotations.sizes() is None
    (problem,) = annotations.problems
    assert complaint in problem


def test_the_group_of_the_api_is_part_of_the_keys() -> None:
    other = Keys("machine.openshift.io")
    values = {"machine.openshift.io/cluster-api-autoscaler-node-group-max-size": "3"}
    assert Annotations(values, keys=other).sizes() == Sizes(0, 3)


# Capacity


def test_every_capacity_annotation_is_read() -> None:
    annotations = read(
        {
            CPU: "16",
            MEMORY: "128Gi",
            EPHEMERAL_DISK: "100Gi",
            MAX_PODS: "200",
            GPU_COUNT: "2",
            GPU_TYPE: "nvidia.com/gpu",
            LABELS: "tier=db,example.com/zone=z1,empty=",
            TAINTS: "db=only:NoSchedule,spot:PreferNoSchedule",
            CSI_DRIVER: f"{EBS}=25",
        }
    )
    found = annotations.capacity()
    assert found.resources == {
        "cpu": "16",
        "memory": "128Gi",
        "ephemeral-storage": "100Gi",
        "pods": "200",
        "nvidia.com/gpu": "2",
    }
    assert found.labels == {"tier": "db", "example.com/zone": "z1", "empty": ""}
    assert found.taints == (
        Taint(key="db", value="only", effect="NoSchedule"),
        Taint(key="spot", effect="PreferNoSchedule"),
    )
    assert [(one.name, one.limit) for one in found.drivers] == [(EBS, 25)]
    assert annotations.problems == []


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (CPU, "many"),
        (CPU, "-1"),
        (CPU, ""),
        (MEMORY, "32 gigabytes"),
        (EPHEMERAL_DISK, "100GiB"),
        (MAX_PODS, "110.5"),
        (MAX_PODS, "-3"),
        (GPU_COUNT, "two"),
        (GPU_TYPE, "not a name"),
        (LABELS, "tier"),
        (LABELS, "=db"),
        (LABELS, "tier=not a value"),
        (TAINTS, "db=only"),
        (TAINTS, "db=only:Never"),
        (TAINTS, ":NoSchedule"),
        (CSI_DRIVER, EBS),
        (CSI_DRIVER, "=25"),
        (PRICE, "cheap"),
    ],
)
def test_a_value_that_cannot_be_read_is_named_and_not_used(key: str, value: str) -> None:
    annotations = read({key: value})
    found = annotations.capacity()
    assert annotations.price() is None
    assert (found.resources, found.labels, found.taints, found.drivers) == ({}, {}, (), ())
    (problem,) = annotations.problems
    assert problem.startswith(f"{key}: expected ")
    assert f'found "{value}"; not used' in problem


def test_one_bad_entry_of_a_list_costs_no_other() -> None:
    annotations = read({LABELS: "a=1,b,c=3", TAINTS: "x:NoSchedule,y,z:NoExecute"})
    found = annotations.capacity()
    assert found.labels == {"a": "1", "c": "3"}
    assert [one.key for one in found.taints] == ["x", "z"]
    assert len(annotations.problems) == 2


@pytest.mark.parametrize(
    ("given", "missing"), [({GPU_COUNT: "1"}, GPU_TYPE), ({GPU_TYPE: "x.io/gpu"}, GPU_COUNT)]
)
def test_devices_need_a_number_and_a_name(given: dict[str, str], missing: str) -> None:
    annotations = read(given)
    assert annotations.capacity().resources == {}
    (problem,) = annotations.problems
    assert f"expected {missing} beside it" in problem


def test_no_devices_need_no_name() -> None:
    annotations = read({GPU_COUNT: "0"})
    assert annotations.capacity().resources == {}
    assert annotations.problems == []


@pytest.mark.parametrize(
    ("value", "drivers", "problems"),
    [
        ("", [], 0),
        (f"{EBS}=25", [(EBS, 25)], 0),
        (f"{EBS}=25,{EFS}=16,{DISK}=16", [(EBS, 25), (EFS, 16), (DISK, 16)], 0),
        (f" {EBS} = 25 , {EFS} = 16 ", [(EBS, 25), (EFS, 16)], 0),
        (f"{EBS}=1000", [(EBS, 1000)], 0),
        (f"{EBS}25", [], 1),
        ("=25", [], 1),
        (f"{EBS}=abc", [], 1),
        (f"{EBS}=-5", [], 1),
        (f"{EBS}=0", [(EBS, None)], 0),
        (f"{EBS}=25.5", [], 1),
        (
            f"{EBS}=25,invalid-format,{EFS}=16,=10,{DISK}=0",
            [(EBS, 25), (EFS, 16), (DISK, None)],
            2,
        ),
        (f"{EBS}=25,,{EFS}=16,", [(EBS, 25), (EFS, 16)], 0),
        (f"{EBS}=2147483647", [(EBS, 2147483647)], 0),
        (f"{EBS}=2147483648", [], 1),
        (f"{EBS}=25,{EBS}=30", [(EBS, 25)], 1),
    ],
)
def test_limits_of_drivers_are_upstreams_with_what_is_wrong_said(
    value: str, drivers: list[tuple[str, int | None]], problems: int
) -> None:
    annotations = read({CSI_DRIVER: value})
    found = annotations.capacity().drivers
    assert [(one.name, one.limit) for one in found] == drivers
    assert len(annotations.problems) == problems


# Options and price


def test_a_group_has_options_of_its_own() -> None:
    annotations = read(
        {
            KEYS.option("scaledownutilizationthreshold"): "0.3",
            KEYS.option("scaledowngpuutilizationthreshold"): "0.4",
            KEYS.option("scaledownunneededtime"): "5m",
            KEYS.option("scaledownunreadytime"): "1m30s",
            KEYS.option("maxnodeprovisiontime"): "20m",
            KEYS.option("maxnodestartuptime"): "2h",
        }
    )
    assert annotations.options() == GroupOptions(
        scale_down_utilization_threshold=0.3,
        scale_down_gpu_utilization_threshold=0.4,
        scale_down_unneeded_time=300,
        scale_down_unready_time=90,
        max_node_provision_time=1200,
        max_node_startup_time=7200,
    )
    assert annotations.problems == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("scaledownutilizationthreshold", "half"),
        ("scaledowngpuutilizationthreshold", "1.5"),
        ("scaledownunneededtime", "soon"),
        ("scaledownunreadytime", "10"),
        ("maxnodeprovisiontime", ""),
        ("maxnodestartuptime", "-5m"),
    ],
)
def test_an_option_that_cannot_be_read_is_named_and_the_general_one_counts(
    name: str, value: str
) -> None:
    annotations = read({KEYS.option(name): value})
    assert annotations.options() == GroupOptions()
    (problem,) = annotations.problems
    assert problem.startswith(f"{KEYS.option(name)}: expected ")


def test_a_price_is_per_hour() -> None:
    assert read({PRICE: "0.504"}).price() == 0.504
