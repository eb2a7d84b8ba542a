"""Node groups that operators keep in a ConfigMap, as NodeGroup manifests."""

from tonnage.cluster.client import Client
from tonnage.cluster.records import ConfigMap
from tonnage.errors import InputError
from tonnage.files import yamltext
from tonnage.files.collecting import Collector
from tonnage.files.documents import Place
from tonnage.objects.scenarios import NodeGroup


async def from_config_map(client: Client, name: str, *, namespace: str) -> tuple[NodeGroup, ...]:
    """The NodeGroups in all keys of a ConfigMap; one that cannot be used is an `InputError`."""
    return parsed(await client.get(ConfigMap, name, namespace=namespace))


def parsed(stored: ConfigMap) -> tuple[NodeGroup, ...]:
    """The same of a ConfigMap that is at hand."""
    name = f"{stored.metadata.namespace}/{stored.metadata.name}"
    collector = Collector(lenient=False)
    for key in sorted(stored.data):
        _collect(f"ConfigMap {name}: data.{key}", stored.data[key], collector)
    return tuple(obj for obj in collector.result().objects if isinstance(obj, NodeGroup))


def _collect(where: str, text: str, collector: Collector) -> None:
    try:
        for number, (line, part) in enumerate(yamltext.split(text.encode()), start=1):
            for document in yamltext.read(part, first_line=line):
                place = Place(file=where, document=number, tree=document)
                collector.add(document.value, place)
    except yamltext.YamlError as error:
        raise InputError(f"{where}: {error}") from error
