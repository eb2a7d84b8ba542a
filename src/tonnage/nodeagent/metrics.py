"""The agent in figures, for Prometheus."""

from collections.abc import Iterable, Mapping

from tonnage.nodeagent.limit_drift import Drift, View
from tonnage.nodeagent.provenance import ProvenanceEntry
from tonnage.service.metric_factory import MetricFactory


class NodeAgentMetrics:
    """What is published and what everybody else says; set anew by every round."""

    def __init__(self) -> None:
        make = MetricFactory("tonnage_node")
        self.registry = make.registry
        self._limit = make.gauge("attach_limit", "The published attach limit.", "driver", "source")
        self._views = make.gauge(
            "attach_limit_view",
            "Who says what: driver, believed, catalogue, kubelet; and how many are attached.",
            "driver",
            "view",
        )
        self._drift = make.gauge(
            "attach_limit_drift", "1 for every disagreement.", "driver", "kind"
        )
        self._answering = make.gauge(
            "driver_answering", "Whether a registered driver answers.", "driver"
        )
        self._writes = make.counter(
            "publications", "Writes of limits, by kind of object and result.", "kind", "result"
        )

    def seen(
        self,
        entries: Mapping[str, ProvenanceEntry],
        *,
        views: Iterable[View],
        drifts: Iterable[Drift],
        answering: Mapping[str, bool],
    ) -> None:
        for gauge in (self._limit, self._views, self._drift, self._answering):
            gauge.clear()
        for name, entry in entries.items():
            if entry.count is not None:
                self._limit.labels(name, entry.source.value).set(entry.count)
        for view in views:
            numbers = {
                "driver": view.answered,
                "believed": view.believed,
                "catalogue": view.machine,
                "kubelet": view.kubelet,
                "attached": view.attached,
            }
            for name, number in numbers.items():
                if number is not None:
                    self._views.labels(view.driver, name).set(number)
        for drift in drifts:
            self._drift.labels(drift.driver, drift.kind.value).set(1)
        for name, answers in answering.items():
            self._answering.labels(name).set(answers)

    def wrote(self, kind: str, *, succeeded: bool) -> None:
        self._writes.labels(kind, "written" if succeeded else "failed").inc()
