"""Every exception Tonnage raises on purpose.

    TonnageError
    ├── InputError      a file, flag or object is wrong; the message says where and what is expected
    ├── ClusterError    a Kubernetes API did not answer, or not as it should
    └── ProviderError   a provider of node groups did not; `cause` says why

Only kinds that somebody handles differently get a class. The command line turns
`InputError` into exit code 2 and one line on standard error.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, TypeAlias

ProviderCause: TypeAlias = Literal["transient", "outOfResources", "quota", "other"]


class TonnageError(Exception):
    """Base of everything raised on purpose."""


class InputError(TonnageError):
    """What was handed in cannot be used; the message names the file, object and field."""


@contextmanager
def system_errors(named: object) -> Iterator[None]:
    """What the system says of a file or an address, as an `InputError` that names it."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{named}: {error.strerror or error}") from error


class ClusterError(TonnageError):
    """A Kubernetes API failed us."""


class ProviderError(TonnageError):
    """A provider of node groups failed us; `cause` says whether asking again soon can help.

    transient       it will pass by itself: throttled, overtaken by another change, a server that
                    is being restarted. Nothing was changed. Asked again shortly.
    outOfResources  there are no machines of the kind just now
    quota           there are, but not for us
    other           everything else, also where it is unknown whether the request was carried out

    A group that cannot be scaled up is backed off for any cause but `transient`.
    """

    def __init__(self, message: str, *, cause: ProviderCause = "other") -> None:
        super().__init__(message)
        self.cause = cause

    @property
    def retryable(self) -> bool:
        """Whether the same request may well succeed if it is made again shortly."""
        return self.cause == "transient"
