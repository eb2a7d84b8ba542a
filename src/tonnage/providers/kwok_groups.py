"""Node groups that operators keep in a ConfigMap, as NodeGroup manifests."""

from collections.abc import Iterator

from tonnage.cluster import errors
from tonnage.cluster.client import Client
from tonnage.cluster.records import ConfigMap
from tonnage.errors import InputError
from tonnage.files import yamltext
from tonnage.files.documents import DocumentPosition
from tonnage.files.loaded import FileProblem
from tonnage.files.object_collector import ObjectCollector
from tonnage.objects.scenarios import NodeGroup
from tonnage.providers.declarations import Declarations

_NAMED = "NodeGroup "
_NAMELESS = "NodeGroup (no name)"


class StoredGroups:
    """The NodeGroups of a ConfigMap, which is read again by every call."""

    def __init__(self, client: Client, name: str, *, namespace: str) -> None:
        self._client = client
        self._name = name
        self._namespace = namespace

    async def __call__(self) -> Declarations:
        try:
            stored = await self._client.get(ConfigMap, self._name, namespace=self._namespace)
        except errors.NotFound:
            problem = f"ConfigMap {self._namespace}/{self._name}: expected NodeGroups, found none"
            return Declarations((), (problem,), illegible=True)
        except InputError as error:
            return Declarations((), (str(error),), illegible=True)
        return declared(stored)


def declared(stored: ConfigMap) -> Declarations:
    """The NodeGroups in all keys of a ConfigMap. Of two with one name the first counts."""
    groups: dict[str, NodeGroup] = {}
    problems: list[str] = []
    misspelt: set[str] = set()
    illegible = False
    for place, found in _documents(stored):
        if isinstance(found, FileProblem):
            problems.append(str(found))
            if found.object.startswith(_NAMED) and found.object != _NAMELESS:
                misspelt.add(found.object.removeprefix(_NAMED))
            elif found.object in ("", _NAMELESS):
                illegible = True
        elif found.metadata.name in groups:
            name = found.metadata.name
            problems.append(f"{place}: NodeGroup {name}: declared twice; the first is used")
        else:
            groups[found.metadata.name] = found
    return Declarations(
        tuple(groups.values()),
        tuple(problems),
        frozenset(misspelt - groups.keys()),
        illegible,
    )


def _documents(stored: ConfigMap) -> Iterator[tuple[str, NodeGroup | FileProblem]]:
    """Everything in the ConfigMap that is or should have been a group, with where it stands."""
    name = stored.metadata.key
    for key in sorted(stored.data):
        where = f"ConfigMap {name}: data.{key}"
        parts = yamltext.split(stored.data[key].encode())
        for number, (line, part) in enumerate(parts, start=1):
            yield from _part(where, number, line, part)


def _part(
    where: str, number: int, line: int, part: bytes
) -> Iterator[tuple[str, NodeGroup | FileProblem]]:
    try:
        for document in yamltext.read(part, first_line=line):
            place = DocumentPosition(file=where, document=number, tree=document)
            # One for each document: two of the same name are told apart here, not by the collector.
            collector = ObjectCollector(lenient=True)
            collector.add(document.value, place)
            loaded = collector.result()
            shown = f"{where}: {place.position()}"
            yield from ((shown, problem) for problem in loaded.problems)
            yield from ((shown, obj) for obj in loaded.objects if isinstance(obj, NodeGroup))
    except yamltext.YamlError as error:
        position = f"document {number}, line {error.line}"
        yield (
            where,
            FileProblem(file=where, position=position, object="", field="", message=error.message),
        )
