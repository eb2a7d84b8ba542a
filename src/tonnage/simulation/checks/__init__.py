"""The rules that a cluster is judged by, each apart from the code that it judges.

context       what all of them look at
findings      what was broken, and what could not be helped
places        who waits, where there is a place, and whether that is certain
bindings      nodes within their limits, pods where their drivers are
disks         no disk given away beyond its size
placements    pods that keep together or apart where they may be
bounds        groups between minimum and maximum
deletions     no healthy node deleted
removals      nodes given back without harm to budgets, replicas, volumes and zones
gangs         gangs whole or not at all
bookings      booked room left to the pods that take it
kept_room     slots that are kept free, bought once
purchases     nothing bought for nothing
repeats       nothing bought bit by bit, nor again
pending_pods  nobody left pending who has a place, or could be given one
"""
