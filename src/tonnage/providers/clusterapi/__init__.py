"""Cluster API: the machines of a cluster as objects in a management cluster.

shapes          the objects, as far as they are read
annotations     what operators write on them
discovery       which of them are ours
machines        Machines as instances, and whose node is whose
templates       what a new node would be
infrastructure  what the infrastructure says of that
management      the management cluster, watched
survey          all of it put together into groups
provider        the provider
"""

from tonnage.providers.clusterapi.discovery import Discovery
from tonnage.providers.clusterapi.provider import (
    ClusterApiProvider,
    ClusterApiSettings,
    settings_from,
)

__all__ = ["ClusterApiProvider", "ClusterApiSettings", "Discovery", "settings_from"]
