"""The `grpc` expander, for those who let a program of their own choose."""

from collections.abc import Iterator
from contextlib import contextmanager

from tonnage.autoscaler.config import Config
from tonnage.scaleup.deciding import OutsideExpanders


@contextmanager
def expanders(config: Config) -> Iterator[OutsideExpanders | None]:
    """Expanders that ask somebody else, if there is an address; the connection lasts one decision.

    They wait for the answer, so whoever decides with them does it in a thread of its own.
    """
    if not config.grpc_expander_url:
        yield None
        return
    from tonnage.providers.grpc_expander import Connection, GrpcExpander

    certificate = config.grpc_expander_cert or None
    with Connection(config.grpc_expander_url, ca_file=certificate) as connection:
        yield lambda nodes, pods: {"grpc": GrpcExpander(connection, nodes=nodes, pods=pods)}
