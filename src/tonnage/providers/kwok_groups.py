"""Node groups that operators keep in a ConfigMap, as NodeGroup manifests."""

import logging

from tonnage.cluster.client import Client
from tonnage.cluster.records import ConfigMap
from tonnage.errors import InputError
from tonnage.files import yamltext
from tonnage.files.collecting import Collector
from tonnage.files.documents import Place
from tonnage.files.loaded import Loaded
from tonnage.objects.scenarios import NodeGroup

_log = logging.getLogger(__name__)


class StoredGroups:
    """The NodeGroups of a ConfigMap, which is read again by every call.

    One that cannot be used stays what it was, and the others go on without it; if none can be used,
    it is an `InputError`.
    """

    def __init__(self, client: Client, name: str, *, namespace: str) -> None:
        self._client = client
        self._name = name
        self._namespace = namespace
        self._usable: dict[str, NodeGroup] = {}
        self._told: set[str] = set()

    async def __call__(self) -> tuple[NodeGroup, ...]:
        stored = await self._client.get(ConfigMap, self._name, namespace=self._namespace)
        loaded = _loaded(stored, lenient=True)
        found = {one.metadata.name: one for one in _groups(loaded)}
        bad = {one.object.removeprefix("NodeGroup ") for one in loaded.problems}
        # In the old order, so that a group does not change its place for being misspelt.
        stay = {name: one for name, one in self._usable.items() if name in found or name in bad}
        usable = {**stay, **found}
        problems = {str(problem) for problem in loaded.problems}
        if problems and not usable:
            raise InputError("; ".join(sorted(problems)))
        for text in sorted(problems - self._told):
            _log.error("node group not read", extra={"error": text})
        self._told = problems
        self._usable = usable
        return tuple(usable.values())


def parsed(stored: ConfigMap) -> tuple[NodeGroup, ...]:
    """The NodeGroups in all keys of a ConfigMap; one that cannot be used is an `InputError`."""
    return _groups(_loaded(stored, lenient=False))


def _groups(loaded: Loaded) -> tuple[NodeGroup, ...]:
    return tuple(obj for obj in loaded.objects if isinstance(obj, NodeGroup))


def _loaded(stored: ConfigMap, *, lenient: bool) -> Loaded:
    name = f"{stored.metadata.namespace}/{stored.metadata.name}"
    collector = Collector(lenient=lenient)
    for key in sorted(stored.data):
        _collect(f"ConfigMap {name}: data.{key}", stored.data[key], collector)
    return collector.result()


def _collect(where: str, text: str, collector: Collector) -> None:
    try:
        for number, (line, part) in enumerate(yamltext.split(text.encode()), start=1):
            for document in yamltext.read(part, first_line=line):
                place = Place(file=where, document=number, tree=document)
                collector.add(document.value, place)
    except yamltext.YamlError as error:
        raise InputError(f"{where}: {error}") from error
