"""Giving nodes back, live: from a plan to nodes that are gone, beside the loop.

scale_down  a round: decide, taint softly, begin removals
situation   what a round of the loop hands over
decision    what may go, decided on the live cluster; nodes that go together
windows     when nodes may be given back
workloads   disruption budgets and controllers, watched while scale-down is on
soft_taints the scheduler's preference for nodes that stay
remover     a removal step by step, each of which looks anew; what goes wrong is rolled back
taints      marks of nodes, written so that nobody's change is undone
node_pods   the pods of a node by what becomes of them, and volumes that have yet to leave it
evictions   evictions as budgets allow, one replica of a set at a time
deletion_batch  deletions of a group in one call
places      places of evicted pods, held for those that come in their stead
coming_pods pods that are to come in these places
drain_priority  who is evicted first
removals    what is under way, as it is written down
report      a round as data, and what operators read of it
metrics     what monitoring reads
"""
