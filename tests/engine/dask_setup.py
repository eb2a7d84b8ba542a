"""A Dask cluster of several processes on this machine, under TLS."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import dask
import trustme
from distributed import LocalCluster, Security

from tonnage.engine import DaskCertificates


class TlsCluster(NamedTuple):
    """Its scheduler's address, and what one needs to be let in."""

    address: str
    certificates: DaskCertificates
    cluster: Any

    @property
    def options(self) -> list[str]:
        """As the command line takes it."""
        ca, certificate, key = self.certificates
        return [
            f"--engine={self.address}",
            f"--tls-ca={ca}",
            f"--tls-certificate={certificate}",
            f"--tls-key={key}",
        ]


@contextmanager
def tls_cluster(folder: Path, *, workers: int) -> Iterator[TlsCluster]:
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    ca, certificate, key = (str(folder / name) for name in ("ca.pem", "cert.pem", "key.pem"))
    authority.cert_pem.write_to_path(ca)
    issued.cert_chain_pems[0].write_to_path(certificate)
    issued.private_key_pem.write_to_path(key)
    security = Security(
        tls_ca_file=ca,
        require_encryption=True,
        **{
            f"tls_{role}_{kind}": path
            for role in ("client", "scheduler", "worker")
            for kind, path in (("cert", certificate), ("key", key))
        },
    )
    # A piece that has cost a worker is given up at once, and the worker is started again.
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            protocol="tls",
            security=security,
            dashboard_address=None,
            local_directory=str(folder / "dask"),
            memory_limit=None,
        ) as cluster,
    ):
        yield TlsCluster(cluster.scheduler_address, DaskCertificates(ca, certificate, key), cluster)
