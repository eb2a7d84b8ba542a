"""When: how long nodes have been unneeded, and how long nothing may go after a change."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from tonnage.groups.scale_down_options import ScaleDownOptions
from tonnage.scaledown.codes import KeepCode
from tonnage.scaledown.state import ScaleDownState


class CoolDown(NamedTuple):
    """Why nothing goes for the time being, and until when."""

    reason: str
    until: float


def renewed(state: ScaleDownState, unneeded: Iterable[str], now: float) -> ScaleDownState:
    """The state with these nodes unneeded: those that were so keep since when."""
    since = {name: state.unneeded.get(name, now) for name in unneeded}
    return msgspec.structs.replace(state, unneeded=since)


def too_short(
    since: float, now: float, options: ScaleDownOptions, *, ready: bool
) -> tuple[KeepCode, float] | None:
    """Why a node has not been unneeded for long enough, and until when; `None` if it has."""
    needed = options.scale_down_unneeded_time if ready else options.scale_down_unready_time
    if not needed or since + needed < now:
        return None
    code = KeepCode.NOT_LONG_ENOUGH if ready else KeepCode.NOT_UNREADY_LONG_ENOUGH
    return code, since + needed


def cool_down(
    state: ScaleDownState, now: float, options: ScaleDownOptions, *, group: str | None = None
) -> CoolDown | None:
    """What keeps all nodes for now, or with `group` those of one group: the longest of them."""
    downs = state.cool_downs
    waits: list[CoolDown] = []
    for reason, delay, times in (
        ("after nodes were added", options.scale_down_delay_after_add, downs.added),
        ("after nodes were removed", options.scale_down_delay_after_delete, downs.deleted),
        ("after a removal failed", options.scale_down_delay_after_failure, downs.failed),
    ):
        last = _last(times, group if options.scale_down_delay_type_local else None)
        if last is not None and last + delay > now:
            waits.append(CoolDown(reason, last + delay))
    return max(waits, key=lambda wait: wait.until, default=None)


def _last(times: Mapping[str, float], group: str | None) -> float | None:
    if group is not None:
        return times.get(group)
    return max(times.values(), default=None)
