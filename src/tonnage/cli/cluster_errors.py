"""Failures of a live cluster in words that lead on: which context and server, and what to do."""

import re
from typing import TYPE_CHECKING

from tonnage.errors import ClusterError

if TYPE_CHECKING:
    from tonnage.cluster.config import Access

_HTML = re.compile(r"<(!doctype|html|head|body)", re.IGNORECASE)


def explained(error: ClusterError, access: "Access") -> ClusterError:
    """The same failure with the context, the server and the next step."""
    context = f"context {access.context}, " if access.context else ""
    where = f"{context}server {access.endpoint.shown}"
    text = access.endpoint.without_secrets(str(error)).removeprefix(f"{access.endpoint.shown}: ")
    hint = _hint(error, text)
    if _HTML.search(text):
        text = text.partition("<")[0].rstrip(": ")
    return ClusterError(f"{where}: {text}{f'; {hint}' if hint else ''}")


def _hint(error: ClusterError, text: str) -> str:
    from tonnage.cluster import errors

    status = error.status if isinstance(error, errors.ApiError) else 0
    if isinstance(error, errors.Unauthorized):
        return "you are not logged in, or no longer: log in as for kubectl, and try kubectl get ns"
    if 300 <= status < 400 or _HTML.search(text):
        return (
            "this is a login page or a proxy, not a Kubernetes API: log in, or correct the server"
            " of the context"
        )
    if isinstance(error, errors.CredentialsFailed):
        return "the kubeconfig's credentials do not work: try kubectl get ns"
    if isinstance(error, errors.Forbidden):
        return f"{error.right}; docs/deploying.md has the rights of every command"
    if isinstance(error, errors.ConnectionFailed):
        return "is the cluster reachable from here? kubectl get ns asks the same"
    return ""
