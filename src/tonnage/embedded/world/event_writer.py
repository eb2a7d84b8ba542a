"""What users read when a volume does not come: warnings on their claims and pods.

A real cluster tells it by Events, each under the name of the component that knows; without them a
pod that waits for a driver looks like one that is just slow. Only warnings are written: telling
every success too would make a simulated day write half as many objects again.
"""

import asyncio
from collections.abc import Callable
from itertools import count

from tonnage.cluster.events import Limits, Recorder, Severity
from tonnage.cluster.resources import Named
from tonnage.embedded.world.keyed_tasks import WorldContext
from tonnage.objects.pods import Pod
from tonnage.objects.storage import PersistentVolumeClaim

_PROVISIONER, _ATTACHER, _KUBELET = (
    "external-provisioner",
    "attachdetach-controller",
    "kubelet",
)
_LIMITS = Limits(burst=2, seconds_per_event=300.0)
"""What is tried every second is not told every second."""


class EventWriter:
    """Says each thing about an object once, then every five minutes for as long as it lasts."""

    def __init__(self, context: WorldContext) -> None:
        self._recorders = {
            component: Recorder(
                context.client,
                component=component,
                instance="tonnage-world",
                clock=context.clock,
                new_id=_ids(context),
                limits=_LIMITS,
            )
            for component in (_PROVISIONER, _ATTACHER, _KUBELET)
        }

    def provisioning_failed(self, claim: PersistentVolumeClaim, problem: str) -> None:
        """No volume can be made for the claim."""
        self._say(_PROVISIONER, claim, "ProvisioningFailed", problem)

    def attach_failed(self, pod: Pod, problem: str) -> None:
        """A volume of the pod cannot be attached to its node."""
        self._say(_ATTACHER, pod, "FailedAttachVolume", problem)

    def mount_failed(self, pod: Pod, problem: str) -> None:
        """A volume of the pod cannot be mounted on its node."""
        self._say(_KUBELET, pod, "FailedMount", problem)

    async def run(self) -> None:
        """Write what is said until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for recorder in self._recorders.values():
                tasks.create_task(recorder.run())

    def _say(self, component: str, about: Named, reason: str, message: str) -> None:
        self._recorders[component].record(
            about, reason=reason, message=message, severity=Severity.WARNING
        )


def _ids(context: WorldContext) -> Callable[[], str]:
    """Names of events that differ from those of an earlier world on the same server."""
    numbers = count()
    return lambda: f"{int(context.clock.now().timestamp() * 1e6):x}{next(numbers):x}"
