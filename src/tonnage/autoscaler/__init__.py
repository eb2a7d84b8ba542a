"""The live autoscaler: watches a cluster, decides what to buy, asks a provider for it.

config     what the operator may set
world      the cluster as the watch tells it, and whether that may be acted on
noticing   which of its changes matter
provided   the provider's groups and machines, asked once in a loop
declared   groups from files, for dry runs
loop       one look, one decision, what follows from it; and when to do it again
surveying  the look: anew only where something has changed
choosing   from a look to a plan
cleaning   what is put right before anything is bought
buying     from a plan to requests
untainting startup taints whose driver has registered
acting     the way to the provider's verbs, for the leader only
outside    expanders that ask somebody else
state      what has to survive a restart
report     a round as data
blaming    whether volumes are why pods wait
keeping    which decisions are worth keeping
recording  what a decision came from, to make it again
decisions  decisions as they are kept, in memory and in a file
waits      how long nodes wait for their drivers
telling    a round told to those who watch
status     what operators read
metrics    what their monitoring reads
program    all of it put together, from sockets to signals
"""
