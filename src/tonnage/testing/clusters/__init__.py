"""Random small clusters that have a bit of everything, for properties.

    for pod in Cluster(random_cluster(seed).objects).pending(): ...

A seed is all there is to a cluster: a failing one replays. `random_clusters` puts them together
from `storage` and `rules`, drawing by `dice`.
"""

from tonnage.testing.clusters.random_clusters import RandomCluster, random_cluster

__all__ = ["RandomCluster", "random_cluster"]
