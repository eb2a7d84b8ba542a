"""Node groups of the outside world, each behind `protocol.Provider`; begin there.

    declarative    groups as NodeGroup objects declare them (`declarations`: their faults)
    kwok           nodes without machines (`kwok_groups`, `kwok_ledger`, `kwok_objects`)
    clusterapi     MachineDeployments and their kin
    aws            Auto Scaling groups
    external_grpc  any provider behind upstream's protocol (`_config`, `_server`, `corev1`)
    grpc_expander  an expander behind upstream's protocol
    measured       how long a provider takes and how often it fails
    sizes          the sizes a group may be asked for

What is asked of them, and when, is decided in `autoscaler`.
"""
