"""The live autoscaler: watches a cluster, decides what to buy, asks a provider for it.

config             what the operator may set
world              the cluster as the watch tells it, and whether that may be acted on
change_filter      which of its changes matter
provider_state     the provider's groups and machines, asked once in a loop
declared_groups    groups from files, for dry runs
loop               one look, one decision, what follows from it; and when to do it again
assessor           the look: anew only where something has changed
room_observer      how long room takes to be freed, and nodes to start
scan_trigger       when to look again: a burst of pods is one decision
lost_nodes         machines without any node: lost, or not told yet
capacity_buffers, provisioning_requests
                   room that is asked for by objects
look_ahead         room for pods that controllers make next
planner            from a look to a plan
remediation        what is put right before anything is bought
scale_up_executor  from a plan to requests
startup_taints     startup taints whose driver has registered
event_reasons      reasons of the Events that are written
actuator           the way to the provider's verbs, for the leader only
grpc_choice        expanders that ask somebody else
state              what has to survive a restart
state_writer       who writes it, and what if it cannot be written
report             a round as data
volume_causes      whether volumes are why pods wait
decision_recorder  which decisions are worth keeping
recordings         what a decision came from, to make it again
decisions          decisions as they are kept, in memory and in a file
driver_waits       how long nodes wait for their drivers
status_writer      a round told to those who watch
status             what operators read
metrics            what their monitoring reads
program            all of it put together, from sockets to signals
"""
