"""Values the decisions are made from: what a node group is, and what its next node would be.

Providers fill these in; the core sees nothing of a provider but these.
"""

from tonnage.groups.scale_down_options import GroupScaleDown
from tonnage.objects.meta import Record
from tonnage.objects.nodes import Node
from tonnage.objects.pods import Pod
from tonnage.objects.scenarios import GroupTemplate, SlotPool
from tonnage.objects.storage import CSINode

OVERRIDE = "override"
LIVE = "live"
PROVIDER = "provider"
REMEMBERED = "remembered"
LEARNED = "learned"
CATALOGUE = "catalogue"
PUBLISHED = "published"
UNKNOWN = "unknown"

TEMPLATE_NODE_LABEL = "cluster-autoscaler.kubernetes.io/template-node"


class Group(Record, frozen=True, kw_only=True):
    """A node group as it is now.

    `nodes` are the registered nodes, `target` what the provider was asked for. A group whose
    `all_or_nothing` is set goes from zero to its maximum and back, never to anything between.
    `limits` are the operator's word and beat every other source. `scale_down` is what it says of
    how its nodes are given back.
    `problems` are what was wrong with its declaration, each naming the group.
    """

    id: str
    min_size: int = 0
    max_size: int
    target: int
    nodes: tuple[str, ...] = ()
    all_or_nothing: bool = False
    limits: dict[str, int] = {}
    pools: tuple[SlotPool, ...] = ()
    price_per_hour: float | None = None
    scale_down: GroupScaleDown | None = None
    provider_template: GroupTemplate | None = None
    problems: tuple[str, ...] = ()


class Purchase(Record, frozen=True, kw_only=True):
    """Nodes of a group that were bought and are on their way, and the pods that they are for."""

    nodes: int
    pods: tuple[str, ...]


class Limit(Record, frozen=True, kw_only=True):
    """The slots a new node has for a driver, and where the number comes from.

    A count of `None` is unlimited, unless the source is unknown. Where live nodes tell, `votes`
    of `voters` nodes say this number. `key` is the resource of a node it was read from, if it was
    not its CSINode.
    """

    driver: str
    count: int | None
    source: str
    votes: int | None = None
    voters: int | None = None
    key: str | None = None


class StorageRoom(Record, frozen=True, kw_only=True):
    """Bytes a new node has for a storage class, in all and for one volume, and who says so."""

    storage_class: str
    capacity: int
    largest: int
    source: str


class Template(Record, frozen=True, kw_only=True):
    """The next node of a group: the node, its CSINode, and the pods it starts with.

    `expected_drivers` are those its nodes are known to register; the CSINode may list others
    that are only assumed. `host_keys` are labels beside the hostname whose value is the node's own
    name, to be rewritten in every copy. `storage` is what the node would have of its own.
    """

    group: str
    node: Node
    csinode: CSINode | None = None
    daemon_pods: tuple[Pod, ...] = ()
    limits: tuple[Limit, ...] = ()
    source: str = PROVIDER
    expected_drivers: tuple[str, ...] = ()
    host_keys: tuple[str, ...] = ()
    storage: tuple[StorageRoom, ...] = ()
