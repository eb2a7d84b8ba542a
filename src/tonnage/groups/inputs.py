"""Everything that a decision is made from, as one value.

Templates, readiness, scale-up and scale-down take `Inputs` and nothing else of the cluster. Of the
objects in a file `Inputs.of_objects(objects, options=..., features=..., now=...)` makes one; a live
caller puts the state that its watch feeds into `cluster`. Then:

    assessed = assessment.assess(inputs)       # tonnage.scaleup: templates, readiness, who waits
    inputs.cluster.snapshot                    # the cluster in columns; ask it inside a trial
    inputs.groups, inputs.group_of             # node groups, and the group of each node
    inputs.nodes, inputs.csinodes, inputs.states, inputs.policy

`inputs.written()` is the same without the cluster and encodes to JSON; `written.on(cluster)` is
the way back, so that a decision can be made again elsewhere.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property

import msgspec

from tonnage.groups import (
    births,
    capacity_buffers,
    limit_lessons,
    look_ahead,
    node_group_objects,
    provisioning_requests,
)
from tonnage.groups.cluster_state import ClusterState
from tonnage.groups.drivers import Member
from tonnage.groups.headroom import KeptRoom
from tonnage.groups.memory import TemplateMemory
from tonnage.groups.model import Group, Purchase
from tonnage.groups.node_state import NodeState
from tonnage.groups.options import Options, policy_of
from tonnage.groups.policy import GroupPolicy
from tonnage.groups.provisioning_requests import RequestedRoom
from tonnage.objects.buffers import CapacityBuffer
from tonnage.objects.meta import Record
from tonnage.objects.nodes import Node
from tonnage.objects.provisioning_requests import ProvisioningRequest
from tonnage.objects.storage import CSINode
from tonnage.rules import opt_in
from tonnage.rules.features import Features


class WrittenInputs(Record, frozen=True, kw_only=True):
    """What a decision is made from beside the cluster; it encodes to JSON as it is.

    `pending` are the pods to decide on, by namespace/name; `None`: all that have no node.
    `skipped` are groups not to be bought from, with the reason, and `upcoming` the nodes of each
    group to count on beside those that are ready; `None`: as readiness has it, while whoever made
    the requests knows better, and also for whom, which is in `purchases`. `live` says that the
    objects come from an API server, not from a file. `headroom` is room that objects ask to be kept
    ready; the options have more. `released` are VolumeAttachments whose last pod is gone, and since
    when; `unread_gangs` are API groups whose PodGroups cannot be read, so that their pods go one by
    one. `requested` is room for pods that do not exist yet; where requests are answered at all
    (`requests_answered`), nothing is bought for pods that take room of one. `solver_work` is what
    the solver of `least-cost` did, so that it stops there when the same is decided again.
    `room_problems` say what is wrong with objects of a file that ask for room. `now`, in
    seconds since 1970, matters only to objects that carry a time.
    """

    now: float
    options: Options
    features: Features
    groups: tuple[Group, ...] = ()
    memory: TemplateMemory = TemplateMemory()
    pending: tuple[str, ...] | None = None
    skipped: dict[str, str] | None = None
    upcoming: dict[str, int] | None = None
    purchases: dict[str, Purchase] = {}
    live: bool = False
    headroom: tuple[KeptRoom, ...] = ()
    released: dict[str, float] = {}
    unread_gangs: tuple[str, ...] = ()
    solver_work: int | None = None
    requested: tuple[RequestedRoom, ...] = ()
    requests_answered: bool = False
    room_problems: tuple[str, ...] = ()

    def on(self, cluster: ClusterState) -> "Inputs":
        return Inputs(
            cluster=cluster, **{name: getattr(self, name) for name in self.__struct_fields__}
        )


class Inputs(WrittenInputs, frozen=True, kw_only=True, dict=True, gc=True):
    """All that a decision is made from. A change is a new value (`msgspec.structs.replace`).

    What is derived is worked out once, and by name: `nodes`, `csinodes`, `group_of`; `states` is
    what nodes say of themselves, `policy` the part of the options that goes for all groups.
    """

    cluster: ClusterState

    @classmethod
    def of_objects(
        cls,
        objects: Iterable[object],
        *,
        options: Options,
        features: Features,
        now: float,
        memory: TemplateMemory | None = None,
    ) -> "Inputs":
        """The inputs for a cluster of these objects, NodeGroups among them."""
        held = list(objects)
        features = opt_in.settled(features, options.enforcement, seen=opt_in.seen_in(held))
        cluster = ClusterState.of(held, features, options)
        made = cls.of_cluster(cluster, options=options, features=features, now=now, memory=memory)
        kinds = set(map(type, held))
        # Objects are many, and few clusters have these.
        buffers = capacity_buffers.of_objects(held, now=now) if CapacityBuffer in kinds else ()
        requests = (
            provisioning_requests.of_objects(held, now=now)
            if ProvisioningRequest in kinds and not options.as_upstream
            else ()
        )
        ahead = (
            look_ahead.of_objects(held, now=now, within=options.look_ahead_time)
            if options.look_ahead
            else ()
        )
        if not buffers and not requests and not ahead:
            return made
        return msgspec.structs.replace(
            made,
            headroom=(*(one.room for one in buffers if one.room is not None), *ahead),
            requested=tuple(one.room for one in requests if one.room is not None),
            requests_answered=bool(requests),
            room_problems=(
                *(one.problem for one in buffers if one.problem),
                *(one.problem for one in requests if one.problem),
            ),
        )

    @classmethod
    def of_cluster(
        cls,
        cluster: ClusterState,
        *,
        options: Options,
        features: Features,
        now: float,
        memory: TemplateMemory | None = None,
    ) -> "Inputs":
        """The same of a cluster that was made from objects."""
        before = memory or TemplateMemory()
        # What attaches that were refused teach; live nodes speak for themselves.
        lessons = limit_lessons.renewed(
            before.lessons,
            nodes=cluster.nodes,
            csinodes=(),
            attachments=cluster.snapshot.attachments.values(),
            policy=policy_of(options),
            now=now,
            max_age=math.inf,
        )
        return cls(
            cluster=cluster,
            groups=tuple(node_group_objects.from_objects(cluster.node_groups, cluster.nodes)),
            memory=msgspec.structs.replace(before, lessons=lessons),
            options=options,
            features=features,
            now=now,
        )

    def written(self) -> WrittenInputs:
        """All but the cluster, and rules of one's own, with the options of decisions alone."""
        values = {name: getattr(self, name) for name in WrittenInputs.__struct_fields__}
        settings = {name: getattr(self.options, name) for name in Options.__struct_fields__}
        values["options"] = Options(**settings)
        values["features"] = msgspec.structs.replace(self.features, more_rules=())
        return WrittenInputs(**values)

    @cached_property
    def policy(self) -> GroupPolicy:
        return policy_of(self.options, live=self.live)

    @cached_property
    def nodes(self) -> Mapping[str, Node]:
        return {node.metadata.name: node for node in self.cluster.nodes}

    @cached_property
    def csinodes(self) -> Mapping[str, CSINode]:
        return {csinode.metadata.name: csinode for csinode in self.cluster.csinodes}

    @cached_property
    def states(self) -> Mapping[str, NodeState]:
        states = self.cluster.states.of(self.nodes.values(), self.policy)
        if self.options.as_upstream:
            return states
        return births.corrected(states, self.nodes, self.memory.births)

    @cached_property
    def group_of(self) -> Mapping[str, Group]:
        return {name: group for group in self.groups for name in group.nodes}

    def members(self, group: Group) -> list[Member]:
        """The nodes of a group that are there."""
        return [self.member(name) for name in group.nodes if name in self.nodes]

    def everybody(self) -> Iterator[Member]:
        """All nodes, of whatever group."""
        return map(self.member, self.nodes)

    def member(self, name: str) -> Member:
        return Member(self.nodes[name], self.states[name], self.csinodes.get(name))
