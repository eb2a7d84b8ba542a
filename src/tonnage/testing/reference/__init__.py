"""kube-scheduler's filters, plainly: one node at a time, recounted from scratch.

The independent truth that the vectorised filters are tested against, the slow side of
the benchmark, and the judge that replays scale-up plans. It shares only the typed
objects with the rest and is meant to be read beside upstream's documentation, so
nothing here is clever or fast.

Begin with `pipeline`. `cluster` and `inventory` are what it asks about, `outcomes` its answers;
`placement`, `room`, `spread`, `affinity`, `volume_attachment`, `volume_binding` and `volume_choice`
are the filters.
"""

from tonnage.testing.reference.cluster import ReferenceCluster
from tonnage.testing.reference.pipeline import ReferenceVerdict, verdict, verdicts

__all__ = ["ReferenceCluster", "ReferenceVerdict", "verdict", "verdicts"]
