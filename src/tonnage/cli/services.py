"""What the commands that run as services share: their options, and how they are started.

A shared option is noted in the command's `ServiceOptions` and is not among its arguments, so that
each command says only what is its own. Decorators stand where help is to show their options.
"""

import functools
import os
import socket
import uuid
from collections.abc import Awaitable, Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

import click

from tonnage.cli import cluster_access, cluster_source, console
from tonnage.errors import InputError

if TYPE_CHECKING:
    import msgspec

    from tonnage.service.config_file import ConfigFile
    from tonnage.service.connections import Connection

    Settings = TypeVar("Settings", bound=msgspec.Struct)

Command = TypeVar("Command", bound=Callable[..., Any])

_NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_OUTSIDE = "kube-system"


class Decorator(Protocol):
    """Gives a command an option or several."""

    def __call__(self, command: Command, /) -> Command: ...


class ServiceOptions:
    """What the shared options of a command line say, and the process that follows from it."""

    def __init__(self) -> None:
        self.kubeconfig: str | None = None
        self.context: str | None = None
        self.config_file: str | None = None
        self.namespace = ""
        self.address = ""
        self.debug_address = ""
        self.elects = True
        self.leads_alone = False
        self.lease_name = ""
        self.log_form: Literal["json", "text"] = "json"
        self.log_level = "info"
        self.identity = f"{socket.gethostname()}_{uuid.uuid4().hex[:8]}"

    @property
    def live(self) -> cluster_access.ClusterChoice:
        return cluster_access.ClusterChoice(self.kubeconfig, self.context)

    @property
    def leader_elect(self) -> bool:
        return self.elects and not self.leads_alone

    def config(
        self, type_: "type[Settings]", given: Mapping[str, object] | None = None
    ) -> "ConfigFile[Settings]":
        """The settings of `--config`; of what flags may give, what is not None goes before it."""
        from tonnage.service.config_file import ConfigFile

        settings = dict(given or {})
        if "kube_max_pd_vols" in type_.__struct_fields__:
            settings["kubeMaxPdVols"] = cluster_source.max_pd_vols()
        file = ConfigFile(
            Path(self.config_file) if self.config_file is not None else None,
            type_,
            given={name: value for name, value in settings.items() if value is not None},
        )
        for remark in file.remarks:
            console.warn(remark)
        return file

    def run(
        self, work: "Callable[[Connection], Awaitable[None]]", *, read_only: bool = False
    ) -> None:
        """Do the work on the cluster until it ends or a signal comes."""
        import asyncio

        from tonnage.service import connections, lifecycle, logs

        access = cluster_access.find(self.live)
        logs.set_up(form=self.log_form, level=self.log_level)

        async def main() -> None:
            async with connections.connected(
                access, environ=os.environ, read_only=read_only
            ) as connection:
                await work(connection)

        asyncio.run(lifecycle.until_signalled(main))


pass_service = click.make_pass_decorator(ServiceOptions, ensure=True)


def new_id() -> str:
    """A name for an event that no other process will choose."""
    return uuid.uuid4().hex[:16]


def switch(
    flag: str, name: str, *, default: bool | None = None, help: str, **settings: Any
) -> Decorator:
    """A flag as Go programs take it: `--flag` and `--flag=false`."""
    return click.option(
        flag,
        name,
        type=bool,
        is_flag=False,
        flag_value=True,
        default=default,
        show_default=default is not None,
        metavar="[=BOOL]",
        help=help,
        **settings,
    )


def cluster_options(command: Command) -> Command:
    """`--kubeconfig` and `--context`."""
    return _all(
        _noted(
            "--kubeconfig",
            metavar="FILE",
            help="How to reach the cluster.  [default: as kubectl, or the pod's service account]",
        ),
        _noted(
            "--context",
            metavar="NAME",
            help="Context of the kubeconfig.  [default: the current one]",
        ),
    )(command)


def config_option(documented_in: str) -> Decorator:
    """`--config`."""
    return _noted(
        "--config",
        "config_file",
        metavar="FILE",
        type=click.Path(dir_okay=False),
        help=f"Settings in YAML, read again when the file changes; {documented_in} lists them.",
    )


def schema_option(settings: str) -> Decorator:
    """`--config-schema`; the type is named as `package.module:Name`, and loaded when asked for."""

    def show(ctx: click.Context, _: click.Parameter, value: bool) -> None:
        if not value or ctx.resilient_parsing:
            return
        import msgspec

        from tonnage.service import config_file

        module, _colon, name = settings.partition(":")
        schema = msgspec.json.encode(config_file.schema(getattr(import_module(module), name)))
        console.print_json(msgspec.json.format(schema, indent=2))
        ctx.exit()

    return click.option(
        "--config-schema",
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=show,
        help="Print the JSON schema of the configuration file, and end.",
    )


def _own_namespace() -> str:
    try:
        return _NAMESPACE_FILE.read_text().strip() or _OUTSIDE
    except OSError:
        return _OUTSIDE


def namespace_option(keeps: str) -> Decorator:
    """`--namespace`, with what is kept there."""
    return _noted(
        "--namespace",
        metavar="NAME",
        default=_own_namespace,
        help=f"{keeps}  [default: the namespace it runs in, or kube-system outside of a cluster]",
    )


def address_option(default: str, *, serves: str = "health, metrics and status") -> Decorator:
    """`--address`, checked before anything is started."""
    return _noted(
        "--address",
        type=Address(),
        default=default,
        show_default=True,
        help=f"Where {serves} are served.",
    )


def debug_address_option(serves: str) -> Decorator:
    """`--debug-address`, for what is nobody's business but the operator's."""
    return _noted(
        "--debug-address",
        type=Address(loopback=True),
        help=f"Where {serves} served; a loopback address, for kubectl port-forward."
        "  [default: nowhere]",
    )


def board_certificate_options(
    prefix: str,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """`PREFIXtls-cert-file` and its like, as `certificates`: none where none is given."""

    def decorated(command: Callable[..., None]) -> Callable[..., None]:
        @click.option(
            f"{prefix}tls-cert-file",
            "board_certificate",
            metavar="FILE",
            help="The certificate to serve the page with; read again on change.",
        )
        @click.option(
            f"{prefix}tls-private-key-file",
            "board_key",
            metavar="FILE",
            help="The key of that certificate.",
        )
        @click.option(
            f"{prefix}client-ca-file",
            "board_client_ca",
            metavar="FILE",
            help="Show the page only to who has a certificate of this authority. Required unless "
            "the address is loopback.",
        )
        @click.option(
            f"{prefix}client-name",
            "board_client_names",
            metavar="NAME",
            multiple=True,
            help="Show it only to certificates of this common name; repeatable.",
        )
        @functools.wraps(command)
        def taking(
            *arguments: Any,
            board_certificate: str | None,
            board_key: str | None,
            board_client_ca: str | None,
            board_client_names: tuple[str, ...],
            **others: Any,
        ) -> None:
            from tonnage.service.certificates import Certificates

            certificates = None
            if bool(board_certificate) != bool(board_key):
                raise InputError(
                    f"expected {prefix}tls-cert-file and {prefix}tls-private-key-file together"
                )
            if (board_client_ca or board_client_names) and not board_certificate:
                raise InputError(
                    f"{prefix}client-ca-file: expected {prefix}tls-cert-file beside it"
                )
            if board_certificate and board_key:
                certificates = Certificates(
                    Path(board_certificate),
                    Path(board_key),
                    client_ca=Path(board_client_ca) if board_client_ca else None,
                    client_names=board_client_names,
                )
            command(*arguments, certificates=certificates, **others)

        return taking

    return decorated


def leader_options(lease: str) -> Decorator:
    """`--leader-elect`, as Go programs and as others take it, and the name of the lease."""
    return _all(
        switch(
            "--leader-elect",
            "elects",
            default=True,
            help="Act only as leader; --no-leader-elect is the same as --leader-elect=false.",
            expose_value=False,
            callback=_note,
        ),
        _noted("--no-leader-elect", "leads_alone", is_flag=True, hidden=True),
        _noted(
            "--leader-elect-resource-name",
            "lease_name",
            metavar="NAME",
            default=lease,
            show_default=True,
            help="The Lease that the leader holds.",
        ),
    )


def logging_options(command: Command) -> Command:
    """`--logging-format` and `--log-level`."""
    return _all(
        _noted(
            "--logging-format",
            "log_form",
            type=click.Choice(["json", "text"]),
            default="json",
            show_default=True,
            help="How lines of the log are written, on standard error.",
        ),
        _noted(
            "--log-level",
            type=click.Choice(["debug", "info", "warning", "error"]),
            default="info",
            show_default=True,
            help="The lowest level that is logged.",
        ),
    )(command)


class Address(click.ParamType[str]):
    """Where something listens, checked before anything is started."""

    name = "HOST:PORT"

    def __init__(self, *, loopback: bool = False) -> None:
        self._loopback = loopback

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from tonnage.service import addresses

        try:
            addresses.split(value)
        except InputError as error:
            self.fail(str(error).removeprefix("address "), param, ctx)
        if self._loopback and not addresses.is_loopback(value):
            self.fail(f"{value!r}: expected a loopback address, such as 127.0.0.1:8086", param, ctx)
        return value


def _noted(*names: str, **settings: Any) -> Decorator:
    """An option whose value the `ServiceOptions` has under the option's name."""
    return click.option(*names, expose_value=False, callback=_note, **settings)


def _note(ctx: click.Context, param: click.Parameter, value: object) -> None:
    if value is not None:
        setattr(ctx.ensure_object(ServiceOptions), str(param.name), value)


def _all(*options: Decorator) -> Decorator:
    """Several options as one decorator, in the order in which help shows them."""

    def decorated(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorated
