"""Random small clusters that have a bit of everything, for properties.

    for pod in Cluster(random_cluster(seed).objects).pending(): ...

A seed is all there is to a cluster: a failing one replays. `random_clusters` puts them together
from `storage` and `rules`, drawing by `dice`. `random_groups` has clusters with node groups and
pods that wait, `scarcity` those in which not every pod can be helped.
"""

from tests.clusters.random_clusters import RandomCluster, random_cluster

__all__ = ["RandomCluster", "random_cluster"]
