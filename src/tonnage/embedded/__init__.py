"""A cluster on one machine, for demonstrations, simulations and tests.

apiserver    a Kubernetes API in memory, over loopback or without sockets
world        kubelets, CSI drivers and storage that are only played, on any API server
"""
