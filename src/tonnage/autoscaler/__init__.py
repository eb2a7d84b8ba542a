"""The live autoscaler: watches a cluster, decides what to buy, asks a provider for it.

config             what the operator may set
context            what all parts have in common, handed to each
world              the cluster as the watch tells it, and whether that may be acted on
change_filter      which of its changes matter
provider_state     the provider's groups and machines, asked once in a loop
declared_groups    groups from files, for dry runs
loop               one look, one decision, what follows from it; and when to do it again
assessor           the look: anew only where something has changed
room_observer      how long room takes to be freed, and nodes to start
scan_trigger       when to look again: a burst of pods is one decision
capacity_buffers, provisioning_requests
                   room that is asked for by objects, or by looking ahead at controllers
planner            from a look to a plan
remediation        what is put right before anything is bought
scale_up_executor  from a plan to requests
startup_taints     startup taints whose driver has registered
actuator           the way to the provider's verbs, for the leader only; Events that are written
state              what has to survive a restart
report             a round as data
volume_causes      whether volumes are why pods wait
recordings         what a decision came from, to make it again
decisions          which decisions are kept, in memory and in a file
status             a round told to those who watch
metrics            what their monitoring reads
program            all of it put together, from sockets to signals
"""
