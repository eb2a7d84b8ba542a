"""The agent on a node: asks its CSI drivers, looks at the machine, publishes the true limits.

    csi              calls to one driver, over its unix socket
    drivers          the drivers registered with the kubelet, each asked again and again
    host             disks and network interfaces of the machine
    beliefs          whether a driver's new answer is believed; ceilings that were run into
    effective_limit  the limit that holds, from everything that is known: the decision
    limit_drift      who disagrees with whom
    stabilization    a number has to hold for a while before it is told
    provenance       the annotation: what was published, where it came from, what to remember
    limit_patches    what to change on the node and its CSINode
    node_objects     what the API server has about this node
    limit_decision   one look at everything, the in-tree plugins of old included
    agent            the round: look, decide, publish
    program          caches, HTTP and the rest around it
    removal          taking back what was published

Nothing is imported here, and nothing below needs numpy: it runs on every node.
"""
