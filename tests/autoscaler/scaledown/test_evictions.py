"""Evicting pods of a StatefulSet: one at a time, and nothing is kept of sets that are done."""

from typing import Any, cast
from unittest.mock import Mock

from tonnage.autoscaler.config import AutoscalerConfig
from tonnage.autoscaler.context import AutoscalingContext
from tonnage.autoscaler.scaledown.evictions import Evictor
from tonnage.objects.meta import OwnerReference
from tonnage.testing import builders
from tonnage.testing.clock import VirtualClock


async def test_the_lock_of_a_set_goes_with_the_last_who_waits_for_it(clock: VirtualClock) -> None:
    gone = Mock(**{"pod.return_value": None, "wants.return_value": False})
    context = AutoscalingContext(**dict.fromkeys(AutoscalingContext._fields, gone))
    evictor = Evictor(context._replace(clock=clock), gone, gone, gone)
    held: list[int] = []
    gone.wants.side_effect = lambda _: held.append(len(cast(Any, evictor)._sets))
    of_set = OwnerReference(kind="StatefulSet", name="db", uid="s", controller=True)
    pods = [builders.pod(f"db-{number}", owner=of_set) for number in range(3)]
    config = AutoscalerConfig(max_pod_eviction_time=60.0, replica_ready_timeout=60.0)
    await evictor.evict(pods, grace=30, config=config)
    assert (held, len(cast(Any, evictor)._sets)) == ([1, 1, 1], 0)
