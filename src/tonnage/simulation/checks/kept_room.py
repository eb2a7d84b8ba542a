"""Slots that are kept free: bought once, counted once, and there in the end.

They are wishes like those of pods, one slot each, which come after all others. A purchase is too
much where pods and slots are sure of a place without it: what is free, what is coming and what was
promised to others have then been counted twice, or not at all.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from tonnage.embedded.cloud.behaviour import label
from tonnage.groups.headroom import SlotHeadroom
from tonnage.objects.labels import ZONE
from tonnage.objects.scenarios import NodeGroup
from tonnage.simulation.checks.context import CheckContext
from tonnage.simulation.checks.places import PlaceCheck, PodDemand

MISSING = "slots that are to be kept free are not, and could be bought"
STILL_COMING = "slots missing at the end, and machines still on their way"
MODEST_NODES = "slots missing at the end, as live nodes tell of fewer than new ones have"


def demands(entries: Iterable[SlotHeadroom], groups: Iterable[NodeGroup]) -> list[PodDemand]:
    """A wish for each slot, in every zone that has a group where that is asked for."""
    zones = sorted({label(group, ZONE) for group in groups} - {""})
    return [
        _demand(entry.driver, zone, number)
        for entry in entries
        for zone in (zones if entry.per_zone and zones else [""])
        for number in range(entry.slots)
    ]


def _demand(driver: str, zone: str, number: int) -> PodDemand:
    term = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}
    return PodDemand(
        key=f"kept:{driver}:{zone}:{number}",
        needs=Counter({driver: 1}),
        stored=Counter(),
        reachable=([term],) if zone else (),
    )


class KeptRoomCheck:
    """Asked when all trouble is over."""

    def __init__(
        self, context: CheckContext, places: PlaceCheck, kept: Sequence[PodDemand]
    ) -> None:
        self._findings = context.findings
        self._places = places
        self._kept = kept

    def at_the_end(self, *, settled: float) -> None:
        """Whatever is missing cannot be bought."""
        # Whoever waits for a slot of the driver goes before: what is to be had may be his. Who was
        # sent to a node waits for that alone.
        wanted = sum((one.needs for one in self._places.wishes() if not one.promised), Counter())
        for wish in self._lacking():
            if wanted[next(iter(wish.needs))]:
                continue
            growing = self._places.growing(wish)
            if not growing:
                continue
            if self._places.is_busy(settled):
                self._findings.excuse(STILL_COMING)
            elif any(self._places.new(name, "modest").times(wish) for name in growing):
                self._findings.violated(MISSING, f"{wish.key}, and {growing[0]} could grow")
            else:
                self._findings.excuse(MODEST_NODES)

    def _lacking(self) -> Iterator[PodDemand]:
        """Wishes for which there is no slot, each slot used once; those for a zone choose first."""
        free = [(room, Counter(room.free)) for room in self._places.now()]
        for wish in sorted(self._kept, key=lambda one: not one.reachable):
            (driver,) = wish.needs
            for room, left in free:
                if wish.reaches(room.labels) and left[driver] >= 1:
                    left[driver] -= 1
                    break
            else:
                yield wish
