"""All checks together."""

from collections.abc import Callable, Iterable
from typing import TypeAlias

from tonnage.doctor import access, capacities, extenders, headroom, limits, opt_in, registration
from tonnage.doctor.evidence import Evidence
from tonnage.doctor.findings import SEVERITIES, Finding

Check: TypeAlias = Callable[[Evidence], Iterable[Finding]]

CHECKS: tuple[Check, ...] = (
    opt_in.unaware_autoscalers,
    opt_in.templates_without_driver,
    opt_in.gate_off,
    opt_in.dropped_field,
    opt_in.unknown_name,
    opt_in.annotation_only,
    opt_in.undeclared_drivers,
    registration.listed_by_templates_only,
    registration.lacking_what_siblings_have,
    limits.without_count,
    limits.differing,
    limits.against_catalogue,
    limits.exceeded,
    limits.not_positive,
    limits.without_csinode,
    headroom.nearly_full,
    headroom.without_room,
    registration.left_over,
    access.missing_rights,
    extenders.sent_whole_nodes,
    extenders.ignorable,
    capacities.without_templates,
    capacities.matching_nothing,
    capacities.far_off,
    capacities.not_published,
    capacities.label_on_real_nodes,
)


def inspect(evidence: Evidence) -> list[Finding]:
    """Every finding, the worst first, then by code and object."""
    found = [finding for check in CHECKS for finding in check(evidence)]
    return sorted(found, key=lambda one: (SEVERITIES.index(one.severity), one.code, one.object))
