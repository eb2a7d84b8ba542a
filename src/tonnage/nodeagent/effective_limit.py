"""The attach limit that holds on a node: one pure function over everything that is known.

The operator's word is final. Otherwise the lowest of what the driver says, what the machine has
room for and what was run into is right: each of them can only err by promising too much (an
answer that errs the other way is not believed in the first place, see `beliefs`).

A number is never below 1 because a node is full or crowded. 0 is only published where the
operator or the tables say that no volume can be attached at all, and "no limit" only where nobody
has a number.
"""

from enum import StrEnum
from typing import NamedTuple

from tonnage.groups import catalogue
from tonnage.nodeagent.beliefs import Ceiling, Memory
from tonnage.objects.meta import Record

MACHINE_BOUND = frozenset({catalogue.EBS, catalogue.GCE_PD, catalogue.AZURE_DISK})
"""Drivers whose number in the catalogue is what the machine takes. Of the others it has only the
driver's default, which the driver itself knows better."""

COUNTS_DISKS = frozenset({catalogue.EBS})
"""Drivers whose answer leaves room for disks that were there at the start."""


class LimitSource(StrEnum):
    """Who set the limit."""

    OVERRIDE = "override"
    DRIVER = "driver"
    CATALOGUE = "catalogue"
    MEASURED = "measured"
    NOBODY = "none"


class MachineSlots(Record, frozen=True, kw_only=True):
    """What the tables say of this machine, with its real interfaces and disks taken off."""

    count: int
    formula: str
    takes_none: bool = False
    """Not even an empty machine of this type takes a volume."""


class Facts(Record, frozen=True, kw_only=True):
    """What is known about one driver on this node."""

    driver: str
    memory: Memory | None = None
    machine: MachineSlots | None = None
    foreign_disks: int = 0
    reserved: int = 0
    override: int | None = None
    ceiling: Ceiling | None = None


class Effective(Record, frozen=True, kw_only=True):
    """The limit, `None` if nobody has a number; who set it, and one sentence on how."""

    count: int | None
    source: LimitSource
    reason: str


class _Candidate(NamedTuple):
    number: int
    source: LimitSource
    reason: str


def effective(facts: Facts) -> Effective:
    """The limit that holds."""
    if facts.override is not None:
        return Effective(
            count=facts.override, source=LimitSource.OVERRIDE, reason="set by the operator"
        )
    found = [one for one in (_driver(facts), _machine(facts), _ceiling(facts)) if one is not None]
    if not found:
        reason = "the driver gives no number, and the catalogue has none for it here"
        return Effective(count=None, source=LimitSource.NOBODY, reason=reason)
    # Of equal numbers the first: what the driver says needs no other explanation.
    count, source, reason = min(found, key=lambda one: one.number)
    takes_none = facts.machine is not None and facts.machine.takes_none
    if count < 1 and not takes_none:
        return Effective(count=1, source=source, reason=f"{reason}; 1 is published, never less")
    return Effective(count=max(count, 0), source=source, reason=reason)


def machine(
    driver: str,
    instance_type: str,
    *,
    interfaces: int,
    foreign_disks: int,
    reserved: int,
    memory_gib: int | None,
    labels: dict[str, str],
) -> MachineSlots | None:
    """What the catalogue has for this machine; `None` if it does not know type or driver."""

    def ask(held: int) -> catalogue.CatalogueLimit | None:
        return catalogue.lookup(
            driver,
            instance_type,
            enis=max(interfaces, 1),
            reserved=held,
            memory_gib=memory_gib,
            labels=labels,
        )

    found, empty = ask(foreign_disks + reserved), ask(0)
    if found is None or empty is None:
        return None
    formula = f"{instance_type}: {found.formula}"
    if foreign_disks:
        formula += f" ({foreign_disks} of the reserved: disks that are not from CSI)"
    return MachineSlots(count=found.count, formula=formula, takes_none=empty.count == 0)


def _driver(facts: Facts) -> _Candidate | None:
    if facts.memory is None:
        return None
    answered, believed = facts.memory.answered, facts.memory.believed
    foreign = 0 if facts.driver in COUNTS_DISKS else facts.foreign_disks
    words = [f"the driver says {answered}"]
    if believed != answered:
        words.append(f"and forgets volumes that pods held when it started, so {believed}")
    if foreign:
        words.append(f"- {foreign} disks that are not from CSI")
    if facts.reserved:
        words.append(f"- {facts.reserved} reserved")
    return _Candidate(believed - foreign - facts.reserved, LimitSource.DRIVER, " ".join(words))


def _machine(facts: Facts) -> _Candidate | None:
    if facts.machine is None:
        return None
    if facts.memory is not None and facts.driver not in MACHINE_BOUND:
        return None
    return _Candidate(facts.machine.count, LimitSource.CATALOGUE, facts.machine.formula)


def _ceiling(facts: Facts) -> _Candidate | None:
    if facts.ceiling is None:
        return None
    count = facts.ceiling.count
    reason = f"an attach was refused for lack of room with {count} attached"
    return _Candidate(count, LimitSource.MEASURED, reason)
