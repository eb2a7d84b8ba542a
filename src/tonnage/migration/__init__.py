"""The way over from another autoscaler: its settings as ours, and its deeds beside our decisions.

`flags` is the table of cluster-autoscaler's flags; `cluster_autoscaler` and `karpenter` turn what
their users have into an AutoscalerConfig and NodeGroups, `documents` says what became of each
setting; `comparison` holds what the old one does against what Tonnage would do. Nothing here
reads a cluster or a file: objects come from the command line's side.
"""
