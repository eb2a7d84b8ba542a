"""Every exception Tonnage raises on purpose.

    TonnageError
    ├── InputError      a file, flag or object is wrong; the message says where and what is expected
    ├── ClusterError    a Kubernetes API did not answer, or not as it should
    └── ProviderError   a provider of node groups did not

Only kinds that somebody handles differently get a class. The command line turns
`InputError` into exit code 2 and one line on standard error.
"""


class TonnageError(Exception):
    """Base of everything raised on purpose."""


class InputError(TonnageError):
    """What was handed in cannot be used; the message names the file, object and field."""


class ClusterError(TonnageError):
    """A Kubernetes API failed us."""


class ProviderError(TonnageError):
    """A provider of node groups failed us."""
