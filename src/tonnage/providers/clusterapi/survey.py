"""From objects to node groups: who belongs to whom, what may be scaled, and what is wrong."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from tonnage.groups.model import Group
from tonnage.objects.meta import ObjectMeta
from tonnage.objects.nodes import Node
from tonnage.objects.scenarios import GroupTemplate
from tonnage.providers.clusterapi import machines as states
from tonnage.providers.clusterapi import templates
from tonnage.providers.clusterapi.annotations import Annotations, Keys, Sizes
from tonnage.providers.clusterapi.discovery import Discovery
from tonnage.providers.clusterapi.infrastructure import NOTHING
from tonnage.providers.clusterapi.machines import Key, Nodes
from tonnage.providers.clusterapi.management import Management
from tonnage.providers.clusterapi.shapes import (
    MACHINE_DEPLOYMENT,
    MACHINE_POOL,
    MACHINE_SET,
    ApiMachine,
    InfrastructureStatus,
    Scalable,
)
from tonnage.providers.protocol import GroupOptions, Instance

REVISION = "machinedeployment.clusters.x-k8s.io/revision"

_Owner: TypeAlias = tuple[str, str, str]
"""Kind, namespace and name."""


class SurveyedGroup(NamedTuple):
    """A group with all that is known of it.

    `frozen_reason` says why it may not be scaled, `unchoosable` why none of its machines may be
    chosen for deletion; both are empty as a rule. `machine_of` has the names and ids by which
    machines are meant, `going` those on their way out.
    """

    kind: str
    scalable: Scalable
    group: Group
    frozen_reason: str
    unchoosable: str
    instances: tuple[Instance, ...]
    machine_of: Mapping[str, ApiMachine]
    going: frozenset[Key]
    template: GroupTemplate | None
    price: float | None
    options: GroupOptions


def candidates(
    management: Management, found_by: Sequence[Discovery], *, keys: Keys
) -> Iterator[tuple[str, Scalable]]:
    """The objects that are node groups of ours, or were meant to be."""
    for kind, scalable in _scalables(management):
        annotated = scalable.metadata.annotations
        sized = keys.min_size in annotated or keys.max_size in annotated
        if sized and any(one.finds(scalable) for one in found_by):
            yield kind, scalable


def identifier(kind: str, scalable: Scalable) -> str:
    return f"{kind}/{scalable.metadata.key}"


class Survey:
    """One look at everything; what it finds does not change afterwards."""

    def __init__(
        self, management: Management, nodes: Iterable[Node], *, keys: Keys, architecture: str
    ) -> None:
        self._management = management
        self._keys = keys
        self._architecture = architecture
        self._nodes = Nodes(nodes, keys=keys)
        self._sets: dict[_Owner, list[Scalable]] = defaultdict(list)
        """The MachineSets of a MachineDeployment."""
        self._machines = self._members()

    def found(
        self, kind: str, scalable: Scalable, *, infrastructure: InfrastructureStatus = NOTHING
    ) -> SurveyedGroup | None:
        """The group, or `None` if its annotations say that it is none: a maximum of 0."""
        name = identifier(kind, scalable)
        read = Annotations(scalable.metadata.annotations, keys=self._keys)
        sizes = read.sizes()
        if sizes is not None and sizes.most == 0:
            return None
        halted = self._halted(scalable)
        still = halted or ("" if sizes else "its sizes cannot be used")
        members = self._machines[kind, scalable.metadata.namespace, scalable.metadata.name]
        replicas = scalable.spec.replicas
        going = states.leaving(members, replicas, keys=self._keys)
        machine_of: dict[str, ApiMachine] = {}
        own: list[Node] = []
        instances: list[Instance] = []
        for machine in members:
            node = self._nodes.of_machine(machine)
            leaves = states.key_of(machine) in going
            one = states.instance(
                machine, node=node.metadata.name if node is not None else "", going=leaves
            )
            instances.append(one)
            machine_of[one.id] = machine
            if node is not None:
                own.append(node)
                machine_of[node.metadata.name] = machine
        for provider_id in self._listed(scalable, members):
            node = self._nodes.of_id(provider_id)
            named = node.metadata.name if node is not None else ""
            instances.append(Instance(id=provider_id, state="running", node=named))
            if node is not None:
                own.append(node)
        if not halted:
            # Asked for, and not yet so much as a Machine.
            missing = replicas - (len(instances) - len(going))
            instances += [
                Instance(id=f"{name}/not-created-{n}", state="creating") for n in range(missing)
            ]
        template = templates.template(
            scalable,
            read.capacity(),
            infrastructure=infrastructure,
            example=own[0] if own else None,
            architecture=self._architecture,
        )
        price, options = read.price(), read.options()
        problems = [*([f"not scaled: {still}"] if still else []), *read.problems]
        # Where everything is halted, nothing comes that was asked for; a group counts as it is.
        target = len(own) if halted else replicas
        bounds = sizes if sizes is not None and not still else Sizes(target, target)
        return SurveyedGroup(
            kind=kind,
            scalable=scalable,
            group=Group(
                id=name,
                min_size=bounds.least,
                max_size=bounds.most,
                target=target,
                nodes=tuple(node.metadata.name for node in own),
                price_per_hour=price,
                problems=tuple(f"group {name}: {problem}" for problem in problems),
            ),
            frozen_reason=still,
            unchoosable=self._unchoosable(kind, scalable),
            instances=tuple(instances),
            machine_of=machine_of,
            going=frozenset(going),
            template=template,
            price=price,
            options=options,
        )

    def _members(self) -> dict[_Owner, list[ApiMachine]]:
        """Machines by the object that is scaled: a MachineSet's are its MachineDeployment's."""
        above: dict[Key, str] = {}
        for one in self._management.machine_sets():
            meta = one.metadata
            deployment = _owner(meta, MACHINE_DEPLOYMENT)
            if deployment:
                above[meta.namespace, meta.name] = deployment
                self._sets[MACHINE_DEPLOYMENT, meta.namespace, deployment].append(one)
        members: dict[_Owner, list[ApiMachine]] = defaultdict(list)
        for machine in self._management.machines():
            meta = machine.metadata
            if pool := _owner(meta, MACHINE_POOL):
                members[MACHINE_POOL, meta.namespace, pool].append(machine)
            elif owner := _owner(meta, MACHINE_SET):
                deployment = above.get((meta.namespace, owner), "")
                kind = MACHINE_DEPLOYMENT if deployment else MACHINE_SET
                members[kind, meta.namespace, deployment or owner].append(machine)
        for some in members.values():
            some.sort(key=states.key_of)
        return members

    def _halted(self, scalable: Scalable) -> str:
        """Why nobody makes or deletes its machines now, if so."""
        meta = scalable.metadata
        if meta.deletion_timestamp is not None:
            return "it is being deleted"
        if self._keys.paused in meta.annotations:
            return f"it is paused by annotation {self._keys.paused}"
        name = scalable.spec.cluster_name
        cluster = self._management.cluster(name, namespace=meta.namespace) if name else None
        if cluster is None:
            return ""
        if cluster.metadata.deletion_timestamp is not None:
            return f"its Cluster {name} is being deleted"
        if cluster.spec.paused or self._keys.paused in cluster.metadata.annotations:
            return f"its Cluster {name} is paused"
        return ""

    def _unchoosable(self, kind: str, scalable: Scalable) -> str:
        """While a MachineDeployment replaces its machines, it chooses itself which ones go."""
        meta = scalable.metadata
        sets = self._sets.get((kind, meta.namespace, meta.name), ())
        newest = max(map(_revision, sets), default=0)
        if any(one.spec.replicas and _revision(one) != newest for one in sets):
            return "it is rolling out, and chooses itself which machines go"
        return ""

    def _listed(self, pool: Scalable, members: Iterable[ApiMachine]) -> Iterator[str]:
        """The ids of a MachinePool that no Machine stands for."""
        stood_for = {states.normalized(member.spec.provider_id) for member in members}
        for provider_id in pool.spec.provider_id_list:
            if states.normalized(provider_id) not in stood_for:
                yield provider_id


def _scalables(management: Management) -> Iterator[tuple[str, Scalable]]:
    for one in management.machine_deployments():
        yield MACHINE_DEPLOYMENT, one
    for one in management.machine_sets():
        if not _owner(one.metadata, MACHINE_DEPLOYMENT):
            yield MACHINE_SET, one
    for one in management.machine_pools():
        yield MACHINE_POOL, one


def _owner(meta: ObjectMeta, kind: str) -> str:
    return next(
        (reference.name for reference in meta.owner_references if reference.kind == kind), ""
    )


def _revision(machine_set: Scalable) -> int:
    text = machine_set.metadata.annotations.get(REVISION, "")
    return int(text) if text.isdigit() else 0
