"""Placement rules of random pods: selectors with every operator, affinity, spread, tolerations."""

from tests.clusters.dice import Dice
from tests.clusters.storage import INVALID, ZONES
from tonnage.objects.meta import LabelRequirement, LabelSelector
from tonnage.objects.nodes import Taint
from tonnage.objects.pods import (
    ContainerPort,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PodAffinityTerm,
    Toleration,
    TopologySpreadConstraint,
)
from tonnage.testing import builders

NAMESPACES = ("default", "other", "unlisted")
"""The last has pods but no Namespace object."""

APPS = ("web", "db", "cache")
EFFECTS = ("NoSchedule", "NoExecute", "PreferNoSchedule")
TOPOLOGY_KEYS = (builders.ZONE, builders.ZONE, builders.HOSTNAME, "rack")


def taint(dice: Dice) -> Taint:
    return Taint(
        key=dice.pick(("dedicated", "gpu")),
        value=dice.pick(("", "a", "b", "5")),
        effect=dice.pick(EFFECTS),
    )


def toleration(dice: Dice) -> Toleration:
    return dice.pick(
        (
            Toleration(operator="Exists"),
            Toleration(key=dice.pick(("dedicated", "gpu")), operator="Exists"),
            Toleration(key="dedicated", value=dice.pick(("", "a", "b")), operator="Equal"),
            Toleration(key="gpu", value="a", effect=dice.pick(EFFECTS)),
            Toleration(value="a"),
            Toleration(key="node.kubernetes.io/unschedulable", operator="Exists"),
            Toleration(
                key="gpu", operator=dice.pick(("Gt", "Lt")), value=dice.pick(("1", "9", "09"))
            ),
        )
    )


def node_selector(dice: Dice, nodes: tuple[str, ...]) -> NodeSelector:
    """One to three terms, now and then an empty one or one that names nodes."""
    terms = [_node_term(dice, nodes) for _ in range(dice.between(1, 2))]
    if dice.chance(0.05):
        terms.append(NodeSelectorTerm())
    return NodeSelector(node_selector_terms=tuple(terms))


def spread(dice: Dice, *, hard: bool, odd: bool) -> TopologySpreadConstraint:
    return TopologySpreadConstraint(
        max_skew=dice.weighted({1: 4, 2: 2, 3: 1}),
        topology_key=dice.pick(TOPOLOGY_KEYS),
        when_unsatisfiable="DoNotSchedule" if hard else "ScheduleAnyway",
        label_selector=_pod_selector(dice, odd=odd),
        min_domains=dice.weighted({None: 4, 1: 1, 2: 1, 4: 1}),
        node_affinity_policy=dice.pick((None, "Honor", "Ignore")),
        node_taints_policy=dice.pick((None, "Honor", "Ignore")),
        match_label_keys=dice.pick(((), (), ("tier",), ("tier", "absent"))),
    )


def affinity_term(dice: Dice, *, odd: bool) -> PodAffinityTerm:
    namespaces: tuple[str, ...] = ()
    namespace_selector = None
    match dice.weighted({"own": 5, "named": 1, "selected": 3, "both": 1}):
        case "named":
            namespaces = dice.some(NAMESPACES, most=2)
        case "selected":
            namespace_selector = _namespace_selector(dice)
        case "both":
            namespaces = dice.some(NAMESPACES, most=1)
            namespace_selector = _namespace_selector(dice)
    return PodAffinityTerm(
        topology_key=dice.pick(TOPOLOGY_KEYS),
        label_selector=_pod_selector(dice, odd=odd),
        namespaces=namespaces,
        namespace_selector=namespace_selector,
    )


def host_port(dice: Dice) -> ContainerPort:
    return ContainerPort(
        container_port=80,
        host_port=dice.pick((8080, 8080, 9090)),
        host_ip=dice.pick(("", "", "0.0.0.0", "10.0.0.1", "127.0.0.1", "::")),
        protocol=dice.pick(("", "TCP", "TCP", "UDP")),
    )


def _node_term(dice: Dice, nodes: tuple[str, ...]) -> NodeSelectorTerm:
    names: tuple[NodeSelectorRequirement, ...] = ()
    if dice.chance(0.15):
        # More than one name is more than a scheduler takes, though it looks at all of them.
        values = dice.some(nodes, most=2 if dice.chance(0.2) else 1)
        operator = dice.weighted({"In": 4, "NotIn": 1})
        names = (NodeSelectorRequirement(key="metadata.name", operator=operator, values=values),)
        if dice.chance(0.2):
            names += (
                NodeSelectorRequirement(key="metadata.name", operator="In", values=(nodes[0],)),
            )
    labels = [_node_requirement(dice) for _ in range(dice.between(0 if names else 1, 2))]
    return NodeSelectorTerm(match_expressions=tuple(labels), match_fields=names)


def _node_requirement(dice: Dice) -> NodeSelectorRequirement:
    operator = dice.pick(("In", "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"))
    match operator:
        case "In" | "NotIn":
            key, known = dice.pick(
                ((builders.ZONE, ZONES), ("disk", ("ssd", "hdd", "none")), ("rack", ("r1", "")))
            )
            return NodeSelectorRequirement(key=key, operator=operator, values=dice.some(known))
        case "Gt" | "Lt":
            value = dice.pick(("3", "5", "7", "five"))
            return NodeSelectorRequirement(key="gen", operator=operator, values=(value,))
        case _:
            key = dice.pick(("disk", "rack", "gen", "absent"))
            return NodeSelectorRequirement(key=key, operator=operator)


def _pod_selector(dice: Dice, *, odd: bool) -> LabelSelector | None:
    app = dice.pick(APPS)
    if odd and dice.chance(0.1):
        return INVALID
    expressions = (
        LabelRequirement(key="app", operator="In", values=dice.some(APPS, most=2)),
        LabelRequirement(key="app", operator="NotIn", values=(app,)),
        LabelRequirement(key="tier", operator="Exists"),
        LabelRequirement(key="tier", operator="DoesNotExist"),
    )
    match dice.weighted({"labels": 10, "expression": 4, "both": 2, "everything": 1, "nothing": 1}):
        case "labels":
            return builders.selecting({"app": app})
        case "expression":
            return builders.selecting({}, dice.pick(expressions))
        case "both":
            return builders.selecting({"app": app}, dice.pick(expressions[2:]))
        case "everything":
            return LabelSelector()
        case _:
            return None


def _namespace_selector(dice: Dice) -> LabelSelector:
    return dice.pick(
        (
            LabelSelector(),
            builders.selecting({"team": "blue"}),
            builders.selecting({}, LabelRequirement(key="team", operator="Exists")),
            builders.selecting({}, LabelRequirement(key="team", operator="DoesNotExist")),
            builders.selecting(
                {}, LabelRequirement(key="team", operator="NotIn", values=("blue",))
            ),
        )
    )
