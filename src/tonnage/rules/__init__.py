"""What decides where a pod fits: one module per rule, holding all that is known of its dimension.

Begin with `framework`: a `Rule` says where a pod fits (`pre_filter`), what one pod takes
(`footprint`), how many more there is room for (`room`), how full nodes are (`measures`), what
others allow on new nodes (`caps`), what cures its refusals (`cures`, `helps`). `registry` has
them all in order, and what they come to together: `room`, `amounts`, `measures`, `caps`,
`place`. `pipeline` runs them over all nodes and words the verdicts. `causes` are the reasons,
`features` what differs between versions and gates; rules of one's own go in there. `opt_in` is
KEP-5030.

    single nodes   node_name, node_unschedulable, taint_toleration, node_affinity,
                   node_declared_features, node_ports, node_resources_fit, sure_nodes
    other pods     pod_topology_spread, inter_pod_affinity (as numbers: `caps`)
    attach slots   node_volume_limits, slot_pools, kept_slots
    their volumes  volume_restrictions, volume_zone, volume_binding (with `volume_matching` and
                   `storage_tally`)

The columns that rules read are in `snapshot`; what to buy is decided in `scaleup`.
"""
