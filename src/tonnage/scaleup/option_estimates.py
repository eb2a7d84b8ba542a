"""Which node groups are worth offering to the expander, and what each of them would come to.

Packing is what costs, so it is done as little as the choice allows: groups are packed from
the most promising on, a group whose best case is worse than an option that is there already
is not packed, and groups that are alike to every waiting pod are packed once.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import TypeAlias

import msgspec
import numpy as np

from tonnage.objects import resources
from tonnage.scaleup.bounds import Supply
from tonnage.scaleup.candidates import Candidate, Candidates
from tonnage.scaleup.expanders import Chain, Option, Prospect, Score
from tonnage.scaleup.pod_groups import PodGroup
from tonnage.snapshot.rows import Bools

TOO_MUCH_TO_PACK = 60_000
"""Groups of pods times groups of nodes above which promises are weighed instead of packings."""

Estimate: TypeAlias = Callable[[Candidate, list[PodGroup]], Option | None]


def options(
    candidates: Candidates,
    groups: Sequence[PodGroup],
    feasible: Bools,
    *,
    expander: Chain,
    limit: Callable[[Candidate], int],
    estimate: Estimate,
    packed_as: dict[str, str],
) -> list[Option]:
    """One option for each group that could win.

    `feasible` says which groups of pods (rows) fit which candidates (columns), `limit` how many
    nodes a candidate may grow by, and `estimate` packs. `packed_as` is filled with the name of
    the candidate that was packed in each one's place.
    """
    prospects = _prospects(candidates, groups, feasible, limit)
    if len(prospects) * len(groups) > TOO_MUCH_TO_PACK:
        return [_promise(candidate, prospect) for candidate, prospect in prospects]
    prospects.sort(key=lambda one: (expander.best_case(one[1]), one[0].name))
    found: list[Option] = []
    alike: dict[Hashable, tuple[str, Option | None]] = {}
    supplies = candidates.supplies()
    apart = [candidates.depends_on_others(group) for group in groups]
    best: Score | None = None
    for candidate, prospect in prospects:
        if best is not None and expander.best_case(prospect) > best:
            continue
        column = feasible[:, candidate.position]
        chosen = np.flatnonzero(column).tolist()
        fitting = [groups[index] for index in chosen]
        key: Hashable = candidate.name
        if not any(apart[index] for index in chosen):
            key = _likeness(candidate, supplies[candidate.position], column, limit(candidate))
        if key not in alike:
            alike[key] = (candidate.name, estimate(candidate, fitting))
        packed_as[candidate.name], option = alike[key]
        if option is not None:
            option = msgspec.structs.replace(
                option, group=candidate.name, price_per_hour=candidate.group.price_per_hour
            )
            found.append(option)
            score = expander.score(option)
            best = score if best is None else min(best, score)
    return found


def option(candidate: Candidate, *, nodes: int, pods: int, cpu: int, memory: int) -> Option:
    """An option of the candidate for so many pods with these requests."""
    return Option(
        group=candidate.name,
        node_count=nodes,
        pod_count=pods,
        cpu_milli=cpu,
        memory=memory,
        node_cpu_milli=candidate.cpu_milli,
        node_memory=candidate.memory,
        price_per_hour=candidate.group.price_per_hour,
        gpu=candidate.gpu,
    )


def _prospects(
    candidates: Candidates,
    groups: Sequence[PodGroup],
    feasible: Bools,
    limit: Callable[[Candidate], int],
) -> list[tuple[Candidate, Prospect]]:
    """What is known of each candidate before it is packed, all at once."""
    sizes = np.array([group.size for group in groups])
    rooms = np.array([candidates.room(group) for group in groups])
    cpu = np.array([group.requests("cpu") for group in groups]) * sizes
    memory = np.array([group.requests("memory") for group in groups]) * sizes
    awkward = np.array([group.tracked or candidates.depends_on_others(group) for group in groups])
    fits = feasible.astype(np.int64)
    alone = -(-sizes[:, None] // np.maximum(rooms, 1)) * fits
    totals = np.stack((sizes @ fits, cpu @ fits, memory @ fits))
    certain = ~np.any(feasible & (awkward[:, None] | (rooms <= 0)), axis=0)
    found = []
    for candidate in candidates:
        position, most = candidate.position, limit(candidate)
        count, wants_cpu, wants_memory = totals[:, position].tolist()
        if not count or most <= 0:
            continue
        has = resources.allocatable(candidate.template.node)
        prospect = Prospect(
            group=candidate.name,
            pod_count_max=count,
            cpu_milli=wants_cpu,
            memory=wants_memory,
            nodes_min=max(
                int(alone[:, position].max()),
                -(-wants_cpu // has["cpu"]) if has["cpu"] else 1,
                -(-wants_memory // has["memory"]) if has["memory"] else 1,
            ),
            node_cpu_milli=candidate.cpu_milli,
            node_memory=candidate.memory,
            price=candidate.group.price_per_hour,
            gpu=candidate.gpu,
            exact=bool(certain[position]) and int(alone[:, position].sum()) <= most,
        )
        found.append((candidate, prospect))
    return found


def _promise(candidate: Candidate, prospect: Prospect) -> Option:
    """The option if everything packed without loss."""
    return option(
        candidate,
        nodes=prospect.nodes_min,
        pods=prospect.pod_count_max,
        cpu=prospect.cpu_milli,
        memory=prospect.memory,
    )


def _likeness(candidate: Candidate, supply: Supply, feasible: Bools, limit: int) -> Hashable:
    """Equal for candidates that packing cannot tell apart, where labels may not tell."""
    return (
        tuple(sorted(supply.capacity.items())),
        candidate.cpu_milli,
        candidate.memory,
        candidate.gpu,
        candidate.group.all_or_nothing,
        limit,
        feasible.tobytes(),
    )
