"""A whole cluster in one process and one clock: scenarios, their course, and races in them.

scenario          what a Simulation file may say, as records
scenario_files    files to scenarios; everything wrong is named with file, line and field
settings          durations and other short forms that people write, made into what records hold
manifests         objects as they are written, put into the API and taken out
slots             attach slots, counted apart from the code that decides
sampling          how often a run is looked at
accounts          pods, nodes, slots and cost, counted from every change in the API
recorded_cloud    what the autoscaler asks of the cloud, and why
faults            a way to the API that can be cut
actions           what a script does, one class of deed each
ensemble          the API, the world, the cloud, scheduler and autoscaler together, on any clock
runner            `simulate`: an ensemble in virtual time, and what came of it
comparison        the same scenario with other options
checks            the rules that must hold after every change
invariants        all of them, looking on
random_scenarios  clusters and trouble made by chance
random_disks      local disks laid over them
random_spread     pods that keep together or apart laid over them
random_removals   scale-down laid over them
random_headroom   slots to be kept free laid over them
recording         the trace of a simulation
replay            traces played again with other settings
explorer          many seeds of these, and the invariants

    simulation = scenario_files.read("examples/simulations/scale-from-zero.yaml")
    timeline = runner.simulate(simulation)                         # tonnage.report.Timeline
    both = comparison.compare(simulation, {"csiAware": "false"})   # the timelines of two runs

`ensemble.Ensemble(simulation, clock=...)` runs on a `SystemClock` just as well, for demonstrations.
"""
