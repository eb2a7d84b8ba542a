"""Who runs in the cluster: autoscalers, ours and others', and our own components.

Deployments are looked at only here, so their few fields are read here and not in `objects`.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from tonnage.objects.meta import LabelSelector, ObjectRecord, Record

RoleKind: TypeAlias = Literal["autoscaler", "scheduler", "extender", "capacity-templates"]

AWARE_FLAG = "--enable-csi-node-aware-scheduling"


class ProgramContainer(Record, frozen=True, kw_only=True):
    image: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()

    @property
    def line(self) -> tuple[str, ...]:
        return (*self.command, *self.args)


class ProgramPodSpec(Record, frozen=True, kw_only=True):
    service_account_name: str = "default"
    containers: tuple[ProgramContainer, ...] = ()


class ProgramTemplate(Record, frozen=True, kw_only=True):
    spec: ProgramPodSpec = ProgramPodSpec()


class ProgramDeploymentSpec(Record, frozen=True, kw_only=True):
    selector: LabelSelector | None = None
    template: ProgramTemplate = ProgramTemplate()


class ProgramDeployment(ObjectRecord, frozen=True, kw_only=True):
    spec: ProgramDeploymentSpec = ProgramDeploymentSpec()


class RunningProgram(Record, frozen=True, kw_only=True):
    """A Deployment that matters: what it is, and whether it counts CSI drivers of new nodes."""

    deployment: str
    namespace: str
    service_account: str
    name: str
    does: RoleKind
    ours: bool
    csi_aware: bool


def recognised(deployments: Iterable[ProgramDeployment]) -> list[RunningProgram]:
    """The ones we know, in the order they came."""
    return [found for deployment in deployments if (found := _recognised(deployment)) is not None]


def decoded(documents: Iterable[dict[str, Any]]) -> list[ProgramDeployment]:
    """Deployments among documents of any kind; one that makes no sense runs nothing we know."""
    found = []
    for document in documents:
        if document.get("kind") == "Deployment":
            try:
                found.append(msgspec.convert(document, ProgramDeployment))
            except msgspec.ValidationError:
                continue
    return found


def _recognised(deployment: ProgramDeployment) -> RunningProgram | None:
    for container in deployment.spec.template.spec.containers:
        said = _identified(container)
        if said is not None:
            name, does, ours, aware = said
            meta = deployment.metadata
            return RunningProgram(
                deployment=f"{meta.namespace or 'default'}/{meta.name}",
                namespace=meta.namespace or "default",
                service_account=deployment.spec.template.spec.service_account_name,
                name=name,
                does=does,
                ours=ours,
                csi_aware=aware,
            )
    return None


def _identified(container: ProgramContainer) -> tuple[str, RoleKind, bool, bool] | None:
    line = container.line
    words = {word.rpartition("/")[2] for word in line[:2]}
    image = container.image.rpartition("/")[2].partition(":")[0].partition("@")[0]
    if image == "tonnage" or "tonnage" in words:
        for does in ("scheduler", "extender", "capacity-templates"):
            if does in line:
                return f"tonnage {does}", does, True, True
        if "run" in line:
            return "tonnage run", "autoscaler", True, _switched(line, default=True)
        return None
    if image == "cluster-autoscaler" or "cluster-autoscaler" in words:
        return "cluster-autoscaler", "autoscaler", False, _switched(line, default=False)
    if image in ("karpenter", "controller") and "karpenter" in container.image:
        # It counts limits of nodes there are and never reads CSIDriver objects.
        return "Karpenter", "autoscaler", False, False
    return None


def _switched(line: Sequence[str], *, default: bool) -> bool:
    """Whether the flag is on; alone it says yes."""
    value = default
    for word in line:
        name, _, given = word.partition("=")
        if name == AWARE_FLAG:
            value = given.lower() not in ("false", "f", "0")
    return value
