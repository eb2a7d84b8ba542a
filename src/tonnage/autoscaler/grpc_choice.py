"""The `grpc` expander, for those who let a program of their own choose."""

from collections.abc import Iterator
from contextlib import contextmanager

from tonnage.groups.options import Options
from tonnage.scaleup.decision import OutsideExpanders


@contextmanager
def expanders(options: Options) -> Iterator[OutsideExpanders | None]:
    """Expanders that ask somebody else, if there is an address; the connection lasts one decision.

    They wait for the answer, so whoever decides with them does it in a thread of its own.
    """
    if not options.grpc_expander_url:
        yield None
        return
    from tonnage.providers.grpc_expander import ExpanderConnection, GrpcExpander

    certificate = options.grpc_expander_cert or None
    with ExpanderConnection(options.grpc_expander_url, ca_file=certificate) as connection:
        yield lambda nodes, pods: {"grpc": GrpcExpander(connection, nodes=nodes, pods=pods)}
