"""Attach limits by who says them: where catalogue, CSINode, agent and lessons disagree."""

from collections import Counter
from collections.abc import Iterable, Mapping
from operator import is_not
from typing import Any

from tonnage.board.moment import Moment
from tonnage.groups import limits
from tonnage.groups.limit_lessons import Lesson
from tonnage.nodeagent import provenance
from tonnage.objects.meta import Record
from tonnage.objects.nodes import Node

_NO_AGENT = (None, "")


class LimitRow(Record, frozen=True, kw_only=True, omit_defaults=False):
    """What each source says of a driver on a type in a group; `None` where one says nothing.

    `csinode` are the numbers of nodes with how many say each, the commonest first; "unlimited" is
    written as -2. `next` is what the group's next node is taken to have, and `source` who says so.
    """

    group: str
    type: str
    driver: str
    nodes: int
    csinode: tuple[tuple[int, int], ...]
    catalogue: int | None
    agent: int | None
    agent_source: str
    learned: int | None
    ceiling: int | None
    next: int | None
    source: str
    disagree: bool


class LimitRowReader:
    """Reads rows anew only when nodes, CSINodes, lessons or limits of a plan are others."""

    def __init__(self) -> None:
        self._held: list[object] = []
        self._lessons: dict[tuple[str, str, str], int] = {}
        self._rows: dict[str, LimitRow] = {}

    def read(self, moment: Moment) -> Mapping[str, LimitRow]:
        inputs = moment.inputs
        planned = moment.plan.limits if moment.plan is not None else ()
        held = [*inputs.nodes.values(), *inputs.csinodes.values(), planned]
        lessons = _lessons(inputs.memory.lessons)
        if (
            lessons == self._lessons
            and len(held) == len(self._held)
            and not any(map(is_not, held, self._held))
        ):
            return self._rows
        self._held = held
        self._lessons = lessons
        objects = [(node, inputs.csinodes.get(name)) for name, node in inputs.nodes.items()]
        counts: dict[tuple[str, str, str], Counter[int]] = {}
        samples: dict[tuple[str, str, str], Node] = {}
        agents: dict[tuple[str, str, str], tuple[int | None, str]] = {}
        for node, csinode in objects:
            if csinode is None:
                continue
            group = inputs.group_of.get(node.metadata.name)
            place = (group.id if group is not None else "", limits.instance_type(node))
            told = provenance.decode(node.metadata.annotations)
            for driver in csinode.spec.drivers:
                key = (*place, driver.name)
                limit = driver.limit
                counts.setdefault(key, Counter())[-2 if limit is None else limit] += 1
                samples.setdefault(key, node)
                entry = told.get(driver.name)
                if entry is not None:
                    agents.setdefault(key, (entry.count, str(entry.source)))
        taken = {(one.group, one.driver): one for one in planned}
        self._rows = {}
        for key in sorted(counts):
            group_id, _, driver_name = key
            next_ = taken.get((group_id, driver_name))
            agent = agents.get(key, _NO_AGENT)
            self._rows["\0".join(key)] = _row(key, counts[key], samples[key], agent, lessons, next_)
        for (group_id, driver_name), one in taken.items():
            if not any(key[0] == group_id and key[2] == driver_name for key in counts):
                key = (group_id, "", driver_name)
                self._rows["\0".join(key)] = _row(key, Counter(), None, _NO_AGENT, lessons, one)
        return self._rows


def _row(
    key: tuple[str, str, str],
    counts: "Counter[int]",
    sample: Node | None,
    agent: tuple[int | None, str],
    lessons: Mapping[tuple[str, str, str], int],
    next_: Any,
) -> LimitRow:
    group, type_, driver = key
    catalogue = limits.from_catalogue(driver, sample) if sample is not None else None
    learned = lessons.get((type_, driver, "limit"))
    ceiling = lessons.get((type_, driver, "ceiling"))
    published, agent_source = agent
    following = next_.count if next_ is not None and next_.source != "unknown" else None
    numbers = {number for number in counts if number >= 0}
    said = numbers.union({catalogue, published, learned, ceiling, following} - {None})
    return LimitRow(
        group=group,
        type=type_,
        driver=driver,
        nodes=sum(counts.values()),
        csinode=tuple(counts.most_common()),
        catalogue=catalogue,
        agent=published,
        agent_source=agent_source,
        learned=learned,
        ceiling=ceiling,
        next=following,
        source=next_.source if next_ is not None else "",
        disagree=len(said) > 1 or (-2 in counts and bool(said)),
    )


def _lessons(lessons: Iterable[Lesson]) -> dict[tuple[str, str, str], int]:
    return {(one.instance_type, one.driver, one.kind): one.count for one in lessons}
