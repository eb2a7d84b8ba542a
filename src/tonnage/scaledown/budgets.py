"""PodDisruptionBudgets: which of them speak of a pod, and how many evictions they allow."""

from collections.abc import Iterable

from tonnage.objects import selectors
from tonnage.objects.meta import ObjectMeta
from tonnage.objects.workloads import PodDisruptionBudget


class AllowedDisruptions:
    """A budget by its name, with the evictions it allows at the moment.

    `met_by_one_more` says that it would allow one if there were one more replica: it asks for a
    number of them, and has that.
    """

    __slots__ = ("allowed", "key", "met_by_one_more", "selector")

    def __init__(self, budget: PodDisruptionBudget) -> None:
        self.key = budget.metadata.key
        self.selector = budget.spec.selector
        status = budget.status
        self.allowed = status.disruptions_allowed
        self.met_by_one_more = (
            isinstance(budget.spec.min_available, int)
            and 0 < status.desired_healthy <= status.current_healthy
        )


class Budgets:
    """Budgets by namespace; one whose selector is invalid speaks of no pod."""

    def __init__(
        self, budgets: Iterable[PodDisruptionBudget], *, ignored: Iterable[str] = ()
    ) -> None:
        """`ignored` are budgets, as namespace/name, that are to be taken as not there."""
        left_out = set(ignored)
        self._by_namespace: dict[str, list[AllowedDisruptions]] = {}
        self.problems: list[str] = []
        for budget in budgets:
            found = AllowedDisruptions(budget)
            if found.key in left_out:
                continue
            try:
                selectors.check(found.selector)
            except selectors.SelectorError as error:
                self.problems.append(f"PodDisruptionBudget {found.key}: spec.selector: {error}")
                continue
            self._by_namespace.setdefault(budget.metadata.namespace, []).append(found)

    def of(self, pod: ObjectMeta) -> tuple[AllowedDisruptions, ...]:
        """The budgets that speak of a pod."""
        known = self._by_namespace.get(pod.namespace)
        if known is None:
            return ()
        return tuple(one for one in known if selectors.matches(one.selector, pod.labels))
