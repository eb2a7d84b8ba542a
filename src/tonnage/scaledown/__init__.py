"""Which nodes can go, which of them go together and in what order, and why the others stay.

Everything here is pure: a cluster, options, the moment and what earlier rounds remembered go in,
a plan and what to remember come out. Carrying a plan out is the autoscaler's business.

    options      upstream's flags of scale-down, and a few of our own
    plan         the records that are printed: nodes, pods, waves
    state        what is remembered from one round to the next: timers, cool-downs, removals
    codes        our stable codes, and upstream's two spellings of each
"""
