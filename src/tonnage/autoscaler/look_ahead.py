"""Looking ahead in the live cluster: controllers and quotas, watched while it is wanted."""

from collections.abc import Iterator

from tonnage.autoscaler.config import AutoscalerConfig
from tonnage.autoscaler.world import ClusterView
from tonnage.cluster.watch_events import Change, EventType
from tonnage.groups import look_ahead
from tonnage.groups.headroom import KeptRoom
from tonnage.groups.look_ahead import ControlledPods
from tonnage.objects.pods import Pod
from tonnage.objects.quotas import ResourceQuota
from tonnage.objects.storage import PersistentVolumeClaim
from tonnage.service.wanted_kinds import WantedKinds


class LookAhead:
    """What controllers make next. Who does not look ahead needs no rights to their kinds.

    The pods of controllers are counted as the watch tells of them, from the first time on.
    """

    def __init__(self, world: ClusterView, kinds: WantedKinds) -> None:
        self._world = world
        self._kinds = kinds
        self._pods: ControlledPods | None = None

    def rooms(self, config: AutoscalerConfig, *, now: float) -> tuple[KeptRoom, ...]:
        """Room for the pods to come; none before all that says so is known."""
        if not config.look_ahead or self.hold(config) or any(self.problems(config)):
            return ()
        claims = self._world.cache(PersistentVolumeClaim)
        return look_ahead.rooms(
            [one for kind in look_ahead.CONTROLLERS for one in self._kinds.cache(kind)],
            self._controlled_pods(),
            quotas=self._kinds.cache(ResourceQuota),
            has_claim=lambda namespace, name: claims.get(name, namespace=namespace) is not None,
            now=now,
            within=config.look_ahead_time,
        )

    def hold(self, config: AutoscalerConfig) -> str:
        """Why no node may go: it is not known yet which pods are to come. Empty if it is."""
        for kind in look_ahead.KINDS if config.look_ahead else ():
            cache = self._kinds.cache(kind)
            if cache.obstacle is None and not cache.synced:
                return f"{kind.__name__} objects are not all known yet"
        return ""

    def problems(self, config: AutoscalerConfig) -> Iterator[str]:
        """Rights that are missing: without one of them nothing is looked ahead at."""
        for kind in look_ahead.KINDS if config.look_ahead else ():
            obstacle = self._kinds.cache(kind).obstacle
            if obstacle is not None:
                yield f"lookAhead: {obstacle.right}"

    def _controlled_pods(self) -> ControlledPods:
        if self._pods is None:
            cache = self._world.cache(Pod)
            self._pods = ControlledPods(cache)
            cache.subscribe(self._pod_changed)
        return self._pods

    def _pod_changed(self, change: Change[Pod]) -> None:
        assert self._pods is not None
        if change.type is EventType.DELETED:
            self._pods.drop(change.object)
        else:
            self._pods.put(change.object)
