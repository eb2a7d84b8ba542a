"""All checks together."""

from collections.abc import Callable, Iterable
from typing import TypeAlias

from tonnage.doctor import access, capacities, extenders, limits, optin, startup
from tonnage.doctor.evidence import Evidence
from tonnage.doctor.findings import SEVERITIES, Finding

Check: TypeAlias = Callable[[Evidence], Iterable[Finding]]

CHECKS: tuple[Check, ...] = (
    optin.unaware_autoscalers,
    optin.templates_without_driver,
    optin.gate_off,
    optin.dropped_field,
    optin.unknown_name,
    optin.annotation_only,
    optin.undeclared_drivers,
    limits.without_count,
    limits.differing,
    limits.against_catalogue,
    limits.exceeded,
    limits.not_positive,
    limits.without_csinode,
    startup.left_over,
    access.missing_rights,
    extenders.sent_whole_nodes,
    extenders.ignorable,
    capacities.without_templates,
    capacities.matching_nothing,
    capacities.far_off,
)


def inspect(evidence: Evidence) -> list[Finding]:
    """Every finding, the worst first, then by code and object."""
    found = [finding for check in CHECKS for finding in check(evidence)]
    return sorted(found, key=lambda one: (SEVERITIES.index(one.severity), one.code, one.object))
