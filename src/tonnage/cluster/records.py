"""Kinds that exist only between us and an API server: no decision reads them."""

from tonnage.objects.meta import ObjectMeta, Record


class ConfigMap(Record, frozen=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()
    data: dict[str, str] = {}


class InvolvedObject(Record, frozen=True, kw_only=True, cache_hash=True):
    """The object an event is about."""

    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""


class EventSource(Record, frozen=True, kw_only=True):
    component: str = ""


class Event(Record, frozen=True, kw_only=True):
    """The core group's Event: what `kubectl describe` and most collectors read."""

    metadata: ObjectMeta = ObjectMeta()
    involved_object: InvolvedObject = InvolvedObject()
    type: str = ""
    reason: str = ""
    message: str = ""
    source: EventSource = EventSource()
    count: int = 0
    first_timestamp: str | None = None
    last_timestamp: str | None = None
    reporting_component: str = ""
    reporting_instance: str = ""


class ScaleSpec(Record, frozen=True, kw_only=True):
    replicas: int = 0


class ScaleStatus(Record, frozen=True, kw_only=True):
    replicas: int = 0


class Scale(Record, frozen=True, kw_only=True):
    """The `scale` subresource, the same for every kind that has one."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ScaleSpec = ScaleSpec()
    status: ScaleStatus = ScaleStatus()
