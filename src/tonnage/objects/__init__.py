"""Kubernetes objects as typed records, and the small algebra on them that everything else imports.

Records, one module per family: `meta`, `nodes`, `pods`, `volume_sources`, `storage`, `workloads`,
`gangs`, `buffers`, `provisioning_requests`, `evictions`; `scenarios` has the two kinds of our own.
`kinds` lists them with their names on the wire.

    codec          bytes or plain values to records, with errors that name the field
    validation     what a well-typed object may still have wrong; `oddities`: what is used anyway
    strictness     fields that nobody reads, in files written by hand
    shared_values  one copy of what many pods have in common
    pod_changes    what two versions of a pod differ in
    labels         labels of nodes that have a meaning
    quantities, durations, timestamps
                   numbers as Kubernetes writes them
    selectors, taints, conditions, resources, pod_features, complexity
                   questions about one object: does it match, is it tolerated, what does it take
    volumes        which volumes of a pod take attach slots, and under which name
    intree         in-tree plugins and the CSI drivers that took over from them
    limit_keys     attach limits as node resources; `attach_errors`: a node without room
    printable      text from outside, fit for a terminal; `phrases`: names and numbers in sentences

Nothing here knows other objects of a cluster, does input or output, or decides anything: see
`snapshot`, `files` and `cluster`, and `rules`. Begin with `pods` and `volumes`.
"""
