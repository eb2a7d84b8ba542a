"""Settings for all tests."""

from hypothesis import settings

# Speed is the benchmarks' business, and a run that fails must fail again: examples are the same
# every time, and none fails for being slow on a busy machine.
settings.register_profile("tonnage", deadline=None, derandomize=True)
settings.load_profile("tonnage")
