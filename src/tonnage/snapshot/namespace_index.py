"""Which namespaces a selector picks: thousands may ask, and none goes through all of them."""

from collections.abc import Iterator, Mapping

from tonnage.objects.meta import LabelSelector
from tonnage.objects.nodes import Namespace
from tonnage.snapshot.pod_counters import selects


class NamespaceIndex:
    """Names by label, made when somebody first asks after a change."""

    def __init__(self, namespaces: Mapping[str, Namespace]) -> None:
        self._namespaces = namespaces
        self._by_label: dict[tuple[str, str], list[str]] | None = None

    def changed(self) -> None:
        self._by_label = None

    def selected(self, selector: LabelSelector) -> Iterator[str]:
        """Names of the namespaces that a valid selector picks."""
        for name in self._candidates(selector):
            if selects(selector, self._namespaces[name].metadata.labels):
                yield name

    def _candidates(self, selector: LabelSelector) -> list[str]:
        """Those that have one of the labels the selector asks for by value, the fewest there are.

        All, if it names no value that must be there.
        """
        index = self._index()
        wanted = [index.get(label, []) for label in selector.match_labels.items()]
        wanted += [
            [name for value in {*one.values} for name in index.get((one.key, value), ())]
            for one in selector.match_expressions
            if one.operator == "In"
        ]
        return min(wanted, key=len) if wanted else list(self._namespaces)

    def _index(self) -> dict[tuple[str, str], list[str]]:
        if self._by_label is None:
            self._by_label = {}
            for name, namespace in self._namespaces.items():
                for label in namespace.metadata.labels.items():
                    self._by_label.setdefault(label, []).append(name)
        return self._by_label
