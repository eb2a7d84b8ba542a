"""The objects of a cluster, with what every real one has beside them.

Pods live in namespaces, and a dump without Namespace objects does not mean there are none: those
are added with the one label the API server gives them, and noted.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from tonnage import files
from tonnage.objects.kinds import KubeObject
from tonnage.objects.nodes import NAMESPACE_NAME, Namespace
from tonnage.objects.pods import Pod


def read(
    paths: Sequence[str | Path] | str | Path,
    *,
    lenient: bool = False,
    beside: frozenset[str] = frozenset(),
) -> files.Loaded:
    """The objects in files: paths, directories, `-` for standard input."""
    given = [paths] if isinstance(paths, str | Path) else paths
    return with_namespaces(files.load(given, lenient=lenient, beside=beside))


def with_namespaces(loaded: files.Loaded) -> files.Loaded:
    """The same with the namespaces that pods live in, if objects for them are missing."""
    assumed = _missing_namespaces(loaded.objects)
    if not assumed:
        return loaded
    names = ", ".join(one.metadata.name for one in assumed)
    note = f"no Namespace object for {names}: assumed, with no label but {NAMESPACE_NAME}"
    return msgspec.structs.replace(
        loaded, objects=[*loaded.objects, *assumed], notes=[*loaded.notes, note]
    )


def _missing_namespaces(objects: Iterable[KubeObject]) -> list[Namespace]:
    """Namespaces that pods live in and that are not among the objects."""
    lived_in: dict[str, None] = {}
    given = set()
    for obj in objects:
        if isinstance(obj, Pod):
            lived_in[obj.metadata.namespace] = None
        elif isinstance(obj, Namespace):
            given.add(obj.metadata.name)
    return [Namespace.bare(name) for name in lived_in if name not in given]
