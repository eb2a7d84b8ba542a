"""The cluster in columns, kept up to date change by change, with trials that revert exactly.

Begin with `snapshot`. Nodes are rows (`rows`, `nodes`, `labels`), pods are classes (`classes`,
`pod_classes`), and what pods take of a row is in `occupancy`. `imagined` has nodes that do not
exist, `bulk_pods` pods placed by number. `slots` and `slot_pools` are attach slots (`limits`,
`attachments`), `storage` with `storage_changes`, `open_volumes` and `waiting_claims` claims and
volumes, `storage_ledger` and `published_storage` what is left to make them of. `pod_counters`,
`host_ports` and `namespace_index` answer what rules between pods ask. `reservations` is what
is taken and not seen yet. `journal` is what trials undo by; `records`, `arrivals` and `interner`
are what the rest is kept in.

Whether a pod fits is asked in `rules`.
"""
