"""Everything that a decision is made from, as one value that can be written down."""

from collections.abc import Iterator

import msgspec
import pytest

from tests.scaleup.asking import CLASS, EBS, NOW, group, stateful
from tonnage.autoscaler.config import AutoscalerConfig
from tonnage.groups import options
from tonnage.groups.cluster_state import ClusterState
from tonnage.groups.inputs import Inputs, WrittenInputs
from tonnage.groups.options import Options
from tonnage.objects.kinds import KubeObject
from tonnage.rules import features
from tonnage.scaleup import assessment, decision
from tonnage.testing import builders as make


def cluster() -> Iterator[KubeObject]:
    yield CLASS
    yield make.node("n1")
    yield make.csinode("n1", {EBS: 1})
    yield group("g", nodes=["n1"], described=False)
    yield from stateful("db", 3, cpu="10m")


def inputs(chosen: Options | None = None) -> Inputs:
    return Inputs.of_objects(
        cluster(), options=chosen or options.of({}), features=features.of_version(), now=NOW
    )


def read_again(written: WrittenInputs) -> WrittenInputs:
    return msgspec.json.decode(msgspec.json.encode(written), type=WrittenInputs)


def test_what_was_written_down_gives_the_same_decision_again() -> None:
    asked = inputs()
    state = ClusterState.of(list(cluster()), asked.features, asked.options)
    again = read_again(asked.written()).on(state)

    made = decision.decide(again).plan

    assert made.scale_ups
    assert made == decision.decide(asked).plan


def test_memory_of_a_round_is_written_down_too() -> None:
    memory = assessment.assess(inputs()).templates.memory
    asked = msgspec.structs.replace(inputs(), memory=memory)

    assert read_again(asked.written()).memory == memory


def test_of_a_configuration_only_what_decides_is_written_down() -> None:
    written = inputs(AutoscalerConfig(max_nodes_total=7)).written()

    assert type(written.options) is Options
    assert written.options.max_nodes_total == 7


def test_what_is_derived_belongs_to_its_inputs() -> None:
    asked = inputs()
    fewer = msgspec.structs.replace(asked, groups=())

    assert (list(asked.group_of), list(fewer.group_of)) == (["n1"], [])


@pytest.mark.parametrize("pending", [(), ("default/db-1", "default/gone")])
def test_only_the_pods_that_are_named_are_decided_on(pending: tuple[str, ...]) -> None:
    asked = msgspec.structs.replace(inputs(), pending=pending)

    found = assessment.assess(asked).pending

    assert [record.key for record in found] == list(pending[:1])
