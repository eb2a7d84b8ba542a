"""The cluster in columns, kept up to date change by change, with trials that revert exactly.

Begin with `snapshot`. Nodes are rows (`rows`, `nodes`, `labels`), pods are classes (`classes`,
`pod_classes`), and what pods take of a row is in `occupancy`. `imagined` has nodes that do not
exist, `bulk_pods` pods placed by number. `slots` and `slot_pools` are attach slots, `storage`
and `storage_ledger` claims, volumes and what is left to make them of. `reservations` is what
is taken and not seen yet. `journal` is what trials undo by.

Whether a pod fits is asked in `rules`.
"""
