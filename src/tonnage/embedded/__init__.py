"""A cluster on one machine, for demonstrations, simulations and tests.

world        kubelets, CSI drivers and storage that are only played, on any API server
"""
