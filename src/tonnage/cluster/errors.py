"""How a Kubernetes API can fail us, as far as somebody handles it differently.

ClusterError
├── ConnectionFailed         no answer at all: refused, cut, timed out, not to be trusted
├── CredentialsFailed        who we are could not be found out (exec plugin, token file)
└── ApiError                 an answer that says no; `status`, `reason`, `message`
    ├── Unauthorized         401: the server does not know us
    ├── Forbidden            403: it knows us; `verb`, `kind`, `group` name the missing right
    ├── NotFound             404: no such object, or no such kind (`kind_missing`)
    ├── Conflict             409: changed since we read it, or there already
    ├── Gone                 410: the version asked for is no longer remembered
    ├── Invalid              400, 405, 406, 415, 422: the request itself is refused
    ├── TooManyRequests      429: later; `retry_after`
    └── ServerError          5xx and answers that make no sense; `retry_after`
"""

# ruff: noqa: N818 - the names are the statuses of the API, which everybody knows.

from tonnage.errors import ClusterError


class ConnectionFailed(ClusterError):
    """Nothing came back, so whether the request was carried out is unknown."""


class CredentialsFailed(ClusterError):
    """No credentials could be had for the request; nothing was sent."""


class ApiError(ClusterError):
    """The server answered, and the answer is no."""

    def __init__(
        self,
        message: str,
        *,
        status: int,
        reason: str = "",
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.retry_after = retry_after


class Unauthorized(ApiError):
    """The server does not accept the credentials."""


def missing_right(verb: str, kind: str, group: str) -> str:
    """What a role lacks, for people."""
    where = f"group {group}" if group else "the core group"
    return f"missing right: verb {verb}, kind {kind}, {where}"


class Forbidden(ApiError):
    """A right is missing; its parts are those of an RBAC rule.

    Only if `by_rights`: a namespace that is going away lets nobody create anything either.
    """

    def __init__(
        self,
        message: str,
        *,
        verb: str,
        kind: str,
        group: str,
        reason: str = "Forbidden",
        by_rights: bool = True,
    ) -> None:
        super().__init__(message, status=403, reason=reason)
        self.verb = verb
        self.kind = kind
        self.group = group
        self.by_rights = by_rights

    @property
    def right(self) -> str:
        """What is missing, for people."""
        return missing_right(self.verb, self.kind, self.group)


class NotFound(ApiError):
    """There is no such object or, if `kind_missing`, the server does not serve the kind."""

    def __init__(self, message: str, *, kind_missing: bool = False) -> None:
        super().__init__(message, status=404, reason="NotFound")
        self.kind_missing = kind_missing


class Conflict(ApiError):
    """Someone was faster: the object changed since it was read, or exists already."""

    @property
    def already_exists(self) -> bool:
        return self.reason == "AlreadyExists"


class Gone(ApiError):
    """The version or page asked for is forgotten; only a new list helps."""


class Invalid(ApiError):
    """The request is refused as it stands; sending it again is pointless."""


class TooManyRequests(ApiError):
    """The server, or a disruption budget, asks to come back later."""


class ServerError(ApiError):
    """The server failed, or answered what cannot be understood."""
