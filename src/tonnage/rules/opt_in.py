"""Who keeps pods off nodes that lack a CSI driver which opted in (KEP-5030).

kube-scheduler does where its gate is on. `tonnage extender` and `tonnage scheduler` do on every
version, and they alone read the annotation. Whoever plans has to know: else pods that are refused
for a missing driver are thought to fit on the nodes that lack it, and nothing is bought.
"""

from collections.abc import Iterable
from typing import Literal, TypeAlias

import msgspec

from tonnage.objects.pods import Pod
from tonnage.objects.storage import OPT_IN_ANNOTATION, CSIDriver
from tonnage.rules.features import Features

Enforcement: TypeAlias = Literal["auto", "always", "as-server"]
"""`as-server`: kube-scheduler alone; `auto`: always where the cluster shows that we enforce."""

EXTENDER = "tonnage-extender"
SCHEDULER = "tonnage-scheduler"
SCHEDULER_NAME = "tonnage"
"""The name that pods ask for `tonnage scheduler` by, unless it is given another."""

_NAME_LABEL = "app.kubernetes.io/name"


def asks(driver: CSIDriver) -> bool:
    """Whether the driver asks for it, by field or annotation, whoever listens."""
    return driver.spec.prevent_pod_scheduling_if_missing is True or _annotated(driver)


def opted_in(driver: CSIDriver | None, features: Features) -> bool:
    """Whether pods are kept off nodes that the driver is not registered on."""
    if driver is None:
        return False
    if features.enforce_opt_in and asks(driver):
        return True
    return features.volume_limit_scaling and (
        features.opt_in_by_existence or driver.spec.prevent_pod_scheduling_if_missing is True
    )


def settled(features: Features, setting: Enforcement, *, seen: str) -> Features:
    """The features with the setting applied; `seen` says why `auto` is always, empty if not."""
    if setting == "always" or (setting == "auto" and seen):
        return msgspec.structs.replace(features, enforce_opt_in=True)
    return features


def seen_in(objects: Iterable[object]) -> str:
    """What shows that our extender or scheduler enforces the opt-in; empty if nothing does."""
    enforcer = ""
    for one in objects:
        if isinstance(one, Pod):
            enforcer = enforcer or enforcing(one)
        elif isinstance(one, CSIDriver) and _annotated(one):
            return annotated([one])
    return enforcer


def remark(objects: Iterable[object], features: Features, setting: Enforcement) -> str:
    """What to say where `auto` enforces what kube-scheduler would not; empty where it does not."""
    held = list(objects)
    seen = seen_in(held)
    if setting != "auto" or not seen:
        return ""
    enforced = settled(features, setting, seen=seen)
    names = [
        one.metadata.name
        for one in held
        if isinstance(one, CSIDriver) and opted_in(one, enforced) and not opted_in(one, features)
    ]
    if not names:
        return ""
    return (
        f"pods are kept off nodes without {', '.join(names)}, though kube-scheduler alone would not"
        f" do so: {seen}"
    )


def annotated(drivers: Iterable[CSIDriver]) -> str:
    """The first driver that opted in by our annotation, which only we read."""
    name = next((one.metadata.name for one in drivers if _annotated(one)), "")
    return f"CSIDriver {name} has the annotation {OPT_IN_ANNOTATION}" if name else ""


def enforcing(pod: Pod) -> str:
    """How the pod shows that the opt-in is enforced: it is our program, or asks for it by name."""
    name = pod.metadata.labels.get(_NAME_LABEL, "")
    if name in (EXTENDER, SCHEDULER):
        return f"pod {pod.metadata.key} is {name.replace('-', ' ')}"
    if pod.spec.scheduler_name == SCHEDULER_NAME:
        return f"pod {pod.metadata.key} is for tonnage scheduler"
    return ""


def _annotated(driver: CSIDriver) -> bool:
    return driver.metadata.annotations.get(OPT_IN_ANNOTATION) == "true"
