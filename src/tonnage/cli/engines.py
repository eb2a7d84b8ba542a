"""The options of every command that spreads work: how many processes, or which Dask cluster."""

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import click

if TYPE_CHECKING:
    from tonnage.engine import Engine


class EngineChoice(NamedTuple):
    """What the command line says of the engine."""

    address: str
    jobs: int
    ca: str
    certificate: str
    key: str

    @property
    def is_local(self) -> bool:
        return self.address == "local"

    @property
    def is_here(self) -> bool:
        """One process: this one."""
        return self.is_local and self.jobs == 1

    @contextmanager
    def opened(self) -> Iterator["Engine"]:
        from tonnage import engine

        certificates = engine.DaskCertificates(self.ca, self.certificate, self.key)
        with engine.engine_of(self.address, jobs=self.jobs, certificates=certificates) as opened:
            yield opened


def options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of an engine, and as `chosen` what they say."""

    @click.option(
        "-j",
        "--jobs",
        type=click.IntRange(min=1),
        metavar="N",
        default=_all_cores,
        show_default="all cores",
        help="Processes to use on this machine; with 1, answers come one by one.",
    )
    @click.option(
        "--engine",
        metavar="ADDRESS",
        default="local",
        show_default=True,
        help="Where to work: local, on processes of this machine; dask://HOST:PORT or "
        "tls://HOST:PORT, on the Dask cluster of that scheduler (the extra dask).",
    )
    @click.option("--tls-ca", metavar="FILE", default="", help="Authority of a tls:// engine.")
    @click.option(
        "--tls-certificate", metavar="FILE", default="", help="Certificate for a tls:// engine."
    )
    @click.option("--tls-key", metavar="FILE", default="", help="Key of that certificate.")
    @functools.wraps(command)
    def chosen(
        *arguments: Any,
        jobs: int,
        engine: str,
        tls_ca: str,
        tls_certificate: str,
        tls_key: str,
        **given: Any,
    ) -> None:
        choice = EngineChoice(engine, jobs, tls_ca, tls_certificate, tls_key)
        command(*arguments, chosen=choice, **given)

    return chosen


def _all_cores() -> int:
    from tonnage.engine import processes

    return processes.available()
