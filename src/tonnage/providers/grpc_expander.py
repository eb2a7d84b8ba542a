"""The `grpc` expander: a server of the operator's chooses, by upstream's protocol.

It asks over the network, so it is not among the expanders of the core; it is handed to
`expanders.chain` ready made, one for each decision, over a connection that lasts.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from tonnage.errors import InputError, ProviderError, system_errors
from tonnage.groups.options import Options
from tonnage.objects.nodes import Node
from tonnage.objects.pods import Pod
from tonnage.scaleup.decision import OutsideExpanders
from tonnage.scaleup.expanders import Notice, Option

if TYPE_CHECKING:
    from tonnage.providers.protos.expander_pb2 import BestOptionsRequest, BestOptionsResponse

METHOD = "/grpcplugin.Expander/BestOptions"
TIMEOUT = 5.0
LARGEST_ANSWER = 128 << 20


@contextmanager
def expanders(options: Options) -> Iterator[OutsideExpanders | None]:
    """Expanders that ask somebody else, if there is an address; the connection lasts one decision.

    They wait for the answer, so whoever decides with them does it in a thread of its own.
    """
    if not options.grpc_expander_url:
        yield None
        return
    certificate = options.grpc_expander_cert or None
    with ExpanderConnection(options.grpc_expander_url, ca_file=certificate) as connection:
        yield lambda nodes, pods: {"grpc": GrpcExpander(connection, nodes=nodes, pods=pods)}


class ExpanderConnection:
    """A channel to one server, opened at the first question and kept until it is closed.

    With a `ca_file` the server has to show a certificate that leads there, without one nothing
    is encrypted; upstream knows no connection without.
    """

    def __init__(
        self, address: str, *, ca_file: str | Path | None = None, timeout: float = TIMEOUT
    ) -> None:
        self._grpc, messages = _packages()
        self.address = address
        self._timeout = timeout
        limits = [("grpc.max_receive_message_length", LARGEST_ANSWER)]
        if ca_file is None:
            self._channel = self._grpc.insecure_channel(address, limits)
        else:
            trusted = self._grpc.ssl_channel_credentials(_read(ca_file))
            self._channel = self._grpc.secure_channel(address, trusted, limits)
        self._best_options = self._channel.unary_unary(
            METHOD,
            request_serializer=messages.BestOptionsRequest.SerializeToString,
            response_deserializer=messages.BestOptionsResponse.FromString,
        )

    def ask(self, request: "BestOptionsRequest") -> "BestOptionsResponse":
        try:
            answer: BestOptionsResponse = self._best_options(request, timeout=self._timeout)
        except self._grpc.RpcError as error:
            raise ProviderError(
                f"grpc expander at {self.address}: {error.code().name}: {error.details()}"
            ) from error
        return answer

    def close(self) -> None:
        self._channel.close()

    def __enter__(self) -> "ExpanderConnection":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class GrpcExpander:
    """Keeps the options that a server keeps; for one decision, of as many steps as it has.

    `nodes` has the template node of each group, `pods` gives the pods of a group's option at
    the time of asking. When the server fails, nothing is filtered, and it is not asked again
    for the same decision: one that hangs costs one timeout, not one for each step.
    """

    def __init__(
        self,
        connection: ExpanderConnection,
        *,
        nodes: Mapping[str, Node],
        pods: Callable[[str], Iterable[Pod]],
    ) -> None:
        self.notices: dict[Notice, None] = {}
        self._connection = connection
        self._nodes = nodes
        self._pods = pods
        self._failed = False
        self._encoded: dict[tuple[str, str], bytes] = {}

    def best(self, options: Sequence[Option]) -> list[Option]:
        if self._failed or not options:
            return list(options)
        try:
            answer = self._connection.ask(self._request(options))
        except ProviderError as error:
            self._failed = True
            self._tell("GrpcExpanderFailed", f"{error}; nothing is filtered")
            return list(options)
        return self._kept(options, [option.nodeGroupId for option in answer.options])

    def _kept(self, options: Sequence[Option], answered: Sequence[str]) -> list[Option]:
        where = f"grpc expander at {self._connection.address}"
        if not answered:
            self._tell("GrpcExpanderKeptNone", f"{where}: it keeps none of the node groups")
            return []
        for group in sorted(set(answered) - {option.group for option in options}):
            message = f"{where}: its answer names {group!r}, which it was not asked about"
            self._tell("GrpcExpanderUnknownGroup", message, group=group)
        return [option for option in options if option.group in answered] or list(options)

    def _request(self, options: Sequence[Option]) -> "BestOptionsRequest":
        from tonnage.providers import corev1
        from tonnage.providers.protos import expander_pb2

        request = expander_pb2.BestOptionsRequest()
        for option in options:
            sent = request.options.add()
            sent.nodeGroupId = option.group
            sent.nodeCount = option.node_count
            sent.debug = option.debug
            try:
                sent.podBytes.extend([self._bytes(pod) for pod in self._pods(option.group)])
                if option.group in self._nodes:
                    node = corev1.encode_node(self._nodes[option.group])
                    request.nodeBytesMap[option.group] = node
            except ValueError as error:
                message = f"grpc expander: of node group {option.group} not all is sent: {error}"
                self._tell("GrpcExpanderNotEncoded", message, group=option.group)
        return request

    def _bytes(self, pod: Pod) -> bytes:
        from tonnage.providers import corev1

        key = (pod.metadata.namespace, pod.metadata.name)
        if key not in self._encoded:
            self._encoded[key] = corev1.encode_pod(pod)
        return self._encoded[key]

    def _tell(self, reason: str, message: str, *, group: str = "") -> None:
        self.notices[Notice(reason=reason, message=message, group=group)] = None


def _packages() -> tuple[ModuleType, ModuleType]:
    """grpc and our messages; not imported before somebody asks for this expander."""
    try:
        import grpc

        from tonnage.providers.protos import expander_pb2
    except ImportError as error:
        raise InputError(
            f"expander: grpc needs the package {error.name}: install tonnage[grpc]"
        ) from error
    return grpc, expander_pb2


def _read(ca_file: str | Path) -> bytes:
    with system_errors(f"{ca_file}: certificate of the grpc expander"):
        content = Path(ca_file).read_bytes()
    if b"-----BEGIN CERTIFICATE-----" not in content:
        raise InputError(f"{ca_file}: certificate of the grpc expander: expected PEM")
    return content
