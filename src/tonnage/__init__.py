"""Tonnage: a storage-aware cluster autoscaler for Kubernetes.

    import tonnage

    cluster = tonnage.load("manifests/")
    for pod in cluster.pending:
        print(pod, cluster.explain(pod).summary)

The names here are loaded when they are first asked for: `import tonnage` alone costs nothing.
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
