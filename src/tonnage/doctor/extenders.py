"""Extenders in a KubeSchedulerConfiguration that will not do what one thinks."""

from collections.abc import Iterator
from typing import Any

from tonnage.doctor.evidence import Evidence
from tonnage.doctor.findings import Finding


def sent_whole_nodes(evidence: Evidence) -> Iterator[Finding]:
    for extender in _filtering(evidence):
        if extender.get("nodeCacheCapable") is not True:
            yield Finding(
                code="TON601",
                severity="error",
                object=_named(extender),
                message="nodeCacheCapable is not true: every request carries every Node object",
            )


def ignorable(evidence: Evidence) -> Iterator[Finding]:
    for extender in _filtering(evidence):
        if extender.get("ignorable") is True:
            yield Finding(
                code="TON602",
                severity="info",
                object=_named(extender),
                message="ignorable is true: while it does not answer, nothing it checks is checked",
            )


def _filtering(evidence: Evidence) -> Iterator[dict[str, Any]]:
    for configuration in evidence.documents("KubeSchedulerConfiguration"):
        extenders = configuration.get("extenders")
        for one in extenders if isinstance(extenders, list) else []:
            if isinstance(one, dict) and one.get("filterVerb"):
                yield one


def _named(extender: dict[str, Any]) -> str:
    return f"KubeSchedulerConfiguration extender {extender.get('urlPrefix', 'without urlPrefix')}"
