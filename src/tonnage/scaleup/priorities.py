"""An operator's priorities of node groups, in the format of upstream's ConfigMap."""

import re
from collections.abc import Mapping, Sequence

from tonnage.errors import InputError


class Priorities:
    """Priorities and the expressions for the ids of the groups that have them, highest first."""

    def __init__(self, rules: Mapping[int, Sequence[re.Pattern[str]]]) -> None:
        self.rules = tuple((priority, tuple(rules[priority])) for priority in sorted(rules)[::-1])

    def of(self, group: str) -> int | None:
        """The highest priority with an expression that is found in the id."""
        for priority, expressions in self.rules:
            if any(expression.search(group) for expression in expressions):
                return priority
        return None


def read_priorities(rules: Mapping[str, Sequence[str]]) -> Priorities:
    """Priorities from a map whose keys are whole numbers, as text or not."""
    compiled: dict[int, list[re.Pattern[str]]] = {}
    for key, expressions in rules.items():
        if isinstance(key, bool) or not re.fullmatch(_WHOLE_NUMBER, str(key)):
            raise InputError(f"priorities: {key!r}: expected a whole number")
        if expressions is not None and not isinstance(expressions, list | tuple):
            raise InputError(f"priorities[{key}]: expected a list of regular expressions")
        into = compiled.setdefault(int(key), [])
        into.extend(_compile(key, expression) for expression in expressions or ())
    return Priorities(compiled)


_WHOLE_NUMBER = r"[+-]?[0-9]{1,18}"
_CLASS_BY_NAME = r"\[:\^?[a-z]+:\]"


def _compile(priority: object, expression: object) -> re.Pattern[str]:
    if expression is None:
        # Upstream takes it for the empty expression, which matches every group.
        raise InputError(f"priorities[{priority}]: an empty entry, expected a regular expression")
    if not isinstance(expression, str | int):
        raise InputError(f"priorities[{priority}]: {expression!r}: expected a regular expression")
    text = str(expression)
    if re.search(_CLASS_BY_NAME, text):
        # Upstream has these classes; here they would silently mean something else.
        raise InputError(f"priorities[{priority}]: {text!r}: write the class out, such as [a-z]")
    try:
        return re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        raise InputError(f"priorities[{priority}]: {text!r}: {error}") from error
