"""A Kubernetes API in one process: kubectl, the official clients and Tonnage itself work on it.

    server     the API as an object: requests in, answers out
    inprocess  the way to it without sockets, in virtual time too
    http       the way to it over loopback

Below them: `request_paths` and `request_selectors` find what a request is about, `lists`,
`watches`, `writes` (with `patches`, `defaults`, `validation`, `field_types`), `deletion` and
`subresources` (with `disruptions`) carry it out on the `store`, or say no (`refusals`); `journal`
keeps that in a file, `event_expiry` drops old events. `kinds` are those that are served;
`discovery`, `schemas`, `reviews` and `tables` are for clients such as kubectl, `protobuf` for those
in Go, and `kubeconfig` is how they find us. `docs/embedded.md` says what it does not do.
"""

from tonnage.embedded.apiserver.inprocess import InProcessTransport
from tonnage.embedded.apiserver.server import ApiServer

__all__ = ["ApiServer", "InProcessTransport"]
