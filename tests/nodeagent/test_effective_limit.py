"""The limit that holds, as a table: what is known, what is published, and who set it."""

import pytest

from tonnage.groups import catalogue
from tonnage.nodeagent import effective_limit
from tonnage.nodeagent.beliefs import Ceiling, Memory
from tonnage.nodeagent.effective_limit import Facts, LimitSource, MachineSlots

EBS = catalogue.EBS
AZURE = catalogue.AZURE_DISK
OTHER = "disks.example.com"


def said(number: int, *, believed: int | None = None) -> Memory:
    return Memory(answered=number, believed=believed or number)


def room(count: int, *, takes_none: bool = False) -> MachineSlots:
    return MachineSlots(count=count, formula="by the tables", takes_none=takes_none)


TABLE = [
    ("nobody has a number", Facts(driver=OTHER), None, LimitSource.NOBODY),
    ("the driver alone", Facts(driver=OTHER, memory=said(10)), 10, LimitSource.DRIVER),
    ("the tables alone", Facts(driver=OTHER, machine=room(16)), 16, LimitSource.CATALOGUE),
    (
        "equal: the driver's",
        Facts(driver=EBS, memory=said(25), machine=room(25)),
        25,
        LimitSource.DRIVER,
    ),
    (
        "the machine has less room than the driver says",
        Facts(driver=EBS, memory=said(26), machine=room(24)),
        24,
        LimitSource.CATALOGUE,
    ),
    (
        "the driver says less than the machine has room for",
        Facts(driver=EBS, memory=said(20), machine=room(25)),
        20,
        LimitSource.DRIVER,
    ),
    (
        "a driver that has its number from its flags knows better than a table of defaults",
        Facts(driver="csi.vsphere.vmware.com", memory=said(255), machine=room(59)),
        255,
        LimitSource.DRIVER,
    ),
    (
        "what was run into goes before what was promised",
        Facts(driver=EBS, memory=said(26), machine=room(23), ceiling=Ceiling(count=16)),
        16,
        LimitSource.MEASURED,
    ),
    (
        "a ceiling above everything else changes nothing",
        Facts(driver=EBS, memory=said(26), machine=room(23), ceiling=Ceiling(count=24)),
        23,
        LimitSource.CATALOGUE,
    ),
    (
        "the operator's word goes before all",
        Facts(driver=EBS, memory=said(26), ceiling=Ceiling(count=16), override=30),
        30,
        LimitSource.OVERRIDE,
    ),
    (
        "the operator may say none",
        Facts(driver=EBS, memory=said(26), override=0),
        0,
        LimitSource.OVERRIDE,
    ),
    (
        "reserved slots are taken off the driver's number",
        Facts(driver=OTHER, memory=said(10), reserved=3),
        7,
        LimitSource.DRIVER,
    ),
    (
        "foreign disks are taken off the number of a driver that does not see them",
        Facts(driver=AZURE, memory=said(16), foreign_disks=1),
        15,
        LimitSource.DRIVER,
    ),
    (
        "but not once more off that of a driver that does",
        Facts(driver=EBS, memory=said(25), foreign_disks=1),
        25,
        LimitSource.DRIVER,
    ),
    (
        "a restart that forgot volumes of pods does not count",
        Facts(driver=EBS, memory=said(12, believed=25), machine=room(25)),
        25,
        LimitSource.DRIVER,
    ),
    (
        "a crowded node has one slot, never none",
        Facts(driver=OTHER, memory=said(2), reserved=2),
        1,
        LimitSource.DRIVER,
    ),
    (
        "and never less than none",
        Facts(driver=OTHER, memory=said(2), reserved=9),
        1,
        LimitSource.DRIVER,
    ),
    (
        "a machine that takes no disks has no slots",
        Facts(driver=AZURE, machine=room(0, takes_none=True)),
        0,
        LimitSource.CATALOGUE,
    ),
]


@pytest.mark.parametrize(
    ("facts", "count", "source"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE]
)
def test_the_limit(facts: Facts, count: int | None, source: LimitSource) -> None:
    found = effective_limit.effective(facts)
    assert (found.count, found.source) == (count, source)


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        (Facts(driver=OTHER, memory=said(10), reserved=3), "the driver says 10 - 3 reserved"),
        (
            Facts(driver=AZURE, memory=said(16), foreign_disks=1),
            "the driver says 16 - 1 disks that are not from CSI",
        ),
        (
            Facts(driver=EBS, memory=said(12, believed=25)),
            "the driver says 12 and forgets volumes that pods held when it started, so 25",
        ),
        (
            Facts(driver=OTHER, memory=said(2), reserved=2),
            "the driver says 2 - 2 reserved; 1 is published, never less",
        ),
        (
            Facts(driver=EBS, ceiling=Ceiling(count=16)),
            "an attach was refused for lack of room with 16 attached",
        ),
    ],
)
def test_the_reason_says_how_it_came_about(facts: Facts, words: str) -> None:
    assert effective_limit.effective(facts).reason == words


def machine(
    driver: str, kind: str, *, interfaces: int = 1, foreign: int = 0, reserved: int = 0
) -> MachineSlots | None:
    return effective_limit.machine(
        driver,
        kind,
        interfaces=interfaces,
        foreign_disks=foreign,
        reserved=reserved,
        memory_gib=None,
        labels={},
    )


@pytest.mark.parametrize(
    ("driver", "kind", "interfaces", "foreign", "count"),
    [
        (EBS, "m5.large", 1, 0, 26),
        (EBS, "m5.large", 3, 0, 24),
        (EBS, "m5.large", 2, 1, 24),
        (EBS, "m5.large", 0, 0, 26),
        (EBS, "m7i.large", 3, 0, 31),
        (EBS, "d3.8xlarge", 3, 0, 1),
        (AZURE, "Standard_D8s_v5", 1, 1, 15),
        (catalogue.GCE_PD, "n4-standard-8", 1, 1, 14),
    ],
)
def test_the_tables_take_off_what_the_machine_has(
    driver: str, kind: str, interfaces: int, foreign: int, count: int
) -> None:
    found = machine(driver, kind, interfaces=interfaces, foreign=foreign)
    assert found is not None
    assert found.count == count


def test_the_formula_tells_foreign_disks_from_reserved_slots() -> None:
    found = machine(AZURE, "Standard_D8s_v5", foreign=1, reserved=2)
    assert found is not None
    assert found.formula == (
        "Standard_D8s_v5: 16 data disks - 3 reserved = 13"
        " (1 of the reserved: disks that are not from CSI)"
    )


def test_of_an_unknown_type_the_tables_say_nothing() -> None:
    assert machine(EBS, "m99.huge") is None
