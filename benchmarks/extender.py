"""The extender as kube-scheduler calls it: all names of nodes over HTTPS, to another process.

Here times are on the clock, from the first byte of a question to the last of its answer, and what
the asking side costs is part of them, as is whatever else the machine does. The aim is for the
slowest of a hundred, so that is what is shown as measured. What an answer costs its process in CPU
time is shown beside it.
"""

import asyncio
import http.client
import multiprocessing
import os
import random
import ssl
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple, cast

import msgspec
import trustme
from prometheus_client import CollectorRegistry

from benchmarks.context import Context
from benchmarks.measurement import Row, shown, spread
from benchmarks.questions import NAMESPACE
from benchmarks.workloads import GP3
from tonnage.clock import SystemClock
from tonnage.objects.pods import Pod
from tonnage.rules.features import of_version
from tonnage.scheduler.extender.config import ExtenderConfig
from tonnage.scheduler.extender.metrics import ExtenderMetrics
from tonnage.scheduler.extender.newcomers import Newcomers
from tonnage.scheduler.extender.verbs import Verbs
from tonnage.service.booked_room import BookedRoom
from tonnage.service.certificates import Certificates
from tonnage.service.live_cluster import LiveCluster
from tonnage.service.moving_pods import MovingPods
from tonnage.service.status_server import StatusServer
from tonnage.snapshot.reservations import Reservations
from tonnage.snapshot.snapshot import Snapshot
from tonnage.testing import builders

NAME = "extender"
_AIM = 10e-3
_ON_THEIR_WAY = 100
_CONNECTIONS = (1, 8)


class _Files(NamedTuple):
    authority: Path
    certificate: Path
    key: Path
    client: Path


class _Served(NamedTuple):
    port: int
    files: _Files
    process: int

    def cpu_time(self) -> float:
        """Seconds of CPU time the process has used."""
        fields = Path(f"/proc/{self.process}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def run(context: Context) -> Iterator[Row]:
    snapshot = context.snapshot
    pods = _pods(snapshot, _ON_THEIR_WAY + 1)
    names = list(snapshot.nodes)
    random.Random(1).shuffle(names)
    questions = {
        "a pod without volumes": _question(builders.pod("plain", namespace=NAMESPACE), names),
        "a pod with a volume": _question(pods[0], names),
    }
    with tempfile.TemporaryDirectory() as directory:
        files = _certificate(Path(directory))
        ours, theirs = multiprocessing.Pipe()
        # A copy of this process has the snapshot already.
        process = multiprocessing.get_context("fork").Process(
            target=_serve, args=(snapshot, files, theirs), daemon=True
        )
        process.start()
        try:
            server = _Served(cast(int, ours.recv()), files, process.pid or 0)
            for case, body in questions.items():
                yield from _measure(context, case, body, server, names=len(names))
            _ask(server, [_question(pod, names) for pod in pods[1:]])
            case = f"the same, {_ON_THEIR_WAY} on their way"
            yield from _measure(
                context, case, questions["a pod with a volume"], server, names=len(names)
            )
        finally:
            process.terminate()
            process.join()


def _measure(
    context: Context, case: str, body: bytes, server: "_Served", *, names: int
) -> Iterator[Row]:
    for connections in _CONNECTIONS:
        each = context.times(1000) // connections
        _ask(server, [body] * 5)
        began, spent = time.perf_counter(), server.cpu_time()
        taken = _ask_side_by_side(server, [body] * each, connections)
        rate = len(taken) / (time.perf_counter() - began)
        spent = (server.cpu_time() - spent) / len(taken)
        times = spread(taken)
        some = f"{connections} connection{'s' if connections > 1 else ''}"
        yield Row(
            benchmark=NAME,
            case=f"{case}, {some}",
            work=f"{names:,} names, half within {shown(times.median, 's')}, {rate:,.0f}/s",
            value=times.p99,
            p99=times.p99,
            aim=_AIM if connections == 1 else None,
        )
        if connections == 1:
            yield Row(
                benchmark=NAME, case=f"{case}, CPU", work=f"{names:,} names", value=spent or 1e-9
            )


def _ask_side_by_side(server: "_Served", bodies: Sequence[bytes], connections: int) -> list[float]:
    taken: list[float] = []
    threads = [
        threading.Thread(target=lambda: taken.extend(_ask(server, bodies)))
        for _ in range(connections)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return taken


def _ask(server: "_Served", bodies: Sequence[bytes]) -> list[float]:
    """Questions on one connection, one after the other; how long each took."""
    context = ssl.create_default_context(cafile=server.files.authority)
    context.load_cert_chain(server.files.client)
    connection = http.client.HTTPSConnection("localhost", server.port, context=context)
    taken = []
    for body in bodies:
        started = time.perf_counter()
        connection.request("POST", "/v1/filter", body, {"Content-Type": "application/json"})
        answer = connection.getresponse().read()
        taken.append(time.perf_counter() - started)
        assert b'"Error":""' in answer[-40:], answer[-200:]
    connection.close()
    return taken


def _pods(snapshot: Snapshot, count: int) -> list[Pod]:
    """Pods with a claim each, which the snapshot takes in with them."""
    found = []
    for number in range(count):
        name = f"asked-{number}"
        snapshot.put_claim(builders.pvc(name, namespace=NAMESPACE, storage_class=GP3))
        pod = builders.pod(name, namespace=NAMESPACE, pvcs=[name], cpu="500m")
        snapshot.put_pod(pod)
        found.append(pod)
    return found


def _question(pod: Pod, names: Sequence[str]) -> bytes:
    return msgspec.json.encode({"Pod": pod, "Nodes": None, "NodeNames": names})


def _certificate(directory: Path) -> _Files:
    authority = trustme.CA()
    issued = authority.issue_cert("localhost")
    names = ("ca.crt", "tls.crt", "tls.key", "client.pem")
    files = _Files(*(directory / name for name in names))
    authority.cert_pem.write_to_path(files.authority)
    issued.cert_chain_pems[0].write_to_path(files.certificate)
    issued.private_key_pem.write_to_path(files.key)
    scheduler = authority.issue_cert(common_name="system:kube-scheduler")
    scheduler.private_key_and_cert_chain_pem.write_to_path(files.client)
    return files


class _Standing(NamedTuple):
    """All that the verbs read of a standing cluster."""

    snapshot: Snapshot


class _NothingBooked:
    """No ProvisioningRequests."""

    def refresh(self, _: object) -> bool:
        return False

    def concerns(self, _: object) -> bool:
        return False

    def taken_by(self, _: object) -> None:
        pass

    def changed(self) -> None:
        pass


class _NothingMoves:
    """No node is drained in the cluster of the benchmark."""

    def expire(self) -> None:
        pass

    def place_of(self, *_: object) -> str:
        return ""


def _serve(snapshot: Snapshot, files: _Files, port: Connection) -> None:
    asyncio.run(_serving(snapshot, files, port))


async def _serving(snapshot: Snapshot, files: _Files, port: Connection) -> None:
    clock, config = SystemClock(), ExtenderConfig(reservation_time=3600.0)
    features = of_version(returning_volume_once=True)
    reservations = Reservations()
    verbs = Verbs(
        cast(LiveCluster, _Standing(snapshot)),
        reservations,
        Newcomers(lambda: clock.now().timestamp(), window=lambda: config.registration_window),
        config=lambda: config,
        features=lambda: features,
        withheld=str,
        clock=clock,
        metrics=ExtenderMetrics(reservations),
        booked=cast(BookedRoom, _NothingBooked()),
        moving=cast(MovingPods, _NothingMoves()),
    )
    server = StatusServer(
        "localhost:0",
        alive=str,
        ready=str,
        registry=CollectorRegistry(),
        documents={},
        questions={"/v1/filter": verbs.filter},
        certificates=Certificates(files.certificate, files.key, client_ca=files.authority),
    )
    async with server.listening():
        port.send(server.port)
        await asyncio.Event().wait()
