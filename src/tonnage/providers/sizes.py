"""The sizes a group may be asked for: the rules every provider refuses by, in the same words."""

from collections.abc import Collection

from tonnage.errors import ProviderError
from tonnage.groups.model import Group


def check_increase(group: Group, delta: int) -> None:
    """Refuse an increase by nothing, past the maximum, or to part of an all-or-nothing group."""
    _require_positive(group, "increased", delta)
    target = group.target + delta
    if target > group.max_size:
        raise ProviderError(
            f"group {group.id}: {target} nodes asked for, its maximum is {group.max_size}"
        )
    if group.all_or_nothing and target != group.max_size:
        raise ProviderError(
            f"group {group.id}: {target} nodes asked for, it has either none or {group.max_size}"
        )


def check_own(group: Group, nodes: Collection[str], *, instances: Collection[str] = ()) -> None:
    """Refuse nodes, and ids of machines that no node has registered for, that are not its own."""
    strangers = sorted(set(nodes) - set(group.nodes) - set(instances))
    if strangers:
        raise ProviderError(f"group {group.id}: not its nodes: {', '.join(strangers)}")


def check_deletion(group: Group, going: Collection[str]) -> None:
    """Refuse a deletion that leaves less than the minimum or part of an all-or-nothing group."""
    target = group.target - len(going)
    if going and target < group.min_size:
        raise ProviderError(
            f"group {group.id}: {target} nodes would be left, its minimum is {group.min_size}"
        )
    if going and group.all_or_nothing and target:
        raise ProviderError(f"group {group.id}: {target} nodes would be left, it needs all or none")


def check_decrease(group: Group, delta: int, *, there: int) -> None:
    """Refuse a target that is not lower, or that would cost one of the nodes that are there."""
    _require_positive(group, "decreased", delta)
    target = group.target - delta
    if target < there:
        raise ProviderError(
            f"group {group.id}: a target of {target} is below the {there} nodes that are there"
        )


def _require_positive(group: Group, verb: str, delta: int) -> None:
    if delta <= 0:
        raise ProviderError(f"group {group.id}: cannot be {verb} by {delta}; expected 1 or more")
