"""What happened in a cluster, written down change by change: the format, writing and reading.

records    the lines of a trace; `docs/record-replay.md` has them in words
patches    the difference of two states of an object, as JSON Patch
pruning    objects without what no reader needs, so that quiet things stay quiet
writer     lines into files that a crash leaves readable, one after the other
log        objects into lines: whole, changed or gone
reader     lines out of files, whatever became of those
recorder   a live cluster's watches, into a log

    with TraceWriter(path, head=head) as writer:
        log = TraceLog(writer)
        log.put(row, tree, at=1.5)

`simulation.recording` writes the trace of a simulation, `simulation.replay` plays traces.
"""
