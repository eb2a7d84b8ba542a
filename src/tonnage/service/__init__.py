"""What every long-running shell needs, in modules that are used by name.

addresses           where to listen, as it is written
config_file         a YAML file that is read again when it changes
logs                structured logs on standard error
status_server       health, readiness, metrics and status over HTTP
http_questions      questions and answers over HTTP, bounded in size and number
debug               the inside of a shell, told on loopback only
listener            the connections of a port, bounded in number and patience
certificates        the certificate to serve with, read again when it changes
cache_metrics       the caches of a mirror as metrics, and events that were not written
metric_factory      metrics of a program, declared in a line each
connections         a way to a cluster, for as long as it is needed; one that only reads
leader_election     work that only the leader does
lifecycle           signals, and helpers beside the work
plain_yaml          plain values as YAML, in a hurry
live_cluster        the cluster in a snapshot that the watch feeds
booked_room         what of it ProvisioningRequests have booked
wanted_kinds        caches of kinds that are followed only while somebody needs them
pod_groups          the PodGroups of pods that come in gangs
workers             where long work is done: here, or in a thread
moving_pods         places of pods that scale-down moves, for who puts pods on nodes
steady_time         a wall clock that no step disturbs
"""
