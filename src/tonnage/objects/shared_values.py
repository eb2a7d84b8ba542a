"""One copy of what many pods have in common.

Replicas are decoded one by one, into separate copies of the same containers, labels and
tolerations: more than half of the memory that 150,000 pods take. Whoever keeps that many
objects passes them through here first.
"""

from typing import TypeVar

import msgspec

from tonnage.objects.meta import OwnerReference
from tonnage.objects.pods import Affinity, ContainerStatus, Pod, PodSpec

T = TypeVar("T")

_AMONG = 500_000
_BYTES = 64 << 20
"""Pods, or bytes of parts, after which parts are shared anew: those of pods that are gone go."""

_POD_NAME_LABEL = "statefulset.kubernetes.io/pod-name"
_encode = msgspec.msgpack.Encoder().encode


class SharedPods:
    """For every pod gives an equal one that shares its parts with others, for however long."""

    def __init__(self) -> None:
        self._values, self._left = SharedValues(), _AMONG

    def of(self, pod: Pod) -> Pod:
        self._left -= 1
        if self._left < 0 or self._values.size > _BYTES:
            self._values, self._left = SharedValues(), _AMONG
        return self._values.pod(pod)


class SharedValues:
    """For every pod gives an equal one, whose parts are those of the first pod that had them.

    Parts are never forgotten: start anew where pods of very many kinds come and go.
    """

    def __init__(self) -> None:
        self.size = 0
        """Bytes of all parts that are known, as encoded."""
        self._texts: dict[str, str] = {}
        self._maps: dict[bytes, dict[str, str]] = {}
        self._owners: dict[bytes, tuple[OwnerReference, ...]] = {}
        self._specs: dict[bytes, PodSpec] = {}
        self._statuses: dict[bytes, tuple[ContainerStatus, ...]] = {}

    def pod(self, pod: Pod) -> Pod:
        meta, status = pod.metadata, pod.status
        replace = msgspec.structs.replace
        return Pod(
            metadata=replace(
                meta,
                namespace=self._text(meta.namespace),
                generate_name=self._text(meta.generate_name),
                # What is one of a kind would only be kept twice.
                labels=meta.labels if _POD_NAME_LABEL in meta.labels else self._map(meta.labels),
                annotations=self._map(meta.annotations),
                owner_references=self._shared(meta.owner_references, self._owners),
            ),
            spec=self._spec(pod.spec),
            status=replace(
                status,
                phase=self._text(status.phase),
                container_statuses=self._shared(status.container_statuses, self._statuses),
            ),
        )

    def _spec(self, spec: PodSpec) -> PodSpec:
        own_affinity = spec.affinity is not None and _names_nodes(spec.affinity)
        affinity = None if own_affinity else spec.affinity
        bare = msgspec.structs.replace(spec, node_name="", volumes=(), affinity=affinity)
        common = self._shared(bare, self._specs)
        return msgspec.structs.replace(
            common,
            node_name=self._text(spec.node_name),
            volumes=spec.volumes,
            affinity=spec.affinity if own_affinity else common.affinity,
        )

    def _map(self, values: dict[str, str]) -> dict[str, str]:
        return self._shared(values, self._maps)

    def _text(self, text: str) -> str:
        return self._texts.setdefault(text, text)

    def _shared(self, part: T, known: dict[bytes, T]) -> T:
        key = _encode(part)
        found = known.get(key)
        if found is None:
            self.size += len(key)
            found = known[key] = part
        return found


def _names_nodes(affinity: Affinity) -> bool:
    """As the pods of a DaemonSet do, each another node: nothing to share there."""
    required = affinity.node_affinity.required if affinity.node_affinity else None
    return required is not None and any(term.match_fields for term in required.node_selector_terms)
