"""`tonnage plan`: what people and programs read."""

import json

import msgspec
import pytest
import yaml

from tests.cli.conftest import Written
from tests.cli.planning import STORAGE, cells, cluster, databases, document, row, run
from tests.scaleup.groups import DRIVER, group
from tonnage.objects.kinds import KubeObject
from tonnage.objects.pods import ResourceClaimReference
from tonnage.objects.scenarios import StorageCapacity
from tonnage.testing import builders as make

# What a person reads.


def test_the_first_line_sums_up(written: Written) -> None:
    result = run("-f", written(*cluster()))
    first = result.stdout.splitlines()[0]
    assert (result.exit_code, first) == (0, "12 pending pods: 12 pods on 3 new nodes.")


def test_a_purchase_has_nodes_pods_the_fullest_resource_and_the_price(written: Written) -> None:
    result = run("-f", written(*cluster()))
    assert row(result, "BUY")[:5] == ["BUY", "NODES", "PODS", "FULLEST", "PRICE/H"]
    assert row(result, "g")[:5] == ["g", "+3", "12", f"{DRIVER} 80%", "1.5"]


def test_without_prices_there_is_no_column_for_them(written: Written) -> None:
    objects = [*STORAGE, *databases(1), group("g", slots={DRIVER: 5})]
    assert "PRICE/H" not in run("-f", written(*objects)).stdout


def test_a_purchase_says_why_this_group(written: Written) -> None:
    assert len(row(run("-f", written(*cluster())), "g")) == 6


def test_limits_of_new_nodes_have_their_source(written: Written) -> None:
    assert f"g      {DRIVER}  5               provider" in run("-f", written(*cluster())).stdout


def test_the_lower_bound_is_told(written: Written) -> None:
    result = run("-f", written(*cluster()))
    assert "At least 3 nodes are needed; the plan buys 3, for 1.5 an hour" in (result.stdout)


def test_pods_that_fit_on_nodes_that_are_there_are_counted(written: Written) -> None:
    objects = [make.node("n1"), make.pod("web"), group("g")]
    first = run("-f", written(*objects)).stdout.splitlines()[0]
    assert first == "1 pending pod: 1 pod on nodes that are there."


def test_pods_that_fit_on_nodes_that_are_coming_up_are_counted(written: Written) -> None:
    objects = [make.pod("web"), group("g", target=1)]
    first = run("-f", written(*objects)).stdout.splitlines()[0]
    assert first == "1 pending pod: 1 pod on nodes that are coming up."


def test_wide_lists_who_goes_where(written: Written) -> None:
    there = make.pod("web", node_selector={make.HOSTNAME: "n1"})
    objects = [*cluster(pods=2), make.node("n1"), make.csinode("n1", {DRIVER: 0}), there]
    result = run("-f", written(*objects), "-o", "wide")
    assert row(result, "NODE") == ["NODE", "NEW IN", "PENDING PODS THAT GO THERE"]
    assert row(result, "n1") == ["n1", "-", "default/web"]
    assert row(result, "g-new-1") == ["g-new-1", "g", "default/db-0, db-1 (2 pods)"]


def test_without_pending_pods_there_is_nothing_to_do(written: Written) -> None:
    result = run("-f", written(group("g", slots={DRIVER: 5})))
    assert result.stdout.splitlines()[0] == "Nothing to do: no pod waits for a node."


def test_who_can_never_fit_is_told_what_the_nearest_group_lacks(written: Written) -> None:
    objects = [*STORAGE, *databases(1, claims=28), group("db-large", slots={DRIVER: 25})]
    result = run("-f", written(*objects))
    assert row(result, "default/db-0")[1] == (
        f"fits no group, ever: 28 volumes of {DRIVER} wanted, best group db-large has 25"
    )


@pytest.mark.parametrize(
    ("pod", "said"),
    [
        (make.pod("big", cpu="4500m"), "4.5 CPU wanted, best group g has 4"),
        (make.pod("big", memory="64Gi"), "64 GiB of memory wanted, best group g has 16 GiB"),
        (
            make.pod("big", requests={"example.com/gpu": 2}),
            "2 of example.com/gpu wanted, best group g has 0",
        ),
    ],
    ids=["cpu", "memory", "devices"],
)
def test_a_shortage_is_in_the_units_people_use(
    written: Written, pod: KubeObject, said: str
) -> None:
    result = run("-f", written(make.namespace("default"), group("g", cpu="4"), pod))
    assert row(result, "default/big")[1].endswith(said)


def test_who_is_left_out_otherwise_is_told_what_the_groups_say(written: Written) -> None:
    objects = [*STORAGE, *databases(7), group("g", slots={DRIVER: 5}, most=1)]
    result = run("-f", written(*objects))
    assert row(result, "default/db-5, db-6 (2 pods)")[1] == "g: max node group size reached"


def test_a_thousand_pods_of_one_set_are_one_line(written: Written) -> None:
    objects = [*STORAGE, *databases(1000, claims=2), group("g", slots={DRIVER: 1})]
    result = run("-f", written(*objects))
    assert row(result, "default/db-0 … db-999 (1,000 pods)")


def test_who_can_never_fit_comes_first(written: Written) -> None:
    objects = [
        *STORAGE,
        *databases(6),
        *databases(1, name="huge", claims=9),
        group("g", slots={DRIVER: 5}, most=1),
    ]
    lines = run("-f", written(*objects)).stdout.splitlines()
    left_out = lines[next(i for i, line in enumerate(lines) if line.startswith("LEFT OUT")) + 1 :]
    assert [cells(line)[0] for line in left_out[:2]] == ["default/huge-0", "default/db-5"]


def test_long_lists_of_those_left_out_are_cut_short_unless_wide(written: Written) -> None:
    many = [one for number in range(30) for one in databases(1, name=f"s{number}x", claims=9)]
    file = written(*STORAGE, *many, group("g", slots={DRIVER: 5}))
    assert "… and 10 more pods; -o wide has them all" in run("-f", file).stdout
    assert "more pods" not in run("-f", file, "-o", "wide").stdout


def test_wide_has_the_verdict_of_every_group(written: Written) -> None:
    objects = [*STORAGE, *databases(1, claims=9), group("g", slots={DRIVER: 5})]
    lines = run("-f", written(*objects), "-o", "wide").stdout.splitlines()
    assert ["default/db-0", "g", "NodeVolumeLimits", "Unschedulable"] in [
        cells(line)[:4] for line in lines
    ]


def test_warnings_are_on_standard_error(written: Written) -> None:
    objects = [*STORAGE, *databases(1), group("g")]
    result = run("-f", written(*objects))
    assert f"tonnage: warning: group g: nothing tells how many volumes of driver {DRIVER}" in (
        result.stderr
    )


# What a program reads.


def test_json_is_the_plan(written: Written) -> None:
    found = document(run("-f", written(*cluster()), "-o", "json"))
    assert (found["apiVersion"], found["kind"]) == ("tonnage.dev/v1alpha1", "Plan")
    assert [(one["group"], one["delta"]) for one in found["scaleUps"]] == [("g", 3)]
    assert found["limits"] == [{"group": "g", "driver": DRIVER, "count": 5, "source": "provider"}]


def test_yaml_says_the_same_as_json(written: Written) -> None:
    file = written(*cluster())
    as_json = document(run("-f", file, "-o", "json"))
    assert yaml.safe_load(run("-f", file, "-o", "yaml").stdout) == as_json


def test_pods_left_out_do_not_change_the_exit_code(written: Written) -> None:
    assert run("-f", written(*cluster(pods=99))).exit_code == 0


@pytest.mark.parametrize(
    ("flags", "code"),
    [
        (["--fail-on", "not-helped"], 1),
        (["--fail-on", "warnings"], 0),
        (["--fail-on", "warnings", "--fail-on", "not-helped"], 1),
    ],
)
def test_pods_left_out_change_it_if_asked(written: Written, flags: list[str], code: int) -> None:
    assert run("-f", written(*cluster(pods=99)), *flags).exit_code == code


def test_warnings_change_the_exit_code_if_asked(written: Written) -> None:
    objects = [*STORAGE, *databases(1), group("g")]
    result = run("-f", written(*objects), "--fail-on", "warnings", "-o", "json")
    assert (result.exit_code, json.loads(result.stdout)["kind"]) == (1, "Plan")
    assert "ends with code 1: 1 warning" in result.stderr


def test_pods_with_device_claims_are_warned_about_once(written: Written) -> None:
    claims = (ResourceClaimReference(name="gpu"),)
    pods = [make.pod(f"gpu-{number}") for number in range(3)]
    wanting = [
        msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, resource_claims=claims))
        for pod in pods
    ]
    result = run("-f", written(make.namespace("default"), group("g"), *wanting))
    assert result.stderr.count("resource claims") == 1
    assert "warning: Pod default/gpu-0 and 2 more: resource claims (DynamicResources)" in (
        result.stderr
    )


def local_disks() -> list[KubeObject]:
    """A pod with a volume of 30 GiB, and a group whose nodes have 100 GiB and volumes up to 60."""
    made = group("disks")
    assert made.spec.template is not None
    room = StorageCapacity(storage_class_name="local", capacity="100Gi", maximum_volume_size="60Gi")
    template = msgspec.structs.replace(made.spec.template, storage_capacity=(room,))
    return [
        make.namespace("default"),
        make.csidriver("local.example.com", storage_capacity=True),
        make.storage_class("local", "local.example.com"),
        make.pvc("data", storage_class="local", size="30Gi"),
        make.pod("db", pvcs=["data"]),
        msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, template=template)),
    ]


def test_wide_shows_the_storage_of_a_new_node(written: Written) -> None:
    result = run("-f", written(*local_disks()), "-o", "wide")
    assert "GROUP  STORAGE CLASS  STORAGE PER NODE  LARGEST VOLUME  WHO SAYS SO" in result.stdout
    assert "disks  local          100 GiB           60 GiB          provider" in result.stdout


def test_a_lack_of_storage_is_told_in_units_people_read(written: Written) -> None:
    objects = [*local_disks(), make.pvc("two", storage_class="local", size="50Gi")]
    both = make.pod("big", pvcs=["three", "four", "two"])
    more = [make.pvc(name, storage_class="local", size="50Gi") for name in ("three", "four")]
    result = run("-f", written(*objects, *more, both))
    assert "150 GiB of storage of class local wanted, best group disks has 100 GiB" in (
        result.stdout
    )
