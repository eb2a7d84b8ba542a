"""`tonnage extender`: answers kube-scheduler about pods with volumes."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tonnage.cli import services
from tonnage.errors import InputError

if TYPE_CHECKING:
    from tonnage.service.certificates import Certificates

_ANYBODY = (
    "--address {address}: whoever reaches it could ask in the scheduler's name: expected "
    "--client-ca-file, with the authority of the scheduler's client certificate; or a loopback "
    "address; or --insecure-any-client (docs/extender.md#certificates)"
)


@click.command()
@services.config_option("docs/extender.md")
@services.schema_option("tonnage.scheduler.extender.config:ExtenderConfig")
@services.cluster_options
@services.address_option(":9443", serves="questions, health and metrics")
@services.debug_address_option("/simulate is")
@click.option(
    "--tls-cert-file", metavar="FILE", help="The certificate to serve with; read again on change."
)
@click.option("--tls-private-key-file", metavar="FILE", help="The key of the certificate.")
@click.option(
    "--client-ca-file",
    metavar="FILE",
    help="Answer only who shows a certificate of this authority; health and metrics need none. "
    "Required unless --address is loopback.",
)
@click.option(
    "--client-name",
    "client_names",
    metavar="NAME",
    multiple=True,
    help="Answer only certificates of this common name; repeatable.  [default: any of the "
    "authority]",
)
@click.option(
    "--insecure-any-client",
    is_flag=True,
    help="Answer everybody who reaches the port, without --client-ca-file.",
)
@click.option(
    "--insecure-http", is_flag=True, help="Serve without TLS, on a loopback address only."
)
@click.option(
    "--max-request-bytes",
    type=click.IntRange(min=1024),
    metavar="BYTES",
    default=8 * 2**20,
    show_default=True,
    help="Larger questions are refused; 30,000 nodes with long names need half of the default.",
)
@click.option(
    "--unknown-limits",
    type=click.Choice(["allow", "warn", "hold"]),
    help="What to do with nodes that do not list a driver; overrides unknownLimits of --config.",
)
@services.logging_options
@services.pass_service
def extender(
    service: services.ServiceOptions,
    tls_cert_file: str | None,
    tls_private_key_file: str | None,
    client_ca_file: str | None,
    client_names: tuple[str, ...],
    insecure_any_client: bool,
    insecure_http: bool,
    max_request_bytes: int,
    unknown_limits: str | None,
) -> None:
    """Answer kube-scheduler, so that no pod goes where its volumes cannot be attached.

    An extender for clusters whose scheduler does not know the opt-in of CSI drivers yet, runs
    beside other schedulers, or counts a returning volume twice. docs/extender.md has the
    scheduler's side of it.

    \b
    Examples:
      tonnage extender --tls-cert-file tls.crt --tls-private-key-file tls.key --client-ca-file ca
      tonnage extender --insecure-http --address 127.0.0.1:9443 --unknown-limits hold
    """
    from tonnage.scheduler.extender import program
    from tonnage.scheduler.extender.config import ExtenderConfig
    from tonnage.service.addresses import is_loopback

    certificates = None
    if insecure_http:
        if tls_cert_file or tls_private_key_file or client_ca_file or client_names:
            raise InputError("--insecure-http: expected no certificate files or names beside it")
        if not is_loopback(service.address):
            raise InputError(
                f"--insecure-http: --address {service.address}: expected a loopback address"
            )
    else:
        certificates = _certificates(
            tls_cert_file, tls_private_key_file, client_ca_file, client_names
        )
        checked = client_ca_file or insecure_any_client or is_loopback(service.address)
        if not checked:
            raise InputError(_ANYBODY.format(address=service.address))
    config = service.config(ExtenderConfig, {"unknownLimits": unknown_limits})
    settings = program.ExtenderSettings(
        address=service.address,
        debug_address=service.debug_address,
        largest_body=max_request_bytes,
    )
    service.run(
        lambda cluster: program.start(
            cluster.client,
            config=config,
            settings=settings,
            certificates=certificates,
            clock=cluster.clock,
            rng=cluster.rng,
        )
    )


def _certificates(
    certificate: str | None, key: str | None, client_ca: str | None, client_names: tuple[str, ...]
) -> "Certificates":
    from tonnage.service.certificates import Certificates

    if not certificate or not key:
        raise InputError(
            "expected --tls-cert-file and --tls-private-key-file, or --insecure-http on loopback"
        )
    if client_names and not client_ca:
        raise InputError("--client-name: expected --client-ca-file beside it")
    return Certificates(
        Path(certificate),
        Path(key),
        client_ca=Path(client_ca) if client_ca else None,
        client_names=client_names,
    )
