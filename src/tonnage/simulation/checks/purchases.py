"""Nothing bought that was already coming, nor more than is needed.

A purchase is judged by the pods that it can help: those that a new node of the group would take.
Only what is certain is a breach: that all of these find a place without it, in whatever order the
scheduler fills the nodes.
"""

from collections.abc import Sequence

from tonnage.simulation.checks import places
from tonnage.simulation.checks.bookings import BookingCheck
from tonnage.simulation.checks.context import CheckContext
from tonnage.simulation.checks.gangs import GangCheck
from tonnage.simulation.checks.places import PlaceCheck, PodDemand, View
from tonnage.simulation.checks.repeats import RepeatCheck

ALREADY_COMING = "bought what was already coming"
MORE_THAN_NEEDED = "bought more than is needed"
PART_OF_A_GANG = "bought for a part of a gang"

MODEST_NODES = "bought while live nodes told of fewer slots than new ones have"
REPLACED = "bought in place of a node that never got its drivers, at the minimum of its group"
NOT_HEARD = "bought before the autoscaler could hear of the latest changes"


class PurchaseCheck:
    """Is told of every request before it is made."""

    def __init__(
        self,
        context: CheckContext,
        places_: PlaceCheck,
        repeats: RepeatCheck,
        *,
        gangs: GangCheck,
        bookings: BookingCheck,
        kept: Sequence[PodDemand] = (),
        repeats_count: bool = True,
    ) -> None:
        """`kept` are slots to be kept free, which come after everybody who waits. Where it cannot
        be told for whom a purchase is (`repeats_count`), it is no repetition of another.
        """
        self._kept = kept
        self._gangs = gangs
        self._bookings = bookings
        self._repeats_count = repeats_count
        self._places = places_
        self._findings = context.findings
        self._behind = context.behind
        self._repeats = repeats

    def check(self, group: str, delta: int) -> None:
        """Just before `delta` nodes of a group are bought."""
        wishes = self._places.wishes()
        hopeless = self._gangs.hopeless(wishes)
        free = [wish for wish in wishes if not wish.promised and not wish.request]
        free += self._bookings.demands()
        new = self._places.new(group, "template")
        helped = [one for one in free if new.times(one) and one.gang not in hopeless]
        in_vain = any(new.times(one) for one in free if one.gang in hopeless)
        others = [one for one in wishes if one.gang not in hopeless]
        others += [*self._bookings.demands(), *self._bookings.in_the_way()]
        self._check_need(group, delta, helped, others, in_vain=in_vain)
        if self._repeats_count:
            self._repeats.check(group, delta, helped=helped, wishes=wishes)

    def _check_need(
        self,
        group: str,
        delta: int,
        helped: list[PodDemand],
        wishes: list[PodDemand],
        *,
        in_vain: bool,
    ) -> None:
        for bought, rule in ((0, ALREADY_COMING), (delta - 1, MORE_THAN_NEEDED)):
            modest = self._are_sure(group, bought, helped, wishes, "modest")
            if not modest and not self._are_sure(group, bought, helped, wishes, "template"):
                continue
            if self._behind():
                self._findings.excuse(NOT_HEARD)
            elif delta == 1 and self._places.is_replaced(group):
                self._findings.excuse(REPLACED)
            elif not modest:
                self._findings.excuse(MODEST_NODES)
            else:
                rule = PART_OF_A_GANG if in_vain and not helped else rule
                what = f"{group} +{delta} for {len(helped)} pods, all sure of a place with {bought}"
                self._findings.violated(rule, what)
            return

    def _are_sure(
        self, group: str, bought: int, helped: list[PodDemand], wishes: list[PodDemand], view: View
    ) -> bool:
        new = self._places.new(group, view)
        rooms = [*self._places.coming(view), *[new] * bought]
        kept = [one for one in self._kept if new.times(one)]
        return places.are_sure(helped, wishes, rooms) and places.are_sure(
            kept, [*wishes, *self._kept], rooms
        )
