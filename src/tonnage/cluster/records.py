"""Kinds that exist only between us and an API server: no decision reads them."""

from tonnage.objects.meta import ObjectRecord, Record


class ConfigMap(ObjectRecord, frozen=True, kw_only=True):
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


class Event(ObjectRecord, frozen=True, kw_only=True):
    """The core group's Event: what `kubectl describe` and most collectors read."""

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


class Scale(ObjectRecord, frozen=True, kw_only=True):
    """The `scale` subresource, the same for every kind that has one."""

    spec: ScaleSpec = ScaleSpec()
    status: ScaleStatus = ScaleStatus()
