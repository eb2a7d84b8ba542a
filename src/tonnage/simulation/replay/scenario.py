"""From a trace and settings to a scenario, and to two runs: what happened, and what would have."""

import zlib
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from tonnage.clock import virtual
from tonnage.embedded.cloud import CloudBehaviour
from tonnage.embedded.world import Delay, WorldBehaviour
from tonnage.errors import InputError
from tonnage.groups import passing_taints
from tonnage.groups.policy import GroupPolicy
from tonnage.objects import timestamps
from tonnage.objects.nodes import NodeSpec
from tonnage.objects.scenarios import GroupTemplate, NodeGroup
from tonnage.objects.storage import CSINode
from tonnage.report.timeline import Sample, Timeline
from tonnage.simulation import comparison, runner
from tonnage.simulation.ensemble import Ensemble
from tonnage.simulation.recording import RecordedSimulation
from tonnage.simulation.replay import ordinals
from tonnage.simulation.replay.given import GivenReader
from tonnage.simulation.replay.happened import happened
from tonnage.simulation.replay.measured import WorldMeasurements
from tonnage.simulation.replay.membership import GroupMembership, typed_node
from tonnage.simulation.replay.pod_keeper import PodKeeper
from tonnage.simulation.scenario import ScenarioAction, Simulation, Spec
from tonnage.traces.reader import TraceEvent, TraceFiles

MACHINE_START = Delay(60.0)
"""From a request to the Node: no watch shows requests, so it is assumed."""


class ReplaySettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a replay does otherwise than what was recorded. Nothing given is nothing changed.

    `world` and `cloud` are fields of theirs, as a Simulation file has them.
    """

    options: Mapping[str, Any] = {}
    node_groups: tuple[NodeGroup, ...] = ()
    kubernetes_version: str = ""
    feature_gates: Mapping[str, bool] = {}
    scheduler: Mapping[str, Any] = {}
    world: Mapping[str, Any] = {}
    cloud: Mapping[str, Any] = {}
    seed: int | None = None
    until: float | None = None


class Replay(msgspec.Struct, frozen=True, kw_only=True):
    """A scenario made of a trace; `notes` are what a reader of its figures should know."""

    simulation: Simulation
    start: datetime
    notes: tuple[str, ...] = ()
    keeps_pods: bool = False


def replayed(trace: TraceFiles, settings: ReplaySettings) -> Replay:
    """The scenario that plays a trace with these settings."""
    if trace.head.simulation is not msgspec.UNSET:
        return _of_simulation(trace, settings)
    return _of_cluster(trace, settings)


def play(
    replay: Replay,
    *,
    label: str = "",
    watch: Callable[[Sample], None] | None = None,
    ended: Callable[[Ensemble], None] | None = None,
) -> Timeline:
    """The replay's course."""

    def prepare(ensemble: Ensemble) -> None:
        if replay.keeps_pods:
            PodKeeper(ensemble)

    ensemble = runner.played(
        replay.simulation,
        label=label,
        watch=watch,
        prepare=prepare,
        ended=ended,
        start=replay.start,
    )
    timeline = ensemble.timeline()
    return msgspec.structs.replace(timeline, problems=(*timeline.problems, *replay.notes))


def compared(
    trace: TraceFiles,
    settings: ReplaySettings,
    *,
    watch: Callable[[Sample], None] | None = None,
    ended: Callable[[Ensemble], None] | None = None,
) -> tuple[Timeline, Timeline]:
    """What happened, and what would have with these settings."""
    replay = replayed(trace, settings)
    spec = replay.simulation.spec
    recorded_groups = trace.head.node_groups or replay.simulation.groups
    first = happened(
        trace,
        recorded_groups,
        world=spec.world,
        asked_before=(spec.cloud.start.least + max(spec.cloud.start.most, spec.cloud.start.least))
        / 2,
        stuck_after=spec.stuck_after,
        until=settings.until,
        sample_every=spec.sample_every,
    )
    return first, play(replay, label="replayed", watch=watch, ended=ended)


# Of a simulation


def _of_simulation(trace: TraceFiles, settings: ReplaySettings) -> Replay:
    try:
        recorded = msgspec.json.decode(trace.head.simulation, type=RecordedSimulation)  # type: ignore[arg-type]
        script = [
            msgspec.json.decode(event.action, type=ScenarioAction)
            for event in trace.events()
            if event.action
        ]
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise InputError(f"the simulation in the trace cannot be read: {error}") from None
    duration = recorded.spec.duration
    notes: tuple[str, ...] = ()
    if trace.cut:
        duration, notes = min(duration, trace.duration), (_cut(trace),)
    simulation = recorded.simulation(tuple(script), max(duration, 1.0))
    return Replay(
        simulation=_changed(simulation, settings),
        start=virtual.START,
        notes=notes,
    )


# Of a cluster


def _of_cluster(trace: TraceFiles, settings: ReplaySettings) -> Replay:
    head = trace.head
    began = timestamps.parse(head.started_at)
    recorded = head.node_groups or settings.node_groups
    membership = GroupMembership(recorded)
    reader = GivenReader(membership, began=began)
    measured = WorldMeasurements(membership.of)
    examples = _GroupExamples(membership)
    events = trace.events()
    if head.anonymised:
        events = ordinals.restored(trace)
    for event in events:
        reader.feed(event)
        measured.feed(event)
        examples.feed(event)
    course = reader.course()
    nodes = {tree["metadata"]["name"] for tree in course.objects if tree["kind"] == "Node"}
    groups = settings.node_groups or head.node_groups
    spec = Spec(
        description=f"replay of what was recorded from {head.started_at}",
        # A seed that nobody else uses: uids drawn with the recorded ones' would be theirs again.
        seed=zlib.crc32(f"replay of {head.name} from {head.started_at}".encode()),
        duration=max(trace.duration, 1.0),
        kubernetes_version=head.kubernetes_version,
        world=measured.world(),
        cloud=CloudBehaviour(start=MACHINE_START),
        script=course.script,
    )
    simulation = Simulation(
        name=head.name,
        spec=spec,
        groups=tuple(examples.completed(group, nodes) for group in groups),
        objects=course.objects,
    )
    return Replay(
        simulation=_changed(simulation, settings, own_groups=False),
        start=datetime.fromtimestamp(began, UTC),
        notes=tuple(_notes(trace, measured, groups)),
        keeps_pods=True,
    )


def _notes(
    trace: TraceFiles, measured: WorldMeasurements, groups: Sequence[NodeGroup]
) -> list[str]:
    found = []
    if trace.cut:
        found.append(_cut(trace))
    if not groups:
        found.append("the trace has no node groups: nothing can be bought; give --node-groups")
    if measured.assumed:
        found.append(
            f"the trace shows no case of {', '.join(measured.assumed)}: taken as usual; --world"
            " says otherwise"
        )
    if trace.head.unread:
        found.append(f"kinds that could not be recorded: {', '.join(trace.head.unread)}")
    if trace.skipped:
        found.append(f"lines about kinds that are not known here: {trace.skipped:,}")
    return found


def _cut(trace: TraceFiles) -> str:
    return f"the trace is cut off after {trace.duration:,.0f} s; it is played up to there"


def _changed(
    simulation: Simulation, settings: ReplaySettings, *, own_groups: bool = True
) -> Simulation:
    spec = simulation.spec
    changes: dict[str, Any] = {}
    if settings.kubernetes_version:
        changes["kubernetes_version"] = settings.kubernetes_version
    if settings.feature_gates:
        changes["feature_gates"] = {**spec.feature_gates, **settings.feature_gates}
    if settings.scheduler:
        changes["scheduler"] = {**spec.scheduler, **settings.scheduler}
    if settings.seed is not None:
        changes["seed"] = settings.seed
    if settings.until is not None:
        changes["duration"] = min(settings.until, spec.duration)
    changes["world"] = _with(spec.world, settings.world, WorldBehaviour, "world")
    changes["cloud"] = _with(spec.cloud, settings.cloud, CloudBehaviour, "cloud")
    duration = changes.get("duration", spec.duration)
    changes["script"] = tuple(one for one in spec.script if one.at <= duration)
    changed = msgspec.structs.replace(simulation, spec=msgspec.structs.replace(spec, **changes))
    if settings.node_groups and own_groups:
        changed = msgspec.structs.replace(changed, groups=settings.node_groups)
    return comparison.with_options(changed, dict(settings.options))


def _with(behaviour: Any, fields: Mapping[str, Any], type_: type[Any], where: str) -> Any:
    """A behaviour with other values for some of its fields."""
    if not fields:
        return behaviour
    whole = {**msgspec.to_builtins(behaviour), **fields}
    try:
        return msgspec.convert(whole, type_)
    except msgspec.ValidationError as error:
        raise InputError(f"{where}: {error}") from None


class _GroupExamples:
    """What nodes of each group look like, for groups that have no template."""

    def __init__(self, membership: GroupMembership) -> None:
        self._membership = membership
        self._nodes: dict[str, dict[str, Any]] = {}
        self._csi_nodes: dict[str, dict[str, Any]] = {}
        self._members: defaultdict[str, set[str]] = defaultdict(set)

    def feed(self, event: TraceEvent) -> None:
        if event.kind is None or event.after is None:
            return
        if event.kind.plural == "nodes":
            group = self._membership.of(event.name, event.after)
            if group:
                self._nodes[group] = event.after
                self._members[group].add(event.name)
        elif event.kind.plural == "csinodes":
            self._csi_nodes[event.name] = event.after

    def completed(self, group: NodeGroup, nodes: set[str]) -> NodeGroup:
        """The group with a template, and with those of its nodes that the replay begins with."""
        spec = group.spec
        there = tuple(name for name in spec.nodes if name in nodes)
        if not spec.nodes and spec.node_selector is None:
            there = tuple(sorted(nodes & self._members[group.metadata.name]))
        spec = msgspec.structs.replace(spec, nodes=there, target_size=None)
        example = self._nodes.get(group.metadata.name)
        if spec.template is None and example is not None:
            spec = msgspec.structs.replace(spec, template=self._template(example))
        return msgspec.structs.replace(group, spec=spec)

    def _template(self, tree: dict[str, Any]) -> GroupTemplate:
        node = typed_node(tree)
        csi = self._csi_nodes.get(node.metadata.name)
        taints = passing_taints.lasting(node.spec.taints, GroupPolicy())
        plain = {key: one for key, one in (csi or {}).items() if key not in ("apiVersion", "kind")}
        return GroupTemplate(
            node=msgspec.structs.replace(node, spec=NodeSpec(taints=taints)),
            csi_node=msgspec.convert(plain, CSINode) if csi is not None else None,
        )
