"""What a Kubernetes API does for our client, as tests that each API inherits.

class TestRealServer(ClusterContract):
    @asynccontextmanager
    async def connected(self):
        yield Client(...), SystemClock()

The same cases, with the same results, on the embedded API and on a real kube-apiserver with its
controllers. What controllers do takes them a while, so it is waited for; everything else holds at
once. `reads`, `updates`, `deletes`, `watches`, `verbs` and `components` are the cases, `context`
what they are played on. Nodes of these tests have no kubelet, and their pods no scheduler.
"""

from tests.contracts.cluster.components import ComponentsContract
from tests.contracts.cluster.context import ContractContext
from tests.contracts.cluster.deletes import DeleteContract
from tests.contracts.cluster.reads import ReadContract
from tests.contracts.cluster.updates import UpdateContract
from tests.contracts.cluster.verbs import VerbsContract
from tests.contracts.cluster.watches import WatchContract

__all__ = ["ClusterContract", "ContractContext"]


class ClusterContract(
    ReadContract,
    WatchContract,
    UpdateContract,
    DeleteContract,
    VerbsContract,
    ComponentsContract,
):
    """An API's tests derive from this, and say how to get `connected`."""
