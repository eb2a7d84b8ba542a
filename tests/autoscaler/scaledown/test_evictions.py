"""Evicting pods of a StatefulSet: one at a time, and nothing is kept of sets that are done."""

from typing import Any, cast
from unittest.mock import Mock

from tonnage.autoscaler.scaledown.evictions import EvictionPatience, Evictor
from tonnage.objects.meta import OwnerReference
from tonnage.testing import builders
from tonnage.testing.clock import VirtualClock


async def test_the_lock_of_a_set_goes_with_the_last_who_waits_for_it(clock: VirtualClock) -> None:
    gone = Mock(**{"pod.return_value": None, "wants.return_value": False})
    evictor = Evictor(gone, gone, gone, client=gone, clock=clock, metrics=gone, surges=gone)
    held: list[int] = []
    gone.wants.side_effect = lambda _: held.append(len(cast(Any, evictor)._sets))
    of_set = OwnerReference(kind="StatefulSet", name="db", uid="s", controller=True)
    pods = [builders.pod(f"db-{number}", owner=of_set) for number in range(3)]
    await evictor.evict(pods, grace=30, patience=EvictionPatience(eviction=60.0, replica=60.0))
    assert (held, len(cast(Any, evictor)._sets)) == ([1, 1, 1], 0)
