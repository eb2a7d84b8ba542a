"""An engine by its address: processes here, or a Dask cluster there."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from tonnage.engine.processes import ProcessEngine
from tonnage.engine.tasks import Engine
from tonnage.errors import InputError

LOCAL = "local"
FORMS = ("local", "dask://HOST:PORT", "tls://HOST:PORT")


class DaskCertificates(NamedTuple):
    """Files for TLS with a Dask scheduler; empty where they are not given."""

    ca: str = ""
    certificate: str = ""
    key: str = ""


@contextmanager
def engine_of(
    address: str, *, jobs: int, certificates: DaskCertificates | None = None
) -> Iterator[Engine]:
    """`local` is so many processes; `dask://` and `tls://` lead to a Dask scheduler."""
    given = certificates or DaskCertificates()
    scheme, _, place = address.partition("://")
    if address == LOCAL:
        yield ProcessEngine(jobs)
        return
    if scheme not in ("dask", "tls") or not place:
        raise InputError(f"engine {address!r}: expected one of {', '.join(FORMS)}")
    if scheme == "tls" and not all(given):
        raise InputError(f"engine {address}: TLS needs --tls-ca, --tls-certificate and --tls-key")
    for path in filter(None, given):
        if not os.access(path, os.R_OK):
            raise InputError(f"engine {address}: {path}: no such file, or it cannot be read")
    if scheme == "dask" and any(given):
        raise InputError(f"engine {address}: certificates go with tls://{place}")
    # Not loaded unless it is asked for: it takes half a second.
    from tonnage.engine import dask_cluster

    security = dask_cluster.secured(*given) if scheme == "tls" else None
    transport = "tls" if security is not None else "tcp"
    engine = dask_cluster.DaskEngine(f"{transport}://{place}", security)
    try:
        yield engine
    finally:
        engine.close()
