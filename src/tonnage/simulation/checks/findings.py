"""What judging comes to: rules that were broken, and breaches that nobody could have prevented."""

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from tonnage.report.figures import moment


class Violation(NamedTuple):
    """A rule that was broken, when and how."""

    at: float
    rule: str
    what: str

    def __str__(self) -> str:
        return f"{moment(self.at)} {self.rule}: {self.what}"


class Findings:
    """Everything found so far; `excused` counts breaches by why they are nobody's fault."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self.violations: list[Violation] = []
        self.excused: Counter[str] = Counter()

    def violated(self, rule: str, what: str) -> None:
        self.violations.append(Violation(round(self._now(), 3), rule, what))

    def excuse(self, why: str) -> None:
        self.excused[why] += 1
