"""What Tonnage costs in time and memory at the size of a large cluster: `python -m benchmarks`."""
