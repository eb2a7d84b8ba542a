"""Options with which the board is reached from elsewhere: its certificate, and whose it trusts."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from tonnage.errors import InputError


def options(prefix: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
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
