"""Who disagrees with whom about a driver's limit, as data; words are made from it once, here."""

from collections.abc import Iterator
from enum import StrEnum

from tonnage.nodeagent.effective_limit import MACHINE_BOUND
from tonnage.objects.meta import Record


class DriftKind(StrEnum):
    NO_NUMBER = "driver-without-number"
    FORGETS = "driver-forgets-volumes"
    ABOVE_MACHINE = "driver-above-machine"
    KUBELET = "kubelet-differs"
    KUBELET_UNLIMITED = "kubelet-unlimited"
    OVERFULL = "more-attached-than-limit"


class View(Record, frozen=True, kw_only=True):
    """What everybody says about one driver; `None` is no number."""

    driver: str
    published: int | None = None
    answered: int | None = None
    """The driver itself, just now; `None` if it does not answer."""
    believed: int | None = None
    machine: int | None = None
    """The catalogue, with what the machine has."""
    registered: bool = False
    """Whether the CSINode has the driver."""
    kubelet: int | None = None
    """The number in the CSINode."""
    attached: int = 0


class Drift(Record, frozen=True, kw_only=True):
    """A disagreement; `by` is the number of slots it is about, 0 where there is no number."""

    driver: str
    kind: DriftKind
    by: int
    message: str


def found(view: View) -> Iterator[Drift]:
    """Every disagreement about one driver."""
    answered, machine, published = view.answered, view.machine, view.published
    if answered is not None and answered <= 0:
        yield _drift(
            view, DriftKind.NO_NUMBER, 0, f"the driver answers {answered}, which is no limit"
        )
    elif answered is not None and view.believed is not None and answered < view.believed:
        text = (
            f"the driver answers {answered} after {view.believed}: it takes volumes of pods for "
            "disks of the system; set an override if it is right"
        )
        yield _drift(view, DriftKind.FORGETS, view.believed - answered, text)
    if (
        view.driver in MACHINE_BOUND
        and machine is not None
        and answered is not None
        and answered > machine
    ):
        text = f"the driver answers {answered}, the machine has room for {machine}"
        yield _drift(view, DriftKind.ABOVE_MACHINE, answered - machine, text)
    if view.registered and published is not None and view.kubelet != published:
        if view.kubelet is None:
            text = f"the CSINode has no limit, {published} is right"
            yield _drift(view, DriftKind.KUBELET_UNLIMITED, 0, text)
        else:
            text = f"the CSINode says {view.kubelet}, {published} is right"
            yield _drift(view, DriftKind.KUBELET, view.kubelet - published, text)
    if published is not None and view.attached > published:
        # Without their number, which changes with every pod.
        text = f"more volumes are attached than the limit of {published}"
        yield _drift(view, DriftKind.OVERFULL, view.attached - published, text)


def _drift(view: View, kind: DriftKind, by: int, text: str) -> Drift:
    return Drift(driver=view.driver, kind=kind, by=by, message=f"{view.driver}: {text}")
