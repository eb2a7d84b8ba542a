"""Drivers that opted in: does everybody who should know, know? And drivers nobody declared."""

from collections.abc import Iterator
from typing import Any

import msgspec

from tonnage.doctor.evidence import Evidence
from tonnage.doctor.findings import Finding
from tonnage.groups import drivers
from tonnage.objects.codec import UNDECODABLE
from tonnage.objects.storage import (
    OPT_IN_ALIAS,
    OPT_IN_ANNOTATION,
    OPT_IN_FIELD,
    CSIDriver,
    StorageClass,
)
from tonnage.rules import opt_in

_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_IN_TREE = "kubernetes.io/"


def unaware_autoscalers(evidence: Evidence) -> Iterator[Finding]:
    names = [driver.metadata.name for driver in evidence.opted_in]
    for program in evidence.programs:
        if program.does == "autoscaler" and not program.csi_aware and names:
            yield Finding(
                code="TON101",
                severity="error",
                object=f"Deployment {program.deployment}",
                message=f"{program.name} does not count CSI drivers of new nodes, and"
                f" {', '.join(names)} opted in",
                facts={"drivers": names},
            )


def templates_without_driver(evidence: Evidence) -> Iterator[Finding]:
    for driver in evidence.opted_in:
        name = driver.metadata.name
        for group in evidence.inputs.groups:
            template = evidence.templates.get(group.id)
            if template is not None and name not in drivers.by_name(template.csinode):
                yield Finding(
                    code="TON102",
                    severity="warning",
                    object=f"NodeGroup {group.id}",
                    message=f"a new node would not have {name}, which opted in: pods with its"
                    " volumes cannot make the group grow",
                    facts={"driver": name},
                )


def gate_off(evidence: Evidence) -> Iterator[Finding]:
    if evidence.features.volume_limit_scaling or evidence.enforced:
        return
    version = ".".join(map(str, evidence.features.version))
    for driver in evidence.opted_in:
        yield Finding(
            code="TON103",
            severity="error",
            object=f"CSIDriver {driver.metadata.name}",
            message=f"opted in, and kube-scheduler {version} does not look at it: the gate"
            " VolumeLimitScaling is off",
        )


def dropped_field(evidence: Evidence) -> Iterator[Finding]:
    for driver in evidence.of(CSIDriver):
        wanted = _applied(driver).get(OPT_IN_FIELD) is True
        if wanted and not opt_in.asks(driver):
            yield Finding(
                code="TON104",
                severity="error",
                object=f"CSIDriver {driver.metadata.name}",
                message=f"applied with {OPT_IN_FIELD}: true, and the object does not have it",
            )


def unknown_name(evidence: Evidence) -> Iterator[Finding]:
    for driver in evidence.of(CSIDriver):
        written = driver.spec.prevent_pod_placement_without_driver is not None
        dropped = _applied(driver).get(OPT_IN_ALIAS) is True and not opt_in.asks(driver)
        if written or dropped:
            yield Finding(
                code="TON106",
                severity="error",
                object=f"CSIDriver {driver.metadata.name}",
                message=f"{'applied' if dropped else 'written'} with {OPT_IN_ALIAS}, which no API"
                f" server knows: the field is {OPT_IN_FIELD}",
            )


def annotation_only(evidence: Evidence) -> Iterator[Finding]:
    if evidence.enforced:
        return
    for driver in evidence.opted_in:
        if driver.spec.prevent_pod_scheduling_if_missing is not True:
            yield Finding(
                code="TON105",
                severity="warning",
                object=f"CSIDriver {driver.metadata.name}",
                message=f"opted in by the annotation {OPT_IN_ANNOTATION} alone, and neither"
                " tonnage extender nor tonnage scheduler was found",
            )


def undeclared_drivers(evidence: Evidence) -> Iterator[Finding]:
    known = {driver.metadata.name for driver in evidence.of(CSIDriver)}
    for one in evidence.of(StorageClass):
        name = one.provisioner
        if name and name not in known and not name.startswith(_IN_TREE):
            yield Finding(
                code="TON201",
                severity="warning",
                object=f"StorageClass {one.metadata.name}",
                message=f"there is no CSIDriver {name}",
                facts={"driver": name},
            )


def _applied(driver: CSIDriver) -> dict[str, Any]:
    """The spec that was last applied, where kubectl left a note of it."""
    try:
        document = msgspec.json.decode(driver.metadata.annotations.get(_LAST_APPLIED, ""))
        spec = document["spec"]
    except (*UNDECODABLE, KeyError, TypeError):
        return {}
    return spec if isinstance(spec, dict) else {}
