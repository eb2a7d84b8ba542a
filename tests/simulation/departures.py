"""When pods of a simulated cluster began to go."""

from tonnage.embedded.apiserver.store import Collection, Occurrence
from tonnage.simulation.ensemble import Ensemble


class Departures:
    """Give `follow` to a run before it begins; `times` are seconds of its clock."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def follow(self, ensemble: Ensemble) -> None:
        def note(collection: Collection, occurrence: Occurrence) -> None:
            before, after = occurrence.before, occurrence.after
            if collection.kind.plural != "pods" or before is None or after is None:
                return
            if after.deleting and not before.deleting:
                self.times.append(ensemble.accounts.now)

        ensemble.accounts.listeners.append(note)
