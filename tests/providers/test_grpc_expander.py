"""The `grpc` expander against a real server on the loopback interface, plain and with TLS."""

import random
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest
import trustme

from tonnage.errors import InputError
from tonnage.objects.nodes import Node
from tonnage.objects.pods import Pod, PodSpec
from tonnage.providers.grpc_expander import METHOD, ExpanderConnection, GrpcExpander
from tonnage.providers.protos import corev1_slice_pb2, expander_pb2
from tonnage.providers.protos.expander_pb2 import BestOptionsRequest, BestOptionsResponse
from tonnage.scaleup import expanders
from tonnage.scaleup.expanders import Option
from tonnage.testing import builders

Answer = Callable[[BestOptionsRequest, grpc.ServicerContext], BestOptionsResponse]


class Server:
    """An expander of an operator's that keeps what it is told to, and remembers the questions."""

    def __init__(self, credentials: grpc.ServerCredentials | None) -> None:
        self.asked: list[BestOptionsRequest] = []
        self.answer: Answer = keeping()
        self._pool = ThreadPoolExecutor(1)
        self._server = grpc.server(self._pool)
        _, service, name = METHOD.split("/")
        handler = grpc.unary_unary_rpc_method_handler(
            self._serve,
            request_deserializer=BestOptionsRequest.FromString,
            response_serializer=BestOptionsResponse.SerializeToString,
        )
        handlers = grpc.method_handlers_generic_handler(service, {name: handler})
        self._server.add_generic_rpc_handlers((handlers,))
        if credentials is None:
            port = self._server.add_insecure_port("localhost:0")
        else:
            port = self._server.add_secure_port("localhost:0", credentials)
        self.address = f"localhost:{port}"
        self._server.start()

    def stop(self) -> None:
        self._server.stop(None).wait()
        self._pool.shutdown()

    def _serve(
        self, request: BestOptionsRequest, context: grpc.ServicerContext
    ) -> BestOptionsResponse:
        self.asked.append(request)
        return self.answer(request, context)


def keeping(*groups: str) -> Answer:
    options = [expander_pb2.Option(nodeGroupId=group) for group in groups]
    return lambda *_: BestOptionsResponse(options=options)


@contextmanager
def serving(credentials: grpc.ServerCredentials | None = None) -> Iterator[Server]:
    server = Server(credentials)
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def ca_file(authority: trustme.CA, tmp_path: Path) -> Path:
    path = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(path)
    return path


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as plain:
        yield plain


@pytest.fixture
def tls_server(authority: trustme.CA) -> Iterator[Server]:
    issued = authority.issue_cert("localhost")
    chain = b"".join(blob.bytes() for blob in issued.cert_chain_pems)
    pair = (issued.private_key_pem.bytes(), chain)
    with serving(grpc.ssl_server_credentials([pair])) as secure:
        yield secure


@pytest.fixture
def connection(server: Server) -> Iterator[ExpanderConnection]:
    with ExpanderConnection(server.address) as plain:
        yield plain


def option(group: str) -> Option:
    return Option(
        group=group,
        node_count=3,
        pod_count=1,
        cpu_milli=1000,
        memory=2**30,
        node_cpu_milli=4000,
        node_memory=2**34,
        debug=f"why {group}",
    )


OPTIONS = (option("a"), option("b"), option("c"))


def asking(
    connection: ExpanderConnection,
    *,
    nodes: dict[str, Node] | None = None,
    pods: Callable[[str], Sequence[Pod]] = lambda _: (),
) -> GrpcExpander:
    return GrpcExpander(connection, nodes=nodes or {}, pods=pods)


def kept(expander: GrpcExpander) -> list[str]:
    return [option.group for option in expander.best(OPTIONS)]


def reasons(expander: GrpcExpander) -> list[str]:
    return [notice.reason for notice in expander.notices]


def test_what_the_server_keeps_is_kept(server: Server, connection: ExpanderConnection) -> None:
    server.answer = keeping("a", "c")
    assert kept(asking(connection)) == ["a", "c"]


def test_what_a_server_keeps_over_tls_is_kept(tls_server: Server, ca_file: Path) -> None:
    tls_server.answer = keeping("b")
    with ExpanderConnection(tls_server.address, ca_file=ca_file) as connection:
        assert kept(asking(connection)) == ["b"]


def test_order_and_repetitions_of_the_answer_are_no_matter(
    server: Server, connection: ExpanderConnection
) -> None:
    server.answer = keeping("c", "a", "c")
    assert kept(asking(connection)) == ["a", "c"]


def test_the_server_is_told_of_every_option(server: Server, connection: ExpanderConnection) -> None:
    asking(connection).best(OPTIONS)
    (asked,) = server.asked
    assert [(sent.nodeGroupId, sent.nodeCount, sent.debug) for sent in asked.options] == [
        ("a", 3, "why a"),
        ("b", 3, "why b"),
        ("c", 3, "why c"),
    ]


def test_the_server_gets_the_pods_of_each_option(
    server: Server, connection: ExpanderConnection
) -> None:
    pods = {"a": [builders.pod("p1"), builders.pod("p2")], "b": [builders.pod("p1")], "c": []}
    asking(connection, pods=pods.__getitem__).best(OPTIONS)
    sent = [
        [corev1_slice_pb2.Pod.FromString(pod).metadata.name for pod in one.podBytes]
        for one in server.asked[0].options
    ]
    assert sent == [["p1", "p2"], ["p1"], []]


def test_the_server_gets_the_template_of_each_group(
    server: Server, connection: ExpanderConnection
) -> None:
    nodes = {"a": builders.node("template-of-a", cpu="7"), "unasked": builders.node("other")}
    asking(connection, nodes=nodes).best(OPTIONS)
    sent = server.asked[0].nodeBytesMap
    node = corev1_slice_pb2.Node.FromString(sent["a"])
    assert (list(sent), node.metadata.name, node.status.capacity["cpu"].string) == (
        ["a"],
        "template-of-a",
        "7",
    )


def test_a_group_nobody_asked_about_is_ignored_and_named(
    server: Server, connection: ExpanderConnection
) -> None:
    server.answer = keeping("b", "stranger")
    expander = asking(connection)
    assert kept(expander) == ["b"]
    assert [notice.group for notice in expander.notices] == ["stranger"]


def test_an_answer_of_strangers_only_filters_nothing(
    server: Server, connection: ExpanderConnection
) -> None:
    server.answer = keeping("stranger")
    assert kept(asking(connection)) == ["a", "b", "c"]


def test_an_empty_answer_leaves_no_option(server: Server, connection: ExpanderConnection) -> None:
    server.answer = keeping()
    expander = asking(connection)
    assert (kept(expander), reasons(expander)) == ([], ["GrpcExpanderKeptNone"])


def test_a_chain_ends_with_the_server_when_it_keeps_one(
    server: Server, connection: ExpanderConnection
) -> None:
    server.answer = keeping("b")
    chain = expanders.chain(
        "grpc,most-pods", rng=random.Random(0), outside={"grpc": asking(connection)}
    )
    assert chain.choose(OPTIONS) == OPTIONS[1]


def test_without_options_the_server_is_not_asked(
    server: Server, connection: ExpanderConnection
) -> None:
    assert (asking(connection).best([]), server.asked) == ([], [])


def refuse(_: BestOptionsRequest, context: grpc.ServicerContext) -> BestOptionsResponse:
    context.abort(grpc.StatusCode.INTERNAL, "out of ideas")


def test_an_error_filters_nothing_and_says_why(
    server: Server, connection: ExpanderConnection
) -> None:
    server.answer = refuse
    expander = asking(connection)
    assert kept(expander) == ["a", "b", "c"]
    assert [notice.message for notice in expander.notices] == [
        f"grpc expander at {server.address}: INTERNAL: out of ideas; nothing is filtered"
    ]


def test_a_server_that_failed_is_not_asked_again_for_the_same_decision(
    server: Server, connection: ExpanderConnection
) -> None:
    server.answer = refuse
    expander = asking(connection)
    expander.best(OPTIONS)
    expander.best(OPTIONS)
    assert len(server.asked) == 1


def test_a_server_that_failed_is_asked_again_for_the_next_decision(
    server: Server, connection: ExpanderConnection
) -> None:
    server.answer = refuse
    asking(connection).best(OPTIONS)
    server.answer = keeping("b")
    assert kept(asking(connection)) == ["b"]


def test_a_server_that_hangs_is_given_up(server: Server) -> None:
    over = threading.Event()

    def hang(*_: object) -> BestOptionsResponse:
        over.wait()
        return BestOptionsResponse()

    server.answer = hang
    with ExpanderConnection(server.address, timeout=0.05) as impatient:
        expander = asking(impatient)
        assert kept(expander) == ["a", "b", "c"]
    over.set()
    assert "DEADLINE_EXCEEDED" in next(iter(expander.notices)).message


def test_a_server_that_is_not_there_filters_nothing() -> None:
    with serving() as gone:
        address = gone.address
    with ExpanderConnection(address) as connection:
        expander = asking(connection)
        assert (kept(expander), reasons(expander)) == (["a", "b", "c"], ["GrpcExpanderFailed"])


def test_a_server_that_somebody_else_vouches_for_is_not_heard(
    tls_server: Server, tmp_path: Path
) -> None:
    other = tmp_path / "other.pem"
    trustme.CA().cert_pem.write_to_path(other)
    tls_server.answer = keeping("b")
    with ExpanderConnection(tls_server.address, ca_file=other) as connection:
        assert kept(asking(connection)) == ["a", "b", "c"]


def test_a_pod_that_cannot_be_encoded_leaves_its_option_without_pods(
    server: Server, connection: ExpanderConnection
) -> None:
    broken = Pod(spec=PodSpec(priority=2**40))
    server.answer = keeping("b")
    expander = asking(
        connection, pods=lambda group: [broken] if group == "a" else [builders.pod("p")]
    )
    assert kept(expander) == ["b"]
    assert [len(sent.podBytes) for sent in server.asked[0].options] == [0, 1, 1]
    assert [notice.group for notice in expander.notices] == ["a"]


def test_a_certificate_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"nowhere\.pem: certificate of the grpc expander: No such"
    ):
        ExpanderConnection("localhost:1", ca_file=tmp_path / "nowhere.pem")


def test_a_certificate_that_is_none_is_named(tmp_path: Path) -> None:
    path = tmp_path / "ca.pem"
    path.write_text("not a certificate")
    with pytest.raises(InputError, match=r"ca\.pem: .*expected PEM"):
        ExpanderConnection("localhost:1", ca_file=path)


def test_without_grpcio_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "grpc", None)
    with pytest.raises(InputError, match=r"needs the package grpc.*install tonnage\[grpc\]"):
        ExpanderConnection("localhost:1")


def test_grpcio_is_not_loaded_before_it_is_needed() -> None:
    code = "import sys, tonnage.providers.grpc_expander; sys.exit('grpc' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
