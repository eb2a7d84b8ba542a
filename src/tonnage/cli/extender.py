"""`tonnage extender`: answers kube-scheduler about pods with volumes."""

import os
from pathlib import Path
from typing import Any

import click

from tonnage.errors import InputError


def _print_schema(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if not value or ctx.resilient_parsing:
        return
    import msgspec

    from tonnage.scheduler.extender.config import ExtenderConfig

    schema = msgspec.json.encode(msgspec.json.schema(ExtenderConfig))
    click.echo(msgspec.json.format(schema, indent=2).decode())
    ctx.exit()


@click.command()
@click.option(
    "--config",
    "config_file",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="Settings in YAML, read again when the file changes; docs/extender.md lists them.",
)
@click.option(
    "--config-schema",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_schema,
    help="Print the JSON schema of the configuration file, and end.",
)
@click.option("--kubeconfig", metavar="FILE", help="How to reach the cluster, if not from inside.")
@click.option("--context", metavar="NAME", help="Which context of the kubeconfig.")
@click.option(
    "--address",
    metavar="HOST:PORT",
    default=":9443",
    show_default=True,
    help="Where questions, health and metrics are served.",
)
@click.option(
    "--tls-cert-file", metavar="FILE", help="The certificate to serve with; read again on change."
)
@click.option("--tls-private-key-file", metavar="FILE", help="Its key.")
@click.option(
    "--client-ca-file",
    metavar="FILE",
    help="Answer only who shows a certificate of this authority; health and metrics need none.",
)
@click.option(
    "--insecure-http", is_flag=True, help="Serve without TLS, on a loopback address only."
)
@click.option(
    "--max-request-bytes",
    type=click.IntRange(min=1024),
    default=8 * 2**20,
    show_default=True,
    help="Larger questions are refused; 30,000 nodes with long names need half of the default.",
)
@click.option(
    "--unknown-limits",
    type=click.Choice(["allow", "warn", "hold"]),
    help="Goes before unknownLimits of the file.",
)
@click.option(
    "--logging-format",
    "log_form",
    type=click.Choice(["json", "text"]),
    default="json",
    show_default=True,
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
)
def extender(
    config_file: str | None,
    kubeconfig: str | None,
    context: str | None,
    address: str,
    tls_cert_file: str | None,
    tls_private_key_file: str | None,
    client_ca_file: str | None,
    insecure_http: bool,
    max_request_bytes: int,
    unknown_limits: str | None,
    log_form: Any,
    log_level: str,
) -> None:
    """Answer kube-scheduler, so that no pod goes where its volumes cannot be attached.

    An extender for clusters whose scheduler does not know the opt-in of CSI drivers yet, runs
    beside other schedulers, or counts a returning volume twice. docs/extender.md has the
    scheduler's side of it.

    \b
    Examples:
      tonnage extender --tls-cert-file tls.crt --tls-private-key-file tls.key
      tonnage extender --insecure-http --address 127.0.0.1:9443 --unknown-limits hold
    """
    import asyncio

    from tonnage.cluster import config as access_config
    from tonnage.scheduler.extender.config import ExtenderConfig
    from tonnage.scheduler.extender.program import Settings
    from tonnage.service import logs, running
    from tonnage.service.configfile import ConfigFile

    certificates = _certificates(
        address, tls_cert_file, tls_private_key_file, client_ca_file, insecure=insecure_http
    )
    given = {"unknownLimits": unknown_limits} if unknown_limits is not None else {}
    config = ConfigFile(
        Path(config_file) if config_file is not None else None, ExtenderConfig, given=given
    )
    access = access_config.find(environ=os.environ, kubeconfig_file=kubeconfig, context=context)
    settings = Settings(address=address, largest_body=max_request_bytes)
    logs.set_up(form=log_form, level=log_level)
    asyncio.run(running.until_signalled(lambda: _main(access, settings, config, certificates)))


async def _main(access: Any, settings: Any, config: Any, certificates: Any) -> None:
    import random

    from tonnage.clock import SystemClock
    from tonnage.cluster.client import Client
    from tonnage.cluster.http import HttpTransport
    from tonnage.scheduler.extender import program

    clock = SystemClock()
    rng = random.Random()
    transport = HttpTransport(access, clock=clock, environ=os.environ)
    try:
        await program.start(
            Client(transport, clock=clock, rng=rng),
            config=config,
            settings=settings,
            certificates=certificates,
            clock=clock,
            rng=rng,
        )
    finally:
        await transport.close()


def _certificates(
    address: str, certificate: str | None, key: str | None, client_ca: str | None, *, insecure: bool
) -> Any:
    from tonnage.service.certificates import Certificates
    from tonnage.service.serving import split

    if insecure:
        if certificate or key or client_ca:
            raise InputError("--insecure-http: expected no certificate files beside it")
        if split(address)[0] not in ("127.0.0.1", "::1", "localhost"):
            raise InputError(f"--insecure-http: --address {address}: expected a loopback address")
        return None
    if not certificate or not key:
        raise InputError(
            "expected --tls-cert-file and --tls-private-key-file, or --insecure-http on loopback"
        )
    return Certificates(
        Path(certificate), Path(key), client_ca=Path(client_ca) if client_ca else None
    )
