"""Traces played again in virtual time, with other settings, beside what happened.

scenario       a trace and settings to a Simulation; begin here
given          what the replay takes from the trace: objects of the beginning, and what came then
trees          objects of a trace, and how a replay writes them anew
namespaces     those that a trace shows late, or not at all
lifetimes      how long pods that do a piece of work took for it
measured       how long nodes, drivers, pods and volumes took, and what drivers reported
pod_keeper     pods whose controllers nobody plays, made again when the replay loses them
happened       the trace itself as a Timeline, to compare with

    trace = TraceFiles([Path("day.jsonl.gz")])
    both = scenario.compared(trace, ReplaySettings(options={"expander": "price"}))

The trace of a simulation has its whole scenario, and plays to the same bytes with the same
settings. Of a live cluster's trace `docs/record-replay.md` says what is given and what is decided
anew.
"""
