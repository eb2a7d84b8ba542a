"""Which of the groups that could be scaled is: upstream's expanders, and chains of them.

An expander keeps the best of the options it is given. Most of them rank options by a number,
so they can also say how good an option can become at best before anybody packs it, and a
group that cannot win need not be packed at all (`Chain.best_case` says when that is safe).
"""

import abc
import math
import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, TypeAlias

from tonnage.errors import InputError
from tonnage.objects import quantities
from tonnage.objects.meta import Record
from tonnage.objects.nodes import Node
from tonnage.scaleup.priorities import Priorities, read_priorities

LEAST_WASTE = "least-waste"
MOST_PODS = "most-pods"
LEAST_NODES = "least-nodes"
PRICE = "price"
LEAST_COST = "least-cost"
PRIORITY = "priority"
RANDOM = "random"
GRPC = "grpc"
NAMES = (LEAST_WASTE, MOST_PODS, LEAST_NODES, PRICE, LEAST_COST, PRIORITY, RANDOM, GRPC)

Score: TypeAlias = tuple[float, ...]
"""One number per ranking expander of a chain, lower is better, the first that differs decides."""


class Option(Record, frozen=True, kw_only=True):
    """What scaling one group would do: at least one node, for at least one pod.

    `cpu_milli` and `memory` are what its pods request, `node_cpu_milli` and `node_memory` the
    capacity (not the allocatable) of one new node, 0 where the template does not say.
    """

    group: str
    node_count: int
    pod_count: int
    cpu_milli: int
    memory: int
    node_cpu_milli: int
    node_memory: int
    price_per_hour: float | None = None
    gpu: bool = False
    debug: str = ""


class Prospect(Record, frozen=True, kw_only=True):
    """What is known of a group's option before its nodes are packed.

    The pods that fit an empty node of the group are `pod_count_max` many and request
    `cpu_milli` and `memory`; to hold them all takes `nodes_min` nodes or more. `exact` says
    that the option, if there is one, will hold them all. Where a cap on nodes or the packing
    itself may leave some out, it is false, and fewer pods on fewer nodes are expected too.
    """

    group: str
    pod_count_max: int
    cpu_milli: int
    memory: int
    nodes_min: int
    node_cpu_milli: int
    node_memory: int
    price: float | None = None
    gpu: bool = False
    exact: bool = False

    @property
    def nodes_at_least(self) -> int:
        return max(1, self.nodes_min) if self.exact else 1


class Notice(Record, frozen=True, kw_only=True):
    """Something an operator should know about a choice; `reason` is that of upstream's event."""

    reason: str
    message: str
    group: str = ""


class Expander(Protocol):
    """Keeps the best options. `notices` are what it had to say so far, each once."""

    @property
    def notices(self) -> Iterable[Notice]: ...

    def best(self, options: Sequence[Option]) -> list[Option]: ...


class Ranking(abc.ABC):
    """An expander that keeps exactly the options of the lowest score."""

    def __init__(self) -> None:
        self.notices: dict[Notice, None] = {}

    @abc.abstractmethod
    def score(self, option: Option) -> float:
        """How bad an option is, never NaN; infinite if it may win only among its like."""

    @abc.abstractmethod
    def best_case(self, prospect: Prospect) -> float:
        """A number that no option the prospect can become scores below."""

    def best(self, options: Sequence[Option]) -> list[Option]:
        scores = [self.score(option) for option in options]
        lowest = min(scores, default=math.inf)
        return [option for option, its in zip(options, scores, strict=True) if its == lowest]

    def _tell(self, reason: str, message: str, *, group: str = "") -> None:
        self.notices[Notice(reason=reason, message=message, group=group)] = None


def chain(
    names: str,
    *,
    rng: random.Random,
    priorities: Priorities | Mapping[str, Sequence[str]] | None = None,
    cluster_size: int | None = None,
    rates: "PodRates | None" = None,
    outside: Mapping[str, Expander] | None = None,
) -> "Chain":
    """The expanders of a list such as `least-waste,most-pods`.

    `priorities` are for `priority`, `cluster_size` (nodes there are) and `rates` for `price`.
    Expanders that ask somebody else, such as `grpc`, come ready made in `outside`.
    """
    wanted = [name.strip() for name in names.split(",")]
    check_names(names)
    made: list[Expander] = []
    for name in wanted:
        if outside is not None and name in outside:
            made.append(outside[name])
        elif name == RANDOM:
            made.append(Random(rng))
        elif name == LEAST_COST:
            made.append(LeastCost(rates=rates or PodRates()))
        elif name == PRICE:
            made.append(Price(cluster_size=cluster_size, rates=rates or PodRates()))
        elif name == PRIORITY:
            if not isinstance(priorities, Priorities):
                priorities = read_priorities(priorities or {})
            made.append(Priority(priorities))
        elif name == GRPC:
            raise InputError(
                f"expander: {names!r}: grpc needs the address of its server: option grpcExpanderUrl"
            )
        else:
            made.append(_SIMPLE[name]())
    return Chain(made, rng=rng)


class Chain:
    """Chooses one option: the same options in any order, with the same seed, give the same one.

    Each expander keeps some of what the one before it left; the first to leave a single option
    ends it, and what still ties at the end is drawn by lot. There is one option per group.
    """

    def __init__(self, expanders: Sequence[Expander], *, rng: random.Random) -> None:
        self._expanders = tuple(expanders)
        self._rng = rng
        self._rankings: list[Ranking] = []
        for expander in expanders:
            if not isinstance(expander, Ranking):
                break
            self._rankings.append(expander)

    def choose(self, options: Sequence[Option]) -> Option | None:
        """The one to carry out; none if there is none, or an expander refuses them all."""
        left = sorted(options, key=lambda option: option.group)
        for expander in self._expanders:
            # Even a single option is shown to the first: `grpc` may refuse it.
            left = expander.best(left)
            if len(left) <= 1:
                return left[0] if left else None
        return self._rng.choice(left) if left else None

    @property
    def notices(self) -> tuple[Notice, ...]:
        """What the expanders had to say, each thing once, whatever the number of choices."""
        return tuple(dict.fromkeys(n for expander in self._expanders for n in expander.notices))

    def score(self, option: Option) -> Score:
        """How the chain ranks an option, up to its first expander that does not rank."""
        return tuple(ranking.score(option) for ranking in self._rankings)

    def best_case(self, prospect: Prospect) -> Score:
        """What no option the prospect can become ranks below.

        A group need not be packed when `best_case` of its prospect is *greater* than `score` of
        an option found for the same choice: whatever it becomes, some expander drops it, so
        `choose` picks the same with it and without it, by lot too. When the two are equal it
        may still win or tie, and has to be packed. This holds as long as the prospect is true
        (see there); if not all of its pods may be taken, it must not be called exact.

        What comes after an expander that does not rank (`grpc`, `random`) is not compared,
        since that one may keep anything; a chain that begins with one compares nothing.
        A group that was not packed is not shown to the expanders, so they have no notice of it.
        """
        return tuple(ranking.best_case(prospect) for ranking in self._rankings)


class LeastWaste(Ranking):
    """The smallest sum of the fractions of CPU and memory that stay unused. Volumes do not count.

    A resource whose capacity the template does not say counts as wholly wasted; upstream
    divides by zero there.
    """

    def score(self, option: Option) -> float:
        return _wasted(option.cpu_milli, option.node_cpu_milli * option.node_count) + _wasted(
            option.memory, option.node_memory * option.node_count
        )

    def best_case(self, prospect: Prospect) -> float:
        # The waste falls with every pod and grows with every node.
        nodes = prospect.nodes_at_least
        return _wasted(prospect.cpu_milli, prospect.node_cpu_milli * nodes) + _wasted(
            prospect.memory, prospect.node_memory * nodes
        )


class MostPods(Ranking):
    """The most pods."""

    def score(self, option: Option) -> float:
        return -float(option.pod_count)

    def best_case(self, prospect: Prospect) -> float:
        return -float(prospect.pod_count_max)


class LeastNodes(Ranking):
    """The fewest nodes."""

    def score(self, option: Option) -> float:
        return float(option.node_count)

    def best_case(self, prospect: Prospect) -> float:
        return float(prospect.nodes_at_least)


class PodRates(Record, frozen=True, kw_only=True):
    """What an hour of a pod's requests would cost on a machine just its size.

    Groups have a price, pods have not. The default is what upstream has for GCE's general
    machines, in US dollars; other currencies shift scores little, since only ratios of
    prices count.
    """

    cpu: float = 0.033174
    memory_gib: float = 0.004446

    def __post_init__(self) -> None:
        if not (self.cpu > 0 and self.memory_gib > 0):
            raise InputError(f"rates of pods: {self.cpu}, {self.memory_gib}: expected more than 0")

    def price(self, cpu_milli: int, memory: int) -> float:
        return cpu_milli / 1000 * self.cpu + memory / 2**30 * self.memory_gib


class Price(Ranking):
    """The best value for money, on nodes that suit a cluster of this size.

    Upstream's formula; its penalty for groups that are yet to be created has no counterpart.
    A group without a price is dropped, unless none has one: then nothing is.
    """

    def __init__(self, *, cluster_size: int | None, rates: PodRates) -> None:
        super().__init__()
        self._rates = rates
        self._steadying = rates.price(500, 500 * 2**20)
        self._preferred_cpu_milli = _preferred_cpu_milli(cluster_size)

    def score(self, option: Option) -> float:
        if option.price_per_hour is None:
            return math.inf
        price = option.node_count * option.price_per_hour
        return self._unfitness(option) * self._for_money(price, option.cpu_milli, option.memory)

    def best_case(self, prospect: Prospect) -> float:
        if prospect.price is None:
            return math.inf
        # More nodes cost more but suit better, so at best they suit perfectly.
        price = prospect.nodes_at_least * prospect.price
        least = _GPU_UNFITNESS if prospect.gpu else 1.0
        return least * self._for_money(price, prospect.cpu_milli, prospect.memory)

    def best(self, options: Sequence[Option]) -> list[Option]:
        for option in options:
            if option.price_per_hour is None:
                self._tell(
                    "PriceMissing",
                    f"price expander: node group {option.group} has no price and is not used "
                    "while another has one",
                    group=option.group,
                )
        if options and all(option.price_per_hour is None for option in options):
            self._tell(
                "NoPrices",
                "price expander: no node group that could be scaled has a price; "
                "nothing is filtered",
            )
        return super().best(options)

    def _for_money(self, price: float, cpu_milli: int, memory: int) -> float:
        pods = self._rates.price(cpu_milli, memory)
        return (price + self._steadying) / (pods + self._steadying)

    def _unfitness(self, option: Option) -> float:
        if option.gpu:
            return _GPU_UNFITNESS
        if option.node_cpu_milli <= 0:
            return math.inf
        ratio = option.node_cpu_milli / self._preferred_cpu_milli
        # The size of nodes matters less the more of them there are.
        lessening = 1.0 - math.tanh((option.node_count - 1) / 15.0)
        return (max(ratio, 1 / ratio) - 1.0) * lessening + 1.0


class LeastCost(Ranking):
    """The least paid for what the pods request: the greedy start of `joint_choice`.

    A group without a price is dropped, unless none has one; then the least waste decides.
    """

    def __init__(self, *, rates: PodRates) -> None:
        super().__init__()
        self._rates = rates
        self._waste = LeastWaste()

    def score(self, option: Option) -> float:
        price = option.price_per_hour
        if price is None:
            return math.inf
        return self._for_money(price * option.node_count, option.cpu_milli, option.memory)

    def best_case(self, prospect: Prospect) -> float:
        price = prospect.price
        if price is None:
            return math.inf
        nodes = prospect.nodes_at_least
        return self._for_money(price * nodes, prospect.cpu_milli, prospect.memory)

    def best(self, options: Sequence[Option]) -> list[Option]:
        if all(math.isinf(self.score(option)) for option in options):
            return self._waste.best(options)
        return super().best(options)

    def _for_money(self, price: float, cpu_milli: int, memory: int) -> float:
        return price / max(self._rates.price(cpu_milli, memory), 1e-6)


class Priority(Ranking):
    """The group that the operator put highest.

    A group that no rule matches is dropped. When none is matched, or there are no priorities,
    nothing is dropped. Priorities below -1 never win, as upstream has it.
    """

    def __init__(self, priorities: Priorities) -> None:
        super().__init__()
        self._priorities = priorities

    def score(self, option: Option) -> float:
        return self.rank(option.group)

    def best_case(self, prospect: Prospect) -> float:
        return self.rank(prospect.group)

    def best(self, options: Sequence[Option]) -> list[Option]:
        if not self._priorities.rules:
            self._tell(
                "PriorityConfigMapInvalid",
                "priority expander: there are no priorities; nothing is filtered",
            )
            return list(options)
        for option in options:
            if self._priorities.of(option.group) is None:
                self._tell(
                    "PriorityConfigMapNotMatchedGroup",
                    f"priority expander: node group {option.group} matches no priority and is not "
                    "used while another does",
                    group=option.group,
                )
        if options and all(math.isinf(self.score(option)) for option in options):
            self._tell(
                "PriorityConfigMapNoGroupMatched",
                "priority expander: no node group that could be scaled matches a priority; "
                "nothing is filtered",
            )
        return super().best(options)

    def rank(self, group: str) -> float:
        """How low the group stands; infinite if it is dropped while another is not."""
        priority = self._priorities.of(group)
        return -float(priority) if priority is not None and priority >= -1 else math.inf


class Random:
    """One of them, by lot."""

    notices: tuple[Notice, ...] = ()

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def best(self, options: Sequence[Option]) -> list[Option]:
        return [self._rng.choice(options)] if options else []


def has_gpu(node: Node) -> bool:
    """Whether the node has accelerators that pods without need of them should be kept from."""
    offered = node.status.allocatable
    return any(label in node.metadata.labels for label in _GPU_LABELS) or any(
        quantities.exact(offered.get(name, 0)) != 0 for name in _GPU_RESOURCES
    )


_SIMPLE: dict[str, type[LeastWaste | MostPods | LeastNodes]] = {
    LEAST_WASTE: LeastWaste,
    MOST_PODS: MostPods,
    LEAST_NODES: LeastNodes,
}

_GPU_UNFITNESS = 1000.0
_GPU_RESOURCES = (
    "nvidia.com/gpu",
    "habana.ai/gaudi",
    "gpu.intel.com/xe",
    "amd.com/gpu",
    "microsoft.com/directx",
)
_GPU_LABELS = (
    "accelerator",
    "cloud.google.com/gke-accelerator",
    "cluster-api/accelerator",
    "k8s.amazonaws.com/accelerator",
    "kubernetes.azure.com/accelerator",
)

_PREFERRED_CPU_MILLI = ((2, 1_000), (6, 2_000), (20, 4_000), (60, 8_000), (200, 16_000))


def names(chain: str) -> list[str]:
    """The names in a chain, in their order."""
    return [name.strip() for name in chain.split(",")]


def check_names(chain: str) -> None:
    """Refuse a chain that names what is none, something twice, or anything after random.

    Before `least-cost`, which looks at all groups together, there may be nothing but `priority`.
    """
    wanted = names(chain)
    for index, name in enumerate(wanted):
        if name not in NAMES:
            said = f"{chain!r}: " if len(wanted) > 1 else ""
            raise InputError(
                f"expander: {said}no expander {name!r}; expected one or more of "
                f"{', '.join(NAMES)}, with commas between them"
            )
        if name in wanted[:index]:
            raise InputError(f"expander: {chain!r}: {name} is named twice")
        if index and wanted[index - 1] == RANDOM:
            raise InputError(f"expander: {chain!r}: {name} comes after random, which leaves one")
        if name == LEAST_COST and set(wanted[:index]) - {PRIORITY}:
            raise InputError(
                f"expander: {chain!r}: least-cost looks at all groups together: expected nothing"
                " before it but priority"
            )


def _wasted(requested: int, capacity: int) -> float:
    # Division of whole numbers rounds once, which keeps best cases below scores to the last bit.
    return (capacity - requested) / capacity if capacity > 0 else 1.0


def _preferred_cpu_milli(cluster_size: int | None) -> int:
    if cluster_size is None:
        return 4_000
    return next((cpu for most, cpu in _PREFERRED_CPU_MILLI if cluster_size <= most), 32_000)
