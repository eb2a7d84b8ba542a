"""How the API says no: a code, a reason that programs read, a message that people read."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

Tree = dict[str, Any]
"""A JSON object. Trees in the store are shared and never changed; a change is a new tree."""


class ApiRefusal(Exception):  # noqa: N818 - an answer more than an error
    """The answer is a Status of failure."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        details: Mapping[str, object] | None = None,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.retry_after = retry_after
        self.status: Tree = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": message,
            "reason": reason,
            "code": code,
        }
        if details or retry_after is not None:
            pause = {} if retry_after is None else {"retryAfterSeconds": retry_after}
            self.status["details"] = {**(details or {}), **pause}

    @property
    def body(self) -> bytes:
        return msgspec.json.encode(self.status)


def bad_request(message: str) -> ApiRefusal:
    return ApiRefusal(400, "BadRequest", message)


def forbidden(what: str, name: str, why: str) -> ApiRefusal:
    return ApiRefusal(
        403, "Forbidden", f'{what} "{name}" is forbidden: {why}', details={"name": name}
    )


def no_such_path() -> ApiRefusal:
    """There is nothing of the kind; without a name in the details, clients know the difference."""
    return ApiRefusal(
        404, "NotFound", "the server could not find the requested resource", details={}
    )


def not_found(what: str, name: str) -> ApiRefusal:
    resource, _, group = what.partition(".")
    details = {"name": name, "kind": resource, **({"group": group} if group else {})}
    return ApiRefusal(404, "NotFound", f'{what} "{name}" not found', details=details)


def method_not_allowed(message: str) -> ApiRefusal:
    return ApiRefusal(405, "MethodNotAllowed", message, details={})


def already_exists(what: str, name: str) -> ApiRefusal:
    resource, _, group = what.partition(".")
    return ApiRefusal(
        409,
        "AlreadyExists",
        f'{what} "{name}" already exists',
        details={"name": name, "group": group, "kind": resource},
    )


def conflict(what: str, name: str, why: str = "") -> ApiRefusal:
    why = why or "the object has been modified; please apply your changes to the latest version"
    return ApiRefusal(
        409,
        "Conflict",
        f'Operation cannot be fulfilled on {what} "{name}": {why}',
        details={"name": name, "kind": what.partition(".")[0]},
    )


def gone(message: str) -> ApiRefusal:
    return ApiRefusal(410, "Expired", message)


def unsupported_media_type(given: str, accepted: Sequence[str]) -> ApiRefusal:
    return ApiRefusal(
        415,
        "UnsupportedMediaType",
        f"the body of the request was in an unknown format {given!r}"
        f" - accepted media types include: {', '.join(accepted)}",
    )


def invalid(kind: str, name: str, problems: Sequence[tuple[str, str]]) -> ApiRefusal:
    """`problems` are fields, each with what is wrong about it."""
    told = ", ".join(f"{field}: {problem}" for field, problem in problems)
    causes = [
        {"reason": "FieldValueInvalid", "message": problem, "field": field}
        for field, problem in problems
    ]
    return ApiRefusal(
        422,
        "Invalid",
        f'{kind} "{name}" is invalid: {told}',
        details={"name": name, "kind": kind, "causes": causes},
    )


def too_large_version(asked: int, current: int) -> ApiRefusal:
    """A version from before the server's data was lost, or from another server."""
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    return ApiRefusal(
        504,
        "Timeout",
        f"Too large resource version: {asked}, current: {current}",
        details={"causes": [cause]},
        retry_after=1,
    )
