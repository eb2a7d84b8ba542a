"""What scale-down remembers from one round to the next: a value, handed in and given back.

Times are seconds since 1970, so that they can be written down and survive a restart.
"""

from tonnage.objects.meta import Record
from tonnage.scaledown.plan import Action


class CoolDowns(Record, frozen=True, kw_only=True):
    """When nodes were last added, deleted, or could not be deleted: by group."""

    added: dict[str, float] = {}
    deleted: dict[str, float] = {}
    failed: dict[str, float] = {}


class ScaleDownState(Record, frozen=True, kw_only=True):
    """`unneeded` has since when each node could go; `removing` the nodes that are going already.

    `pays_back` has until when nodes have to carry pods that consolidation moved to them.
    """

    unneeded: dict[str, float] = {}
    removing: dict[str, Action] = {}
    pays_back: dict[str, float] = {}
    cool_downs: CoolDowns = CoolDowns()
