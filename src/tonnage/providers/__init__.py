"""Node groups of the outside world, each behind `protocol.Provider`."""
