"""A number has to hold for a while before it is told: interfaces and disks come and go.

Less is believed sooner than more: too few slots cost room for a minute, too many a pod that hangs.
"""

from collections.abc import Mapping

from tonnage.nodeagent.config import NodeAgentConfig


class Stabilizer:
    """What is told of each driver; a change that does not last is never told."""

    def __init__(self, told: Mapping[str, int | None], config: NodeAgentConfig) -> None:
        self._told = dict(told)
        self._config = config
        self._waiting: dict[str, tuple[int | None, float]] = {}
        """The new number of a driver, and since when it is that."""

    def step(self, driver: str, wanted: int | None, *, now: float, at_once: bool) -> int | None:
        """The number to tell now; `at_once` for what is certain, such as the operator's word."""
        if driver not in self._told:
            self._told[driver] = wanted
            return wanted
        told = self._told[driver]
        if wanted == told or at_once:
            self._waiting.pop(driver, None)
            self._told[driver] = wanted
            return wanted
        waiting, since = self._waiting.get(driver, (wanted, now))
        if _is_lower(wanted, told) != _is_lower(waiting, told):
            since = now
        self._waiting[driver] = (wanted, since)
        lower = _is_lower(wanted, told)
        patience = self._config.settle_lower if lower else self._config.settle_higher
        if now - since < patience:
            return told
        return self.step(driver, wanted, now=now, at_once=True)

    def forget(self, driver: str) -> None:
        self._told.pop(driver, None)
        self._waiting.pop(driver, None)


def _is_lower(number: int | None, than: int | None) -> bool:
    """Whether there is less room; no number is no limit."""
    return number is not None and (than is None or number < than)
