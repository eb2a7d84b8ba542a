"""Which slot pools a node has, and how large they are."""

import msgspec
import pytest

from tests.groups.group_objects import EBS, group
from tonnage.groups import catalogue, slot_pools
from tonnage.groups.model import Group
from tonnage.objects.meta import ObjectMeta
from tonnage.objects.nodes import Node
from tonnage.objects.scenarios import SlotPool
from tonnage.testing import builders as make

OTHER = "other.example.com"
TYPE = "node.kubernetes.io/instance-type"
NITRO = SlotPool(name="aws-nitro", members={OTHER: 1})


def machine(kind: str = "m5.large", *, annotation: str | None = None) -> Node:
    annotations = {} if annotation is None else {slot_pools.OCCUPIED_ANNOTATION: annotation}
    metadata = ObjectMeta(name="n", labels={TYPE: kind}, annotations=annotations)
    return Node(metadata=metadata)


def sizes(
    node: Node,
    *configured: SlotPool,
    drivers: dict[str, int | None] | None = None,
    of: Group | None = None,
) -> dict[str, int]:
    csinode = make.csinode("n", drivers) if drivers is not None else None
    found = slot_pools.of_node(node, csinode, of, configured)
    return {one.pool.name: one.pool.free for one in found}


def test_what_other_things_occupy_is_not_there_for_volumes() -> None:
    pool = SlotPool(name="p", size=28, members={EBS: 1}, occupied=3)

    assert sizes(machine(), pool) == {"p": 25}


def test_a_node_may_say_itself_how_many_slots_are_occupied() -> None:
    pool = SlotPool(name="p", size=28, members={EBS: 1}, occupied=3)

    assert sizes(machine(annotation="q=1,p=9"), pool) == {"p": 19}


@pytest.mark.parametrize("text", ["9", "p=", "p=-1", "p=x", "=9"])
def test_an_annotation_that_cannot_be_read_is_named_and_left_aside(text: str) -> None:
    pool = SlotPool(name="p", size=28, members={EBS: 1}, occupied=3)
    node = machine(annotation=text)

    assert sizes(node, pool) == {"p": 25}
    assert [one for one in slot_pools.problems([node]) if "node n: annotation" in one]


def test_a_groups_own_pool_comes_before_one_for_all_of_that_name() -> None:
    everywhere = SlotPool(name="p", size=28, members={EBS: 1})
    pool = SlotPool(name="p", size=5, members={EBS: 1})
    own = msgspec.structs.replace(group("g"), pools=(pool,))

    assert sizes(machine(), everywhere, of=own) == {"p": 5}


def test_a_selector_says_which_nodes_have_the_pool() -> None:
    pool = SlotPool(
        name="p", size=9, members={EBS: 1}, node_selector=make.selecting({TYPE: "m5.large"})
    )

    assert (sizes(machine(), pool), sizes(machine("m5.xlarge"), pool)) == ({"p": 9}, {})


def test_without_a_size_it_is_what_the_catalogue_has_left_on_the_machine() -> None:
    known = catalogue.lookup(EBS, "m5d.large")

    assert known is not None
    assert sizes(machine("m5d.large"), NITRO) == {"aws-nitro": known.count}


def test_the_catalogues_pool_has_the_drivers_of_the_cloud_as_members_too() -> None:
    (found,) = slot_pools.of_node(machine(), None, None, [NITRO])

    assert dict(found.pool.members) == {EBS: 1, OTHER: 1}


@pytest.mark.parametrize(
    ("drivers", "free"),
    [
        pytest.param({EBS: 24, OTHER: 24}, 24, id="drivers that saw two more interfaces"),
        pytest.param({EBS: 24, OTHER: None}, 24, id="one driver says, the other does not"),
        pytest.param({EBS: 39, OTHER: 3}, 39, id="never less than the best of them alone"),
        pytest.param({EBS: None, OTHER: None}, 26, id="nobody says: the catalogue"),
    ],
)
def test_what_drivers_publish_beats_the_catalogues_size(
    drivers: dict[str, int | None], free: int
) -> None:
    assert sizes(machine(), NITRO, drivers=drivers) == {"aws-nitro": free}


@pytest.mark.parametrize("kind", ["m7i.large", "no-such.type", "n2-standard-4"])
def test_a_machine_without_that_pool_in_the_catalogue_has_none(kind: str) -> None:
    assert sizes(machine(kind), NITRO) == {}


def test_gce_machines_have_a_total_of_disks() -> None:
    pool = SlotPool(name="gce-disks", members={OTHER: 1})

    assert sizes(machine("n4-standard-16"), pool) == {"gce-disks": 31}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"name": "", "members": {EBS: 1}}, "name: expected"),
        ({"name": "p", "members": {}}, "members: expected"),
        ({"name": "p", "members": {EBS: 0}}, "members.ebs.csi.aws.com: 0"),
        ({"name": "p", "members": {EBS: 1}, "size": -1}, "size: -1"),
        ({"name": "p", "members": {EBS: 1}, "occupied": -1}, "occupied: -1"),
    ],
)
def test_a_pool_that_makes_no_sense_says_which_field(
    fields: dict[str, object], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        SlotPool(**fields)  # type: ignore[arg-type]
