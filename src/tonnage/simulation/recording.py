"""The trace of a simulation: what its API held, change by change, and what its script did."""

from collections.abc import Callable
from pathlib import Path

import msgspec

from tonnage.clock import Clock
from tonnage.embedded.apiserver.store import Collection, Occurrence
from tonnage.objects import codec
from tonnage.objects.kinds import Kind
from tonnage.objects.scenarios import NodeGroup
from tonnage.objects.timestamps import rfc3339
from tonnage.report.timeline import Sample, Timeline
from tonnage.simulation import runner
from tonnage.simulation.ensemble import Ensemble
from tonnage.simulation.scenario import ScenarioAction, Simulation, Spec, Tree
from tonnage.traces.log import TraceLog
from tonnage.traces.pruning import pruned
from tonnage.traces.reader import KINDS
from tonnage.traces.recorder import RECORDED
from tonnage.traces.records import TraceHead
from tonnage.traces.writer import TraceWriter

_BEAT = 600.0
"""Virtual seconds between signs of life."""


class RecordedSimulation(msgspec.Struct, frozen=True, kw_only=True):
    """What was simulated, as the head of its trace has it: all but the script."""

    name: str
    spec: Spec
    groups: tuple[NodeGroup, ...] = ()
    objects: tuple[Tree, ...] = ()

    def simulation(self, script: tuple[ScenarioAction, ...], duration: float) -> Simulation:
        """The scenario again, with the script that was played."""
        spec = msgspec.structs.replace(self.spec, script=script, duration=duration)
        return Simulation(name=self.name, spec=spec, groups=self.groups, objects=self.objects)


def recorded(
    simulation: Simulation,
    path: Path,
    *,
    watch: Callable[[Sample], None] | None = None,
    ended: Callable[[Ensemble], None] | None = None,
) -> Timeline:
    """Play a scenario to its end, and write its trace."""
    recorder = SimulationRecorder(path)
    ensemble = runner.played(simulation, watch=watch, prepare=recorder.attach, ended=ended)
    recorder.close()
    return ensemble.timeline()


class SimulationRecorder:
    """Listens to an ensemble that has not begun yet; `close` when it is over."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._log: TraceLog | None = None
        self._clock: Clock | None = None
        self._began = self._beat = 0.0
        self._known = False

    def attach(self, ensemble: Ensemble) -> None:
        """As `prepare` of `runner.played`."""
        self._clock, self._began = ensemble.clock, ensemble.clock.monotonic()
        self._log = TraceLog(TraceWriter(self._path, _head(ensemble)))
        ensemble.server.store.observers.append(self._changed)
        for collection in ensemble.server.store.collections.values():
            for stored in collection.within():
                self._put(_row(collection), stored.data)
        ensemble.on_action = self._acted

    def close(self) -> None:
        """The simulation has ended as it was to."""
        if self._log is not None:
            self._complete()
            self._log.end("duration", at=self._now())

    def _changed(self, collection: Collection, occurrence: Occurrence) -> None:
        row = _row(collection)
        if row is None or self._log is None:
            return
        now = self._now()
        if now > 0:
            self._complete()
        if occurrence.after is not None:
            self._put(row, occurrence.after.data)
        else:
            gone = occurrence.subject
            name = gone.key
            self._log.remove(row, name, at=now)
        if now - self._beat >= _BEAT:
            self._beat = now
            self._log.beat(at=now)

    def _acted(self, at: float, action: ScenarioAction) -> None:
        assert self._log is not None
        self._complete()
        once = msgspec.structs.replace(action, at=at, every=None, until=None)
        self._log.act(msgspec.json.encode(once), at=at)

    def _complete(self) -> None:
        """What comes from now on was not there from the beginning."""
        if not self._known and self._log is not None:
            self._known = True
            self._log.known(at=0.0)

    def _put(self, row: Kind | None, data: bytes) -> None:
        if row is not None and self._log is not None:
            self._log.put(row, pruned(codec.decode(data, row)), at=self._now())

    def _now(self) -> float:
        assert self._clock is not None
        return self._clock.monotonic() - self._began


def _head(ensemble: Ensemble) -> TraceHead:
    simulation = ensemble.simulation
    recorded = RecordedSimulation(
        name=simulation.name,
        spec=msgspec.structs.replace(simulation.spec, script=()),
        groups=simulation.groups,
        objects=simulation.objects,
    )
    return TraceHead(
        name=simulation.name,
        started_at=rfc3339(ensemble.clock.now()),
        kubernetes_version=simulation.spec.kubernetes_version,
        node_groups=simulation.groups,
        simulation=msgspec.Raw(msgspec.json.encode(recorded)),
    )


def _row(collection: Collection) -> Kind | None:
    kind = collection.kind
    row = KINDS.get(kind.full_name)
    return row if row is not None and row.type in RECORDED else None
