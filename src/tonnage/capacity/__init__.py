"""Capacity objects for nodes that do not exist yet, so that upstream's autoscaler buys them.

A driver with local disks publishes a CSIStorageCapacity for each node, and a node that is only
imagined has none; the scheduler's check then refuses it. Here objects are published that match
imagined nodes and no others, one for each opted-in StorageClass and node group.

    conventions     names and labels of the objects, ours and those of a vendor we can replace
    node_kinds      which groups there are: by labels of nodes, and of templates of node groups
    wishes          what a StorageClass asks for, read off its annotation
    observed_sizes  how much space live nodes were seen to have
    desired         all of the above put together: what there should be, and what is wrong
    changes         from what there is to what there should be
    step_writer     requests: paced, each on its own, tried again
    report          what a look found and did, also as figures
    sync            one look after another, and which news calls for one
    sources         node groups from files and from a ConfigMap
    program         one replica: lease, HTTP, signals; and the clean-up of everything

The first six are pure. What is wrong with such objects, whoever publishes them, `doctor` says.
"""
