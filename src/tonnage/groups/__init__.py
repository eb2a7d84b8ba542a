"""Node groups: what they are, what their next node would be, and how they are doing.

    model               Group, Template, Limit: the values decisions are made from
    inputs              all that a decision is made from, as one value
    cluster_state       the cluster in it: the snapshot, and the objects beside it
    options             what the operator may set about decisions; `scale_down_options`,
                        `consolidation_options`, `policy`, `cron_windows`
    node_group_objects  groups from NodeGroup objects
    headroom            room that is kept ready; `capacity_buffers` and `provisioning_requests` are
                        objects that ask for it
    templates           the template of each group; begin here
    node_sanitiser, template_completion, daemons, topology, passing_taints, storage_rooms
                        what templates are made of
    limits              how many volumes of a driver a new node takes, and who says so
    limit_votes, limit_lessons, catalogue, slot_pools
                        where those numbers come from
    drivers             which CSI drivers the nodes of a group register
    node_labels         groups that only labels of nodes tell of
    node_state          what one Node says of itself
    readiness           which nodes are ready, coming up or leaving, which drivers are missing on
                        most of them, and which groups may grow
    registry            what was asked of providers and has not come yet; backoff
    group_machines      the machines of a group, and which of them have a node
    memory              what is remembered of a group without nodes, and how long things took

Which group to grow is decided in `scaleup`; machines are asked for in `providers`.
"""
