"""Where cluster-autoscaler can have put pending pods before it looked for nodes to give back.

It puts each on some node with room for it, by chance: it walks a Go map. What it then says of nodes
depends on that. So for each scenario with pending pods there have to be places for them, each with
room, with which all that we say is what was recorded. Here they are looked for.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

Json = dict[str, Any]
Ask = Callable[[str, Sequence[Json]], list[Json]]
"""What `tonnage batch KIND` says of each of some scenarios."""
Places = dict[str, str]
"""The nodes of pods, both by name."""
Numbers = tuple[float, ...]

_TOGETHER = 25
"""Ways to place the pods of a scenario that are tried before others are looked for."""
_RESOURCES = ("cpu", "memory", "gpu")
_EXACT = 1e-9
_EXPENDABLE = -10


def pending_pods(scenario: Json) -> list[str]:
    return [_key(one) for one in scenario["spec"]["objects"] if _is_pending(one)]


def explained(scenarios: Sequence[Json], expected: Mapping[str, Json], ask: Ask) -> list[Json]:
    """Our answers with pending pods where all is as recorded; none of scenarios without such."""
    named = {one["metadata"]["name"]: one for one in scenarios}
    found: dict[str, Json] = {}

    def look(ways: Mapping[str, list[Places]]) -> None:
        for name, answers in _asked(named, ways, ask).items():
            for answer in answers:
                if _is_recorded(answer["plan"], expected[name]):
                    found[name] = answer

    look({name: [{}] for name in named})
    open_ = _ways_of({name: one for name, one in named.items() if name not in found}, expected, ask)
    while open_:
        ways = {name: list(itertools.islice(one, _TOGETHER)) for name, one in open_.items()}
        look(ways)
        open_ = {name: one for name, one in open_.items() if ways[name] and name not in found}
    return list(found.values())


def _ways_of(
    named: Mapping[str, Json], expected: Mapping[str, Json], ask: Ask
) -> dict[str, Iterator[Places]]:
    """Ways to place the pending pods of each scenario, where utilisations are as recorded."""
    turns = {name: list(_turns(one)) for name, one in named.items()}
    answers = _asked(named, turns, ask, alone=True)
    found = {}
    for told in ask("verdicts", [_without_expendable(one) for one in named.values()]):
        name = told["scenario"]
        room: dict[str, list[str | None]] = {pod: [] for pod in pending_pods(named[name])}
        for one in told["verdicts"]:
            if one["code"] == "Success":
                room[one["pod"]].append(one["node"])
        added = _added(turns[name], [one["plan"] for one in answers[name]])
        found[name] = _ways(room, added, expected[name]["utilisation"])
    return found


def _turns(scenario: Json) -> Iterator[Places]:
    """No pod on any node; then each pod on each node once, at most one on a node at a time."""
    yield {}
    pods = pending_pods(scenario)
    nodes: list[str | None] = [
        one["metadata"]["name"] for one in scenario["spec"]["objects"] if one["kind"] == "Node"
    ]
    nodes += [None] * (len(pods) - len(nodes))
    for turn in range(len(nodes)):
        turned = nodes[turn:] + nodes[:turn]
        yield {pod: node for pod, node in zip(pods, turned, strict=False) if node is not None}


def _added(turns: list[Places], plans: list[Json]) -> Mapping[tuple[str, str], Numbers]:
    """The utilisation of each node, with no pod (as "") and what each pod adds to it."""
    empty, *others = map(_utilisations, plans)
    found = {("", node): numbers for node, numbers in empty.items()}
    for places, utilisations in zip(turns[1:], others, strict=True):
        for pod, node in places.items():
            pairs = zip(utilisations[node], empty[node], strict=True)
            found[pod, node] = tuple(more - less for more, less in pairs)
    return found


def _ways(
    room: Mapping[str, list[str | None]],
    added: Mapping[tuple[str, str], Numbers],
    recorded: Mapping[str, Json],
) -> Iterator[Places]:
    """The ways to place pods with which the utilisations come to those that were recorded."""
    wanted = {node: _numbers(one) for node, one in recorded.items()}
    for chosen in itertools.product(*([*nodes, None] for nodes in room.values())):
        places = {pod: node for pod, node in zip(room, chosen, strict=True) if node is not None}
        sums = {node: list(added["", node]) for node in wanted}
        for pod, node in places.items():
            if node in sums:
                sums[node] = [a + b for a, b in zip(sums[node], added[pod, node], strict=True)]
        if all(_is_near(sums[node], numbers) for node, numbers in wanted.items()):
            yield places


def _asked(
    named: Mapping[str, Json], ways: Mapping[str, list[Places]], ask: Ask, *, alone: bool = False
) -> dict[str, list[Json]]:
    """What we say of each scenario with its pods in each of these ways; `alone`: no others wait."""
    every = [_placed(named[name], one, alone) for name, found in ways.items() for one in found]
    answers: dict[str, list[Json]] = {name: [] for name in ways}
    for one in ask("scale-down", every):
        answers[one["scenario"]].append(one)
    return answers


def _placed(scenario: Json, places: Places, alone: bool) -> Json:
    objects = []
    for one in scenario["spec"]["objects"]:
        if not _is_pending(one):
            objects.append(one)
        elif _key(one) in places:
            objects.append({**one, "spec": {**one["spec"], "nodeName": places[_key(one)]}})
        elif not alone:
            objects.append(one)
    return _with(scenario, objects)


def _without_expendable(scenario: Json) -> Json:
    """As cluster-autoscaler sees it: without pods that would make room for any other."""
    objects = scenario["spec"]["objects"]
    kept = [one for one in objects if (one.get("spec", {}).get("priority") or 0) >= _EXPENDABLE]
    return _with(scenario, kept)


def _with(scenario: Json, objects: list[Json]) -> Json:
    return {**scenario, "spec": {**scenario["spec"], "objects": objects}}


def _utilisations(plan: Json) -> dict[str, Numbers]:
    return {one["node"]: _numbers(one.get("utilisation") or {}) for one in plan["nodes"]}


def _numbers(utilisation: Json) -> Numbers:
    return tuple(utilisation.get(one) or 0.0 for one in _RESOURCES)


def _is_recorded(plan: Json, recorded: Json) -> bool:
    """Whether what depends on places is the same; `compare` judges it with all the rest."""
    nodes = {one["node"]: one.get("alone") or {} for one in plan["nodes"]}
    utilisations = _utilisations(plan)
    return all(
        _is_near(utilisations.get(node, ()), _numbers(one))
        for node, one in recorded["utilisation"].items()
    ) and all(
        _sorted(nodes.get(node, {}).get(field)) == _sorted(value)
        for node, verdict in recorded["alone"].items()
        for field, value in verdict.items()
    )


def _is_near(some: Sequence[float], others: Sequence[float]) -> bool:
    return len(some) == len(others) and all(
        abs(a - b) <= _EXACT for a, b in zip(some, others, strict=True)
    )


def _sorted(value: Any) -> Any:
    return sorted(value) if isinstance(value, list) else value


def _is_pending(one: Json) -> bool:
    return (
        one["kind"] == "Pod"
        and not one["spec"].get("nodeName")
        and one.get("status", {}).get("phase") not in ("Succeeded", "Failed")
    )


def _key(pod: Json) -> str:
    meta = pod["metadata"]
    return f"{meta.get('namespace', 'default')}/{meta['name']}"
