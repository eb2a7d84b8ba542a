"""What every long-running shell needs, in modules that are used by name.

addresses    where to listen, as it is written
configfile   a YAML file that is read again when it changes
logs         structured logs on standard error
serving      health, readiness, metrics and status over HTTP
questions    questions and answers over HTTP, bounded in size and number
debug        the inside of a shell, told on loopback only
listener     the connections of a port, bounded in number and patience
certificates the certificate to serve with, read again when it changes
cachemetrics the caches of a mirror as metrics
connectionmetrics  the connections of a port as metrics
connecting   a way to a cluster, for as long as it is needed
leading      work that only the leader does
running      signals, and helpers beside the work
plainyaml    plain values as YAML, in a hurry
readonly     a way to the API server on which nothing can be changed
standing     the cluster in a snapshot that the watch feeds
steadytime   a wall clock that no step disturbs
"""
