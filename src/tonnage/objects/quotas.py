"""ResourceQuota: how much a namespace may have in all."""

from tonnage.objects.meta import ObjectRecord, Record, ResourceList


class QuotaScopeRequirement(Record, frozen=True, kw_only=True):
    scope_name: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class QuotaScopeSelector(Record, frozen=True, kw_only=True):
    match_expressions: tuple[QuotaScopeRequirement, ...] = ()


class ResourceQuotaSpec(Record, frozen=True, kw_only=True):
    hard: ResourceList = {}
    scopes: tuple[str, ...] = ()
    scope_selector: QuotaScopeSelector | None = None


class ResourceQuotaStatus(Record, frozen=True, kw_only=True):
    hard: ResourceList = {}
    used: ResourceList = {}


class ResourceQuota(ObjectRecord, frozen=True, kw_only=True):
    spec: ResourceQuotaSpec = ResourceQuotaSpec()
    status: ResourceQuotaStatus = ResourceQuotaStatus()
