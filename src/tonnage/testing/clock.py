"""Virtual time, where tests look for it."""

from tonnage.clock.virtual import START, VirtualClock, run

__all__ = ["START", "VirtualClock", "run"]
