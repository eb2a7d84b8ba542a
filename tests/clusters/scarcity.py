"""Random clusters that run short: not every pod can be helped, and the order decides how many are.

    scenario = scarce_scenario(seed)

Each has one of a few shapes in which a plan is easily worse than it could be: pods spread over
zones whose groups run into their maximum, nodes that are half empty, many small groups, pods that
keep together or apart, and limits on the number of nodes.
"""

from collections.abc import Callable, Iterator, Mapping

from tests.clusters.dice import Dice
from tests.clusters.random_groups import UPSTREAM, RandomScenario
from tests.clusters.storage import EBS, PD, ZONES
from tonnage.objects.kinds import KubeObject
from tonnage.objects.meta import ObjectMeta
from tonnage.objects.nodes import Taint
from tonnage.objects.pods import PodAffinityTerm, Toleration, TopologySpreadConstraint
from tonnage.objects.scenarios import GroupTemplate, NodeGroup, NodeGroupSpec
from tonnage.testing import builders

APPS = ("web", "db", "cache", "queue")
_DRIVERS = {"ebs": EBS, "pd": PD}
_EXPANDERS = {"least-waste": 6, "most-pods": 1, "least-nodes": 1, "random": 1}
_SIZES = {"2": 2, "4": 3, "8": 3, "16": 1}


def scarce_scenario(seed: int) -> RandomScenario:
    """A cluster of up to 12 nodes, up to 16 groups and up to 200 pods that wait."""
    dice = Dice(seed)
    make = _Maker(dice)
    return RandomScenario(
        objects=(
            builders.namespace("default"),
            *(builders.storage_class(name, driver) for name, driver in _DRIVERS.items()),
            *dice.pick(_SHAPES)(make),
        ),
        gates={},
        options={
            "compatibility": dice.pick(("none", UPSTREAM)),
            "expander": dice.weighted(_EXPANDERS),
            "balanceSimilarNodeGroups": dice.chance(0.3),
            "maxNodesTotal": dice.weighted({0: 3, dice.between(3, 24): 1}),
            "maxNodesPerScaleUp": dice.weighted({1000: 4, dice.between(1, 5): 1}),
        },
    )


class _Maker:
    """Makes nodes, groups and sets of pods out of one source of chance."""

    def __init__(self, dice: Dice) -> None:
        self._dice = dice

    def zones_that_run_out(self) -> Iterator[KubeObject]:
        """Large sets spread over zones; a group or two in each zone, of different maxima."""
        dice = self._dice
        yield from self._nodes(dice.between(0, 3))
        for zone in ZONES[: dice.between(2, 3)]:
            for number in range(dice.weighted({1: 3, 2: 1})):
                yield self._group(f"{zone}-{number}", zone, most=dice.between(1, 8))
        for number in range(dice.between(1, 3)):
            keys = (builders.ZONE, builders.HOSTNAME) if dice.chance(0.3) else (builders.ZONE,)
            yield from self._set(number, dice.between(5, 60), spread_over=keys)
        if dice.chance(0.5):
            yield from self._set(9, dice.between(1, 20))

    def half_empty_nodes(self) -> Iterator[KubeObject]:
        """Many kinds of pods for the room that nodes have left, and hardly any new node."""
        dice = self._dice
        yield from self._nodes(dice.between(3, 12))
        for number in range(dice.between(1, 2)):
            yield self._group(f"g{number}", dice.pick(ZONES), most=dice.between(0, 2))
        for number in range(dice.between(4, 12)):
            yield from self._set(number, dice.between(1, 5), rules=dice.chance(0.3))

    def many_small_groups(self) -> Iterator[KubeObject]:
        """Groups of a node or two, each with another size, zone and taint."""
        dice = self._dice
        yield from self._nodes(dice.between(0, 3))
        for number in range(dice.between(5, 16)):
            yield self._group(f"g{number}", dice.pick(ZONES), most=dice.between(1, 2))
        for number in range(dice.between(2, 8)):
            yield from self._set(number, dice.between(1, 12), rules=dice.chance(0.3))

    def spread_over_nodes(self) -> Iterator[KubeObject]:
        """Sets spread over hosts or zones that are filled unevenly already."""
        dice = self._dice
        yield from self._nodes(dice.between(2, 10))
        for number in range(dice.between(1, 3)):
            yield self._group(f"g{number}", dice.pick(ZONES), most=dice.between(0, 6))
        for number in range(dice.between(1, 4)):
            keys = dice.some((builders.ZONE, builders.HOSTNAME))
            yield from self._set(number, dice.between(2, 25), spread_over=keys)

    def together_and_apart(self) -> Iterator[KubeObject]:
        """Sets that seek and avoid each other's hosts and zones."""
        dice = self._dice
        yield from self._nodes(dice.between(1, 6))
        for number in range(dice.between(1, 4)):
            yield self._group(f"g{number}", dice.pick(ZONES), most=dice.between(1, 6))
        for number in range(dice.between(2, 6)):
            yield from self._set(number, dice.between(1, 12), rules=True)

    def _nodes(self, count: int) -> Iterator[KubeObject]:
        """Nodes with something on them."""
        dice = self._dice
        for number in range(count):
            name, size = f"n{number}", dice.weighted(_SIZES)
            yield builders.node(
                name,
                cpu=size,
                zone=dice.pick(ZONES),
                labels={"disk": dice.pick(("ssd", "hdd"))},
                taints=[Taint(key="dedicated", effect="NoSchedule")] if dice.chance(0.1) else (),
                pods=dice.weighted({110: 5, 6: 1}),
            )
            yield builders.csinode(name, self._limits())
            for pod in range(dice.between(0, 3)):
                yield builders.pod(
                    f"on-{name}-{pod}",
                    on=name,
                    labels={"app": dice.pick(APPS)},
                    cpu=dice.pick(("250m", "500m", "1")),
                )

    def _limits(self) -> Mapping[str, int]:
        return {driver: self._dice.pick((1, 2, 3, 5, 25)) for driver in _DRIVERS.values()}

    def _group(self, name: str, zone: str, *, most: int) -> NodeGroup:
        dice = self._dice
        size = dice.weighted(_SIZES)
        node = builders.node(
            "template",
            cpu=size,
            memory=f"{int(size) * dice.pick((2, 4))}Gi",
            zone=zone,
            labels={"disk": dice.pick(("ssd", "hdd"))},
            taints=[Taint(key="dedicated", effect="NoSchedule")] if dice.chance(0.1) else (),
        )
        return NodeGroup(
            metadata=ObjectMeta(name=name),
            spec=NodeGroupSpec(
                max_size=most,
                template=GroupTemplate(
                    node=node, csi_node=builders.csinode("template", self._limits())
                ),
            ),
        )

    def _set(
        self,
        number: int,
        count: int,
        *,
        spread_over: tuple[str, ...] = (),
        rules: bool = False,
    ) -> Iterator[KubeObject]:
        """Like pods and their claims; with `rules` they spread, or mind others."""
        dice = self._dice
        app = dice.pick(APPS)
        kind = dice.pick(("spread", "near", "apart")) if rules else ""
        if kind == "spread":
            spread_over = (dice.pick((builders.ZONE, builders.HOSTNAME)),)
        spread = [
            TopologySpreadConstraint(
                max_skew=dice.weighted({1: 3, 2: 2, 4: 1}),
                topology_key=key,
                when_unsatisfiable="DoNotSchedule",
                label_selector=builders.selecting({"app": app}),
                min_domains=dice.weighted({None: 6, 2: 1, 3: 1}),
            )
            for key in spread_over
        ]
        other = app if dice.chance(0.5) else dice.pick(APPS)
        term = PodAffinityTerm(
            topology_key=dice.pick((builders.ZONE, builders.HOSTNAME)),
            label_selector=builders.selecting({"app": other}),
        )
        size = dice.pick(("100m", "300m", "500m", "900m", "1", "1500m", "3"))
        memory = dice.pick((None, "256Mi", "1Gi", "3Gi"))
        claims = dice.weighted({0: 4, 1: 3, 2: 1})
        selector = {"disk": "ssd"} if dice.chance(0.15) else None
        tolerates = dice.chance(0.3)
        for one in range(count):
            name = f"set-{number}-{one}"
            names = [f"{name}-{claim}" for claim in range(claims)]
            for claim in names:
                yield builders.pvc(claim, storage_class=dice.pick(tuple(_DRIVERS)))
            yield builders.pod(
                name,
                labels={"app": app},
                cpu=size,
                memory=memory,
                pvcs=names,
                spread=spread,
                near=[term] if kind == "near" else (),
                apart=[term] if kind == "apart" else (),
                node_selector=selector,
                tolerations=[Toleration(operator="Exists")] if tolerates else (),
            )


_SHAPES: tuple[Callable[[_Maker], Iterator[KubeObject]], ...] = (
    _Maker.zones_that_run_out,
    _Maker.half_empty_nodes,
    _Maker.many_small_groups,
    _Maker.spread_over_nodes,
    _Maker.together_and_apart,
)
