"""What consolidation remembers from one round to the next: a value, handed in and given back."""

from tonnage.objects.meta import Record


class ConsolidationState(Record, frozen=True, kw_only=True):
    """Times are seconds since 1970.

    `pays_back` has until when each node has to carry what was moved to it, before it may go
    itself; `volume_seconds` what detaching and attaching took, by driver, where it was observed.
    """

    pays_back: dict[str, float] = {}
    volume_seconds: dict[str, float] = {}
