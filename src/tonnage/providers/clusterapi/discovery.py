"""Which objects of the management cluster are ours: upstream's `--node-group-auto-discovery`."""

from collections.abc import Sequence

import msgspec

from tonnage.errors import InputError
from tonnage.providers.clusterapi.shapes import Scalable

PREFIX = "clusterapi:"
_FORM = "expected clusterapi:namespace=NAME,clusterName=NAME,LABEL=VALUE,..."


class Discovery(msgspec.Struct, frozen=True, kw_only=True):
    """What an object must have to be ours; what is not said may be anything."""

    namespace: str = ""
    cluster_name: str = ""
    labels: dict[str, str] = {}

    def finds(self, scalable: Scalable) -> bool:
        meta = scalable.metadata
        return (
            self.namespace in ("", meta.namespace)
            and self.cluster_name in ("", scalable.spec.cluster_name)
            and self.labels.items() <= meta.labels.items()
        )


def parse(specs: Sequence[str]) -> tuple[Discovery, ...]:
    """What the flags say; no flag finds everything. A mistake is an `InputError`."""
    return tuple(map(_parsed, specs)) or (Discovery(),)


def only_namespace(found_by: Sequence[Discovery]) -> str:
    """The one namespace in which everything of ours is, if there is one: rights end there too."""
    namespaces = {one.namespace for one in found_by}
    return namespaces.pop() if len(namespaces) == 1 else ""


def _parsed(spec: str) -> Discovery:
    if not spec.startswith(PREFIX):
        raise InputError(f"--node-group-auto-discovery {spec}: {_FORM}")
    fields: dict[str, str] = {}
    for part in filter(None, map(str.strip, spec.removeprefix(PREFIX).split(","))):
        key, separator, value = part.partition("=")
        if not separator or not key or not value:
            raise InputError(f"--node-group-auto-discovery {spec}: {part}: {_FORM}")
        if key in fields:
            raise InputError(f"--node-group-auto-discovery {spec}: {key} is given twice")
        fields[key] = value
    return Discovery(
        namespace=fields.pop("namespace", ""),
        cluster_name=fields.pop("clusterName", ""),
        labels=fields,
    )
