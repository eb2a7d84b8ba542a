"""A Kubernetes API in one process: kubectl, the official clients and Tonnage itself work on it.

    server     the API as an object: requests in, answers out
    inprocess  the way to it without sockets, in virtual time too
    http       the way to it over loopback

Below them: `request_paths` finds what a request is about, `lists`, `watches`, `writes`, `deletion`
and `subresources` carry it out on the `store`, and `journal` keeps that in a file.
`docs/embedded.md` says what it does not do.
"""

from tonnage.embedded.apiserver.inprocess import InProcessTransport
from tonnage.embedded.apiserver.server import ApiServer

__all__ = ["ApiServer", "InProcessTransport"]
