"""A whole cluster in one process and one clock: scenarios, their course, and races in them.

scenario    what a Simulation file may say, as records
reading     files to scenarios; everything wrong is named with file, line and field
settings    durations and other short forms that people write, made into what records hold
manifests   objects as they are written, put into the API and taken out
slots       attach slots, counted apart from the code that decides
accounts    pods, nodes, slots and cost, counted from every change in the API
tapping     what the autoscaler asks of the cloud, and why
faults      a way to the API that can be cut
acting      what a script does, one class of deed each
ensemble    the API, the world, the cloud, scheduler and autoscaler together, on any clock
running     `simulate`: an ensemble in virtual time, and what came of it
comparing   the same scenario with other options
judging     the rules that must hold after every change
invariants  all of them, looking on
chances     clusters and trouble made by chance
exploring   many seeds of these, and the invariants

    simulation = reading.read("examples/simulations/scale-from-zero.yaml")
    timeline = running.simulate(simulation)                       # tonnage.report.Timeline
    both = comparing.compare(simulation, {"csiAware": "false"})   # the timelines of two runs

`ensemble.Ensemble(simulation, clock=...)` runs on a `SystemClock` just as well, for demonstrations.
"""
