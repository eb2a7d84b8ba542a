"""What is particular about Auto Scaling groups, against moto's server."""

import asyncio
from collections.abc import Coroutine
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tests.providers.aws.emulated import ENABLED, Aws, looked
from tonnage.errors import InputError, ProviderError
from tonnage.objects.nodes import Taint
from tonnage.objects.scenarios import GroupTemplate
from tonnage.providers.aws import calls, config, discovery, tags
from tonnage.providers.aws.machines import machine_of
from tonnage.providers.protocol import GroupOptions

pytestmark = pytest.mark.xdist_group("aws")

T = TypeVar("T")
EBS = "ebs.csi.aws.com"
TEMPLATE = "k8s.io/cluster-autoscaler/node-template"


def run(main: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(main)


# Discovery.


def test_groups_are_found_by_a_tag(aws: Aws) -> None:
    aws.group("ours")
    aws.group("theirs", tags={ENABLED: "true", "team": "b"})

    async def main() -> list[str]:
        provider = await looked(aws.provider(f"asg:tag={ENABLED},team=b"))
        return [one.id for one in await provider.groups()]

    assert run(main()) == ["theirs"]


def test_a_group_named_by_a_flag_has_the_sizes_of_the_flag(aws: Aws) -> None:
    aws.group("a", least=0, most=10)

    async def main() -> tuple[int, int]:
        (group,) = await (await looked(aws.provider(sizes={"a": (1, 3)}))).groups()
        return group.min_size, group.max_size

    assert run(main()) == (1, 3)


def test_a_group_that_is_not_there_is_named_and_the_others_go_on(aws: Aws) -> None:
    aws.group("a")

    async def main() -> tuple[list[str], list[str]]:
        provider = await looked(aws.provider(sizes={"gone": (0, 1), "a": (0, 1)}))
        return [one.id for one in await provider.groups()], list(await provider.problems())

    groups, problems = run(main())
    assert groups == ["a"]
    assert problems == ["--nodes gone: AWS: there is no Auto Scaling group gone"]


@pytest.mark.parametrize("spec", ["asg:tag=", "mig:name=x", "asg:tag==value", "label:x=y"])
def test_a_spec_that_is_none_is_refused(spec: str) -> None:
    with pytest.raises(InputError, match="node-group-auto-discovery"):
        discovery.parse([spec], {})


def test_tags_of_several_specs_have_to_fit_together() -> None:
    wanted = discovery.parse(["asg:tag=a=1", "asg:tag=b"], {})
    assert wanted.filters == [
        {"Name": "tag:a", "Values": ["1"]},
        {"Name": "tag-key", "Values": ["b"]},
    ]


def test_no_group_at_all_is_refused() -> None:
    with pytest.raises(InputError, match="needs to know its groups"):
        discovery.parse([], {})


# From zero.


def test_a_template_has_the_machine_of_the_launch_template(aws: Aws) -> None:
    aws.group("a", type_="m5.large")

    async def main() -> None:
        found = await (await looked(aws.provider())).template("a")
        assert found is not None
        assert found.node.status.allocatable["cpu"] == 2
        assert found.node.status.allocatable["memory"] == 8192 * 1024 * 1024
        assert found.node.metadata.labels["topology.ebs.csi.aws.com/zone"] == "us-east-1a"
        assert found.csi_node is None

    run(main())


def test_a_driver_in_the_tag_has_the_slots_of_the_machine(aws: Aws) -> None:
    aws.group("a", type_="m5.large", tags={f"{TEMPLATE}/csi-driver": f"{EBS}, other.csi"})

    async def main() -> list[tuple[str, int | None]]:
        found = await (await looked(aws.provider())).template("a")
        assert found is not None
        assert found.csi_node is not None
        return [(one.name, one.limit) for one in found.csi_node.spec.drivers]

    # 28 slots on Nitro, one of which the root disk takes and one the first interface.
    assert run(main()) == [(EBS, 26), ("other.csi", None)]


def test_numbers_of_drivers_stand_in_tags_of_their_own_beside_the_names(aws: Aws) -> None:
    named = {
        f"{TEMPLATE}/csi-driver": f"{EBS}, other.csi",
        f"{TEMPLATE}/csi-driver/{EBS}": "20",
        f"{TEMPLATE}/csi-driver/third.csi": "7",
    }
    aws.group("a", type_="m5.large", tags=named)

    async def main() -> list[tuple[str, int | None]]:
        found = await (await looked(aws.provider())).template("a")
        assert found is not None
        assert found.csi_node is not None
        return [(one.name, one.limit) for one in found.csi_node.spec.drivers]

    assert run(main()) == [(EBS, 20), ("other.csi", None), ("third.csi", 7)]


def test_tags_give_labels_taints_and_resources(aws: Aws) -> None:
    aws.group(
        "a",
        tags={
            f"{TEMPLATE}/label/team": "db",
            f"{TEMPLATE}/taint/dedicated": "db:NoSchedule",
            f"{TEMPLATE}/resources/ephemeral-storage": "100Gi",
            "eks:nodegroup-name": "ng",
        },
    )

    async def main() -> None:
        found = await (await looked(aws.provider())).template("a")
        assert found is not None
        labels = found.node.metadata.labels
        assert (labels["team"], labels["nodegroup-name"]) == ("db", "ng")
        assert found.node.spec.taints == (Taint(key="dedicated", value="db", effect="NoSchedule"),)
        assert found.node.status.allocatable["ephemeral-storage"] == "100Gi"

    run(main())


def test_a_type_ec2_tells_no_size_of_is_an_error_that_names_it() -> None:
    with pytest.raises(ProviderError, match=r"VCpuInfo\.DefaultVCpus of instance type x9\.new"):
        machine_of({"InstanceType": "x9.new", "VCpuInfo": {}})


def test_a_launch_template_that_is_gone_fails_its_group_alone(aws: Aws) -> None:
    gone = aws.template()
    aws.group("bad", LaunchTemplate=gone)
    aws.group("good")
    aws.ec2.delete_launch_template(**gone)

    async def main() -> GroupTemplate | None:
        provider = await looked(aws.provider())
        with pytest.raises(ProviderError, match="LaunchTemplate"):
            await provider.template("bad")
        return await provider.template("good")

    assert run(main()) is not None


def test_the_first_override_of_mixed_instances_stands_for_all(aws: Aws) -> None:
    policy = {
        "LaunchTemplate": {
            "LaunchTemplateSpecification": {**aws.template("m5.large"), "Version": "$Latest"},
            "Overrides": [{"InstanceType": "c5.xlarge"}, {"InstanceType": "m5.large"}],
        }
    }
    aws.group("a", MixedInstancesPolicy=policy)

    async def main() -> str:
        found = await (await looked(aws.provider())).template("a")
        assert found is not None
        return found.node.metadata.labels["node.kubernetes.io/instance-type"]

    assert run(main()) == "c5.xlarge"


def test_a_group_over_several_zones_says_so(aws: Aws) -> None:
    aws.group("a", zones=["us-east-1b", "us-east-1a"])

    async def main() -> tuple[str, ...]:
        (group,) = await (await looked(aws.provider())).groups()
        return group.problems

    (problem,) = run(main())
    assert "taken to be in us-east-1a" in problem


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("taint/x", "NoSuchEffect", "expected VALUE:EFFECT"),
        ("resources/x", "many", "expected a quantity"),
        ("resources/x", "-1", "expected a quantity"),
        ("csi-driver", "a=b", "no name of a CSI driver"),
        ("csi-driver/a.csi", "many", "expected csi-driver/NAME with a number of volumes"),
        ("csi-driver/a.csi", "-1", "expected csi-driver/NAME with a number of volumes"),
        ("autoscaling-options/scaledownunneededtime", "soon", "expected a duration"),
        ("autoscaling-options/scaledownutilizationthreshold", "half", "expected a number"),
        ("autoscaling-options/scaledownutilizationthreshold", "nan", "expected a number"),
        ("autoscaling-options/ignoredaemonsetsutilization", "maybe", "true or false"),
        ("autoscaling-options/nonsense", "1", "no such option"),
    ],
)
def test_a_tag_that_cannot_be_read_is_told(key: str, value: str, why: str) -> None:
    (problem,) = tags.read({f"{TEMPLATE}/{key}": value}, group="a").problems
    assert why in problem
    assert problem.startswith(f"group a: tag {TEMPLATE}/{key}={value}")


def test_options_of_a_group_are_in_its_tags() -> None:
    told = tags.read({f"{TEMPLATE}/autoscaling-options/maxnodeprovisiontime": "5m"}, group="a")
    assert told.options == GroupOptions(max_node_provision_time=300.0)


def test_a_type_ec2_has_slots_for_is_counted_by_the_formula() -> None:
    told = {
        "InstanceType": "new.large",
        "VCpuInfo": {"DefaultVCpus": 2},
        "MemoryInfo": {"SizeInMiB": 1024},
        "Hypervisor": "nitro",
        "EbsInfo": {"MaximumEbsAttachments": 32, "AttachmentLimitType": "dedicated"},
    }
    assert machine_of(told).ebs_slots == 31


# Changing.


def test_terminating_lowers_the_size_and_takes_that_instance(aws: Aws) -> None:
    aws.group("a", size=3)
    instances = aws.instances("a")
    for number, instance in enumerate(instances):
        aws.register(instance, f"n{number}")

    async def main() -> None:
        provider = await looked(aws.provider())
        await provider.delete("a", ["n1"])

    run(main())
    assert aws.instances("a") == [instances[0], instances[2]]


def test_an_instance_no_node_registered_for_is_deleted_by_its_id(aws: Aws) -> None:
    aws.group("a", size=1)

    async def main() -> None:
        provider = await looked(aws.provider())
        (instance,) = await provider.instances("a")
        await provider.delete("a", [instance.id])

    run(main())
    assert aws.instances("a") == []


def test_instances_aws_cannot_make_are_a_lack_of_machines(
    aws: Aws, monkeypatch: pytest.MonkeyPatch
) -> None:
    aws.group("a", size=1)
    aws.behind("a").desired_capacity = 2

    async def main() -> tuple[str, str]:
        provider = await looked(aws.provider())

        async def activities(_: str) -> list[Any]:
            aws.calls.made["DescribeScalingActivities"] += 1
            return [
                {
                    "StatusCode": "Failed",
                    "StatusMessage": "We currently do not have sufficient capacity",
                    "StartTime": datetime.now(UTC),
                }
            ]

        # The emulator has no failed activities to tell of.
        monkeypatch.setattr(aws.calls, "activities", activities)
        missing = (await provider.instances("a"))[-1]
        assert missing.error is not None
        return missing.state, missing.error.error_class

    assert run(main()) == ("creating", "outOfResources")


def test_a_group_that_somebody_else_has_grown_is_not_made_smaller(aws: Aws) -> None:
    aws.group("a", size=1)

    async def main() -> int:
        provider = await looked(aws.provider())
        aws.autoscaling.set_desired_capacity(AutoScalingGroupName="a", DesiredCapacity=3)
        await provider.increase("a", 1)
        return len(aws.instances("a"))

    assert run(main()) == 4


def test_a_group_deleted_under_us_is_an_error_that_names_it(aws: Aws) -> None:
    aws.group("a")

    async def main() -> None:
        provider = await looked(aws.provider())
        aws.autoscaling.delete_auto_scaling_group(AutoScalingGroupName="a", ForceDelete=True)
        with pytest.raises(ProviderError, match="AWS: there is no Auto Scaling group a"):
            await provider.increase("a", 1)

    run(main())


# What it costs.


def test_two_hundred_groups_are_read_in_pages(aws: Aws) -> None:
    template = aws.template()
    for number in range(205):
        aws.group(f"g{number:03}", LaunchTemplate=template)

    async def main() -> int:
        return len(await (await looked(aws.provider())).groups())

    assert run(main()) == 205
    assert aws.calls.made == {"DescribeAutoScalingGroups": 3}


def test_a_quiet_loop_asks_for_nothing_within_a_minute(aws: Aws) -> None:
    aws.group("a", size=2)

    async def main() -> None:
        provider = aws.provider()
        for _ in range(6):
            await provider.refresh()
            for group in await provider.groups():
                await provider.instances(group.id)
                await provider.template(group.id)
                await provider.options(group.id)
                await provider.price(group.id)

    run(main())
    print(f"requests of six quiet rounds: {dict(aws.calls.made)}")
    assert aws.calls.made == {
        "DescribeAutoScalingGroups": 1,
        "DescribeLaunchTemplateVersions": 1,
        "DescribeInstanceTypes": 1,
    }


# What goes wrong.


@pytest.mark.parametrize(
    ("code", "cause"),
    [
        ("Throttling", "transient"),
        ("RequestLimitExceeded", "transient"),
        ("ScalingActivityInProgress", "transient"),
        ("InsufficientInstanceCapacity", "outOfResources"),
        ("VcpuLimitExceeded", "quota"),
        ("ExpiredToken", "other"),
        ("AccessDenied", "other"),
    ],
)
def test_errors_of_aws_say_what_to_do_next(code: str, cause: str) -> None:
    assert calls.cause_of(code) == cause


def test_throttling_and_expired_credentials_come_through_the_sdk(aws: Aws) -> None:
    provider = aws.provider()

    async def main() -> list[tuple[bool, str]]:
        from botocore.exceptions import ClientError

        found = []
        for code in ("Throttling", "ExpiredToken"):

            def refuse(model: Any, code: str = code, **_: Any) -> None:
                raise ClientError({"Error": {"Code": code, "Message": "no"}}, model.name)

            events = aws.calls._autoscaling.meta.events
            events.register("before-call.auto-scaling", refuse)
            try:
                await provider.refresh()
            except ProviderError as error:
                found.append((error.retryable, str(error)))
            finally:
                events.unregister("before-call.auto-scaling", refuse)
        return found

    throttled, expired = run(main())
    assert throttled == (True, "AWS: DescribeAutoScalingGroups: Throttling: no")
    assert expired == (False, "AWS: DescribeAutoScalingGroups: ExpiredToken: no")


def test_nobody_there_is_an_error_of_the_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    made = calls.Calls(region="us-east-1", endpoint_url="http://127.0.0.1:9")
    with pytest.raises(ProviderError, match="AWS: DescribeAutoScalingGroups"):
        run(made.groups(names=["a"]))


# The file.


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("regoin: x", "1: regoin: expected region or another known field, found an unknown field"),
        ("[]", "1: expected fields such as region, found a list"),
        ("prices: {a: .nan}", "1: .nan is no number that JSON has"),
        ("region: 5", "1: region: expected a string (in quotes), found 5"),
        ("prices: cheap", '1: prices: expected a mapping, found "cheap"'),
        ("region: x\nregion: y", "2: region: written for the second time"),
        ("region: x\n---\nregion: y", "3: expected one document, found another"),
        ("region: [", "1: not YAML: "),
    ],
)
def test_a_mistake_in_the_configuration_is_named(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "cloud-config.yaml"
    path.write_text(text)
    with pytest.raises(InputError) as raised:
        config.read(path)
    assert str(raised.value).startswith(f"{path}:{complaint}")
