"""What reading files gives: objects, settings, and an account of everything else."""

from collections import Counter
from typing import Any

import msgspec

from tonnage.objects.kinds import KubeObject


class ScenarioOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The settings a Scenario carries beside its objects, as written."""

    kubernetes_version: str = ""
    feature_gates: dict[str, bool] = {}
    options: dict[str, object] = {}


class FileProblem(msgspec.Struct, frozen=True, kw_only=True):
    """What is wrong with an object, and where. `object` and `field` are empty when not known."""

    file: str
    position: str
    object: str
    field: str
    message: str

    def __str__(self) -> str:
        parts = (self.file, self.position, self.object, self.field, self.message)
        return ": ".join(part for part in parts if part)


class Loaded(msgspec.Struct, frozen=True, kw_only=True):
    """Everything from one load. No two objects share kind, namespace and name."""

    objects: list[KubeObject]
    name: str = ""
    """Name of the Scenario; empty when there was none, or several."""
    scenario: ScenarioOptions | None = None
    problems: list[FileProblem] = []
    """What was left out. Only when loading leniently; otherwise the first problem is raised."""
    warnings: list[FileProblem] = []
    """Fields that are not used, of objects that are."""
    skipped: Counter[str] = msgspec.field(default_factory=Counter)
    """How many objects there were of kinds that have no bearing on scheduling."""
    notes: list[str] = []
    """What the user may want to know, though nothing is wrong."""
    beside: list[dict[str, Any]] = []
    """Documents of other kinds that were asked for, as they were written."""
    written: list[KubeObject] = []
    """Of the objects those that stood outside of a Scenario: manifests that people write."""
    unread: frozenset[str] = frozenset()
    """Kinds that a server did not let us read: nothing is known of them."""
