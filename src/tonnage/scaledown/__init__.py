"""Which nodes can go, which of them go together and in what order, and why the others stay.

Everything here is pure: a cluster, options, the moment and what earlier rounds remembered go in,
a plan and what to remember come out. Carrying a plan out is the autoscaler's business. Begin with
`decision`; the options are in `groups.scale_down_options`.

    decision     from inputs to a plan: `decide` for all nodes, `judge` for one
    inputs       what a decision is made from
    decision_cache   what one decision leaves for the next
    plan         the records that are printed: nodes, pods, waves
    state        what is remembered from one round to the next: timers, cool-downs, removals
    codes        our stable codes, and upstream's two spellings of each
    drain_rules  may a pod be moved? Upstream's rules, one function each
    controllers, budgets   what those rules look up
    facts        what is known of each node before anything is chosen; kept while it is as it was
    utilisation, eligibility   how full a node is, and whether it is looked at
    portability  pods by what another place must offer them
    relocation, bins   other places for the pods of one node: by the rules, or by counting alone
    selection    which nodes go together
    node_pools   slots that drivers of a node share
    kept_room    nodes that are held for room that is kept ready
    allowances, volume_zones   what may not be fallen below: sizes, totals, zones of volumes
    timers, waves, rehearsal   when, in which order, and whether that order holds
    promised_pods  pods that wait, where upstream counts them as placed
    bounds       no fewer nodes than these
    cures        the smallest change that would let a node go
"""
