"""Every plan there could be for a small cluster whose pods mind each other.

    cluster = small_cluster(seed)
    plans = every_plan(cluster)

Nodes may be bought and pods be placed in any order, as long as kube-scheduler would place each pod
there at that moment. The rules are written out here once more, for CPU, spreads and affinity only.
"""

import random
from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

from tonnage.objects.kinds import KubeObject
from tonnage.objects.meta import ObjectMeta
from tonnage.objects.pods import PodAffinityTerm, TopologySpreadConstraint
from tonnage.objects.scenarios import GroupTemplate, NodeGroup, NodeGroupSpec
from tonnage.testing import builders

APPS = ("web", "db")
MOST_STATES = 60_000


class Rule(NamedTuple):
    """What pods of a kind ask of others: `spread` with a skew, `near` or `apart`."""

    name: str
    key: str
    app: str
    skew: int = 1
    least: int | None = None


class Kind(NamedTuple):
    app: str
    cpu: int
    number: int
    rules: tuple[Rule, ...]


class Machine(NamedTuple):
    """A node: of a group, by its number, or one that is there (-1) with a pod of some app on it."""

    group: int
    zone: str
    cpu: int
    app: str | None = None


class SmallCluster(NamedTuple):
    kinds: tuple[Kind, ...]
    there: tuple[Machine, ...]
    groups: tuple[Machine, ...]
    most: tuple[int, ...]
    prices: tuple[str, ...]

    def objects(self) -> list[KubeObject]:
        return [*self._nodes(), *self._groups(), *self._pods()]

    def _nodes(self) -> Iterator[KubeObject]:
        for number, one in enumerate(self.there):
            yield builders.node(f"n{number}", cpu=one.cpu + 1, zone=one.zone)
            labels = {} if one.app is None else {"app": one.app}
            yield builders.pod(f"on-{number}", on=f"n{number}", cpu="1", labels=labels)

    def _groups(self) -> Iterator[KubeObject]:
        for number, one in enumerate(self.groups):
            template = GroupTemplate(node=builders.node("t", cpu=one.cpu, zone=one.zone))
            spec = NodeGroupSpec(
                max_size=self.most[number], price_per_hour=self.prices[number], template=template
            )
            yield NodeGroup(metadata=ObjectMeta(name=f"g{number}"), spec=spec)

    def _pods(self) -> Iterator[KubeObject]:
        for number, kind in enumerate(self.kinds):
            for member in range(kind.number):
                yield builders.pod(
                    f"k{number}-{member}",
                    cpu=kind.cpu,
                    labels={"app": kind.app},
                    spread=[_constraint(one) for one in kind.rules if one.name == "spread"],
                    near=[_term(one) for one in kind.rules if one.name == "near"],
                    apart=[_term(one) for one in kind.rules if one.name == "apart"],
                )


def _constraint(rule: Rule) -> TopologySpreadConstraint:
    return TopologySpreadConstraint(
        max_skew=rule.skew,
        topology_key=rule.key,
        when_unsatisfiable="DoNotSchedule",
        label_selector=builders.selecting({"app": rule.app}),
        min_domains=rule.least,
    )


def _term(rule: Rule) -> PodAffinityTerm:
    return PodAffinityTerm(
        topology_key=rule.key, label_selector=builders.selecting({"app": rule.app})
    )


def small_cluster(seed: int) -> SmallCluster:
    """Up to three kinds of pods, three groups that run out and two nodes."""
    rng = random.Random(seed)
    zones = ("a", "b", "c")[: rng.randint(1, 3)]
    kinds = []
    for _ in range(rng.randint(2, 3)):
        app = rng.choice(APPS)
        kinds.append(Kind(app, rng.randint(1, 2), rng.randint(1, 3), tuple(_rules(rng, app))))
    there = [
        Machine(-1, rng.choice(zones), rng.randint(0, 3), rng.choice((None, *APPS)))
        for _ in range(rng.randint(0, 2))
    ]
    groups = [Machine(n, rng.choice(zones), rng.randint(1, 4)) for n in range(rng.randint(1, 3))]
    return SmallCluster(
        tuple(kinds),
        tuple(there),
        tuple(groups),
        tuple(rng.randint(1, 2) for _ in groups),
        tuple(rng.choice(("0.1", "0.2", "0.25", "0.4")) for _ in groups),
    )


def _rules(rng: random.Random, app: str) -> Iterator[Rule]:
    for key in (builders.ZONE, builders.HOSTNAME):
        drawn = rng.random()
        if drawn < 0.4:
            least = rng.choice((None, None, 2, 3))
            yield Rule("spread", key, app, skew=rng.randint(1, 2), least=least)
        elif drawn < 0.6:
            yield Rule(rng.choice(("near", "apart")), key, rng.choice((app, *APPS)))


Counts: TypeAlias = tuple[int, ...]
State: TypeAlias = tuple[tuple[int, Counts], ...]
"""The nodes: those there, by their number below 0, and those bought, by group; pods by kind."""


def every_plan(cluster: SmallCluster) -> set[tuple[Counts, Counts]] | None:
    """Nodes bought by group and pods placed by kind of every plan; `None` if they are too many."""
    nothing = (0,) * len(cluster.kinds)
    start: State = tuple((-1 - number, nothing) for number in range(len(cluster.there)))
    seen, stack = {start}, [start]
    while stack:
        if len(seen) > MOST_STATES:
            return None
        state = stack.pop()
        for after in _next(cluster, state):
            if after not in seen:
                seen.add(after)
                stack.append(after)
    return {_outcome(cluster, state) for state in seen}


def _outcome(cluster: SmallCluster, state: State) -> tuple[Counts, Counts]:
    bought = tuple(sum(node == group for node, _ in state) for group in range(len(cluster.groups)))
    placed = tuple(sum(held[kind] for _, held in state) for kind in range(len(cluster.kinds)))
    return bought, placed


def _next(cluster: SmallCluster, state: State) -> Iterator[State]:
    bought, placed = _outcome(cluster, state)
    for group, most in enumerate(cluster.most):
        if bought[group] < most:
            yield tuple(sorted((*state, (group, (0,) * len(cluster.kinds)))))
    for number, kind in enumerate(cluster.kinds):
        if placed[number] == kind.number:
            continue
        for place, (node, held) in enumerate(state):
            if _fits(cluster, state, place, number):
                more = tuple(count + (one == number) for one, count in enumerate(held))
                yield tuple(sorted((*state[:place], (node, more), *state[place + 1 :])))


def _machine(cluster: SmallCluster, node: int) -> Machine:
    return cluster.groups[node] if node >= 0 else cluster.there[-1 - node]


def _fits(cluster: SmallCluster, state: State, place: int, number: int) -> bool:
    kind, (node, held) = cluster.kinds[number], state[place]
    used = sum(count * one.cpu for count, one in zip(held, cluster.kinds, strict=True))
    if used + kind.cpu > _machine(cluster, node).cpu:
        return False
    for other, one in enumerate(cluster.kinds):
        for rule in one.rules:
            if rule.name == "apart" and rule.app == kind.app:
                # Others keep away from it too.
                beside = _sharing(cluster, state, place, rule.key)
                if any(state[at][1][other] for at in beside):
                    return False
    return all(_holds(cluster, state, place, kind, rule) for rule in kind.rules)


def _holds(cluster: SmallCluster, state: State, place: int, kind: Kind, rule: Rule) -> bool:
    """Whether a rule of the kind lets one more of it in there."""
    beside = _sharing(cluster, state, place, rule.key)
    here = sum(_matching(cluster, state[at], rule.app) for at in beside)
    if rule.name == "apart":
        return not here
    if rule.name == "near":
        anywhere = any(_matching(cluster, one, rule.app) for one in state)
        return bool(here) or (not anywhere and rule.app == kind.app)
    domains = {tuple(_sharing(cluster, state, at, rule.key)) for at in range(len(state))}
    lowest = min(sum(_matching(cluster, state[at], rule.app) for at in one) for one in domains)
    if len(domains) < (rule.least or 1):
        lowest = 0
    return here + 1 - lowest <= rule.skew


def _sharing(cluster: SmallCluster, state: State, place: int, key: str) -> list[int]:
    """The nodes that are in the domain of one."""
    if key == builders.HOSTNAME:
        return [place]
    zone = _machine(cluster, state[place][0]).zone
    return [at for at, (node, _) in enumerate(state) if _machine(cluster, node).zone == zone]


def _matching(cluster: SmallCluster, one: tuple[int, Counts], app: str) -> int:
    node, held = one
    counts = zip(held, cluster.kinds, strict=True)
    found = sum(count for count, kind in counts if kind.app == app)
    return found + (_machine(cluster, node).app == app)
