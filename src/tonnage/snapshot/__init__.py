"""The cluster in columns."""
