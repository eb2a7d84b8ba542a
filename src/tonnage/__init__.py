"""Tonnage: a storage-aware cluster autoscaler for Kubernetes.

    import tonnage

    cluster = tonnage.load("manifests/")
    for pod in cluster.pending:
        print(pod, cluster.explain(pod).summary)

The names here are loaded when they are first asked for: `import tonnage` alone costs nothing.

Where things are, from what they stand on to what stands on them:

    objects, clock, errors    Kubernetes objects as records, time, and what is raised on purpose
    snapshot, rules           the cluster in columns, and where a pod fits on it
    groups                    node groups: templates, limits, readiness, memory, options
    scaleup, optimise         what to buy
    scaledown, consolidation  what can go, and what to replace
    files, api, cli           manifests, the Python API, the commands
    report, doctor, migration what a simulation, a cluster or another autoscaler comes to
    cluster, service          the client of the Kubernetes API, and what programs on it share
    autoscaler, providers     the loop on a live cluster, and who makes its nodes
    scheduler                 a scheduler and an extender that know attach slots
    capacity, nodeagent       published capacity of nodes to come, true limits of nodes
    board                     the page
    embedded, simulation      a Kubernetes in this process, and whole clusters in virtual time
    testing                   builders, the reference, contracts

`docs/architecture.md` has the way of a pending pod through them.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tonnage.api import Cluster, Explanation, SlotReport, SlotUse, Verdict, load
    from tonnage.errors import InputError, TonnageError

__all__ = [
    "Cluster",
    "Explanation",
    "InputError",
    "SlotReport",
    "SlotUse",
    "TonnageError",
    "Verdict",
    "load",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from tonnage import api, errors

    found = getattr(errors if name.endswith("Error") else api, name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
