"""Who is evicted first, and how long each has to end: upstream's `--drain-priority-config`."""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tonnage.errors import InputError
from tonnage.objects.pods import Pod

_ROUND = " *-?[0-9]+:[0-9]+ *"
PATTERN = f"^({_ROUND}(,{_ROUND})*)?$"
"""What is accepted, as the schema has it."""


class Round(NamedTuple):
    """Pods that are evicted together, up to a priority; none is given longer than `grace`."""

    priority: int
    grace: int


def rounds(config: str, *, grace: int) -> tuple[Round, ...]:
    """Read `PRIORITY:SECONDS,...`; without it, all pods are evicted together."""
    if not config:
        return (Round(0, grace),)
    found: list[Round] = []
    for part in config.split(","):
        if not re.fullmatch(_ROUND, part):
            raise InputError(
                f"`drainPriorityConfig`: {part!r}: expected PRIORITY:SECONDS, such as 1000:60"
            )
        priority, _, seconds = part.partition(":")
        found.append(Round(int(priority), int(seconds)))
    return tuple(sorted(found))


def sorted_into(pods: Iterable[Pod], among: Sequence[Round]) -> list[tuple[Round, list[Pod]]]:
    """The pods of each round: of the last whose priority is not above theirs."""
    found: list[list[Pod]] = [[] for _ in among]
    for pod in pods:
        priority = pod.spec.priority or 0
        last = sum(one.priority <= priority for one in among)
        found[max(last - 1, 0)].append(pod)
    return [(one, some) for one, some in zip(among, found, strict=True) if some]
