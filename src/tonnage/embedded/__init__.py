"""A cluster on one machine, for demonstrations, simulations and tests.

apiserver    a Kubernetes API in memory, over loopback or without sockets
world        kubelets, CSI drivers, storage and controllers that are only played, on any API server
cloud        machines of node groups that are only played, for autoscalers
"""
