"""What the results of a sweep say together: by figure, by axis and value, the best, the failed."""

from collections.abc import Iterable, Sequence
from math import inf
from statistics import median

from tonnage.objects.meta import WholeRecord
from tonnage.objects.scenarios import API_VERSION
from tonnage.sweep.results import Result, ResultHead

_BEST = 5
_FAILED = 20

SHOWN: dict[str, tuple[str, ...]] = {
    "plan": ("nodesBought", "costPerHour", "podsLeftOut"),
    "scale-down": ("nodesRemoved", "savesPerHour", "podsMoved"),
    "simulate": ("cost", "timeToRunningP99", "pendingAtEnd"),
    "explore": ("violations", "changes", "podsEvicted"),
}
"""The figures to see first."""

_ORDER: dict[str, tuple[tuple[str, int], ...]] = {
    "plan": (("podsLeftOut", 1), ("costPerHour", 1), ("nodesBought", 1)),
    "scale-down": (("nodesRemoved", -1), ("savesPerHour", -1), ("podsMoved", 1)),
    "simulate": (("pendingAtEnd", 1), ("stuckAtEnd", 1), ("cost", 1), ("timeToRunningP99", 1)),
    "explore": (("violations", -1), ("changes", -1)),
}
"""What is better, most important first; for the explorer what is worth a look."""


class FigureSpread(WholeRecord, frozen=True, kw_only=True):
    """A figure over variants; those where it has no value are left out."""

    least: float
    median: float
    most: float


class ValueSummary(WholeRecord, frozen=True, kw_only=True):
    """The variants that have one value of an axis."""

    value: str | float
    variants: int
    failed: int
    figures: dict[str, FigureSpread]


class AxisSummary(WholeRecord, frozen=True, kw_only=True):
    axis: str
    values: tuple[ValueSummary, ...]


class NamedFigures(WholeRecord, frozen=True, kw_only=True):
    variant: str
    cluster: str
    figures: dict[str, float | None]


class FailedVariant(WholeRecord, frozen=True, kw_only=True):
    variant: str
    cluster: str
    error: str


class SweepSummary(WholeRecord, frozen=True, kw_only=True):
    """All results in one document. `best` and `errors` are the first few."""

    api_version: str = API_VERSION
    kind: str = "SweepSummary"
    sweep: str
    ask: str
    variants: int
    answered: int
    failed: int
    missing: int
    figures: dict[str, FigureSpread]
    axes: tuple[AxisSummary, ...]
    best: tuple[NamedFigures, ...]
    errors: tuple[FailedVariant, ...]


def of(head: ResultHead, results: Sequence[Result]) -> SweepSummary:
    """Sum up results, in the order of their variants."""
    good = [one for one in results if not one.error]
    failed = [one for one in results if one.error]
    best = sorted(good, key=lambda one: _rank(head.ask, one))[:_BEST]
    return SweepSummary(
        sweep=head.sweep,
        ask=head.ask,
        variants=head.variants,
        answered=len(good),
        failed=len(failed),
        missing=head.variants - len(results),
        figures=_spreads(good),
        axes=tuple(_axes(results)),
        best=tuple(
            NamedFigures(variant=one.variant, cluster=one.cluster, figures=one.figures)
            for one in best
        ),
        errors=tuple(
            FailedVariant(variant=one.variant, cluster=one.cluster, error=one.error)
            for one in failed[:_FAILED]
        ),
    )


def _axes(results: Sequence[Result]) -> Iterable[AxisSummary]:
    labels = dict.fromkeys(label for one in results for label in one.values)
    if len({one.cluster for one in results}) > 1:
        yield _axis("cluster", [(one.cluster, one) for one in results])
    for label in labels:
        yield _axis(label, [(one.values[label], one) for one in results if label in one.values])


def _axis(label: str, rows: Sequence[tuple[str | float, Result]]) -> AxisSummary:
    by_value: dict[str | float, list[Result]] = {}
    for value, result in rows:
        by_value.setdefault(value, []).append(result)
    return AxisSummary(
        axis=label,
        values=tuple(
            ValueSummary(
                value=value,
                variants=len(found),
                failed=sum(bool(one.error) for one in found),
                figures=_spreads([one for one in found if not one.error]),
            )
            for value, found in by_value.items()
        ),
    )


def _spreads(results: Sequence[Result]) -> dict[str, FigureSpread]:
    values: dict[str, list[float]] = {}
    for one in results:
        for name, value in one.figures.items():
            found = values.setdefault(name, [])
            if value is not None:
                found.append(value)
    return {
        name: FigureSpread(least=min(found), median=median(found), most=max(found))
        for name, found in values.items()
        if found
    }


def _rank(ask: str, result: Result) -> tuple[float, ...]:
    key = []
    for name, sign in _ORDER.get(ask, ()):
        value = result.figures.get(name)
        key.append(inf if value is None else sign * value)
    return (*key, result.position)
