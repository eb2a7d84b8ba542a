"""What is asked of whoever runs the machines: a file, Cluster API, AWS, a program behind gRPC.

Everything may take a while or fail, so everything is awaited; failures are `ProviderError`, whose
`cause` says whether to ask again soon. What comes back are values: decisions are made from them,
never from the provider itself.
"""

from collections.abc import Sequence
from typing import Literal, Protocol, TypeAlias

from tonnage.groups.model import Group
from tonnage.objects.meta import Record
from tonnage.objects.scenarios import GroupTemplate

InstanceState: TypeAlias = Literal["creating", "running", "deleting"]
ErrorClass: TypeAlias = Literal["outOfResources", "quota", "other"]


class InstanceError(Record, frozen=True, kw_only=True):
    """Why an instance did not come to be: nothing left of its kind, a quota, or something else."""

    error_class: ErrorClass = "other"
    code: str = ""
    message: str = ""


class Instance(Record, frozen=True, kw_only=True):
    """A machine of a group, whether or not a node has registered for it.

    `id` is the node's providerID, or a name that stands for a machine which has none yet. `node`
    is the node's name, where the provider knows it. Only an instance being created or deleted has
    an error.
    """

    id: str
    state: InstanceState
    node: str = ""
    error: InstanceError | None = None


class GroupOptions(Record, frozen=True, kw_only=True):
    """A group's own settings, times in seconds; `None` is the cluster-wide one."""

    scale_down_utilization_threshold: float | None = None
    scale_down_gpu_utilization_threshold: float | None = None
    scale_down_unneeded_time: float | None = None
    scale_down_unready_time: float | None = None
    max_node_provision_time: float | None = None
    max_node_startup_time: float | None = None
    ignore_daemonsets_utilization: bool | None = None


class Provider(Protocol):
    """Groups by id. An unknown id, and a request that cannot be met, is a `ProviderError`.

    Nothing wrong with one group costs another. A group that was understood and no longer is stays
    among the groups, with its nodes and its target: not to understand it is no reason to treat its
    nodes as nobody's, or to forget what was asked for.

    A request either happens as a whole or, when it is refused, changes nothing. One that fails for
    a `transient` cause is made again within seconds, so that cause promises that nothing has
    happened; where nobody knows, it is `other`, and the group is left alone for a while.
    """

    async def refresh(self) -> None:
        """Look at the outside world again; once per loop, before anything else is asked."""
        ...

    async def groups(self) -> Sequence[Group]:
        """All groups as they are now; template and price may be left for `template` and `price`."""
        ...

    async def problems(self) -> Sequence[str]:
        """What should say something of groups and cannot be read: which object and field, and why.

        What is wrong with a group that is listed all the same may stand in its own `problems`.
        """
        ...

    async def instances(self, group: str) -> Sequence[Instance]:
        """The group's machines, those on their way in or out included."""
        ...

    async def template(self, group: str) -> GroupTemplate | None:
        """What a new node would be, or None where the provider cannot say."""
        ...

    async def price(self, group: str) -> float | None:
        """What a node costs per hour, or None where nobody says."""
        ...

    async def options(self, group: str) -> GroupOptions:
        """The settings that the group has of its own."""
        ...

    async def increase(self, group: str, delta: int) -> None:
        """Ask for `delta` more nodes, up to the group's maximum."""
        ...

    async def delete(self, group: str, nodes: Sequence[str]) -> None:
        """Delete these nodes, by name, and lower the target by as many; not below the minimum.

        A machine that no node has registered for is meant by its instance's id. A node that is on
        its way out already is passed over.
        """
        ...

    async def decrease_target(self, group: str, delta: int) -> None:
        """Give up `delta` nodes that were asked for and are not there yet; never one that is."""
        ...
