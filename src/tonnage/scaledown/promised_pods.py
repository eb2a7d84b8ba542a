"""Pods that wait and count as placed, as upstream's scale-up leaves them for its scale-down."""

from collections.abc import Mapping

import numpy as np

from tonnage.objects.pods import Pod
from tonnage.rules import pipeline
from tonnage.scaledown.inputs import ScaleDownInputs


def of(inputs: ScaleDownInputs) -> Mapping[str, list[Pod]]:
    """Pods that wait and that only one node has room for: upstream counts them as being there.

    Where several have, it picks one by chance.
    """
    cluster = inputs.cluster
    snapshot = cluster.snapshot
    found: dict[str, list[Pod]] = {}
    for record in inputs.assessed.pending:
        fits = pipeline.evaluate(snapshot, record, inputs.features).fits
        fits &= ~snapshot.columns.unschedulable.data[: len(fits)]
        rows = np.flatnonzero(fits)
        pod = cluster.pod(record.key)
        if len(rows) and pod is not None:
            name = snapshot.name_of(int(rows[0])) if len(rows) == 1 else ""
            found.setdefault(name, []).append(pod)
            if name:
                snapshot.place(record, name)
    return found
