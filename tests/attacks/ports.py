"""Attacks of whoever reaches a port, and of who holds the scheduler's certificate."""

import asyncio
import json
import ssl
from collections import Counter
from collections.abc import Awaitable, Iterable
from typing import TypeVar

import aiohttp

from tests.attacks.scene import Scene
from tests.attacks.targets import HOST, Target
from tests.e2e import manifests
from tests.hostile.malformed import LIES, NONSENSE, posted

Answers = Counter[str]
T = TypeVar("T")
Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]

AT_ONCE = 50
"""Connections that are being opened, or requests on their way: fewer than a port keeps open."""
HOLD = 3.0
"""Seconds for which silent clients are looked at once all of them have connected."""
PATIENCE = 30.0

CLOSED = "closed"
STILL_OPEN = "still open"
NO_SUCH_POD = "200, no such pod"

UNCERTIFIED, MADE_UP = 2_000, 800
IDLE, SILENT = 1_000, 3_300
LARGE = 8 * 2**20
TIMES = 20

FILTER = "/v1/filter"


def uncertified(scene: Scene) -> Answers:
    """Questions to the extender without a certificate, each over its own connection."""
    bodies = (question(scene, number) for number in range(UNCERTIFIED))
    return asyncio.run(ask(scene.extender, bodies, scene.extender.tls))


def made_up(scene: Scene) -> Answers:
    """Pods that there are not, asked about in the scheduler's name."""
    bodies = (question(scene, number) for number in range(MADE_UP))
    answers = asyncio.run(ask(scene.extender, bodies, scene.scheduler))
    return answers + Counter({"reserved": scene.plane.reservations()})


def idle_tls(scene: Scene) -> Answers:
    """Clients of the extender that have shaken hands and say nothing."""
    return asyncio.run(keep_silent([scene.extender], IDLE, tls=True))


def silent(scene: Scene) -> Answers:
    """Clients of both that connect and say nothing at all."""
    return asyncio.run(keep_silent(scene.targets, SILENT, tls=False))


def large(scene: Scene) -> Answers:
    """Questions as large as they may be, of names nobody has heard of, and larger ones."""
    bodies = (
        question(scene, number, size=size)
        for number, size in enumerate([LARGE, LARGE + 1] * (TIMES // 2))
    )
    return asyncio.run(ask(scene.extender, bodies, scene.scheduler, at_once=4))


def lies(scene: Scene) -> Answers:
    """Bodies that are not what their headers say; to the extender in the scheduler's name."""
    requests = [posted(*lie, path=FILTER) for lie in LIES.values()] * TIMES
    return asyncio.run(send_to_both(scene, requests))


def nonsense(scene: Scene) -> Answers:
    """Bytes that are no request, to both; to the extender inside of TLS."""
    return asyncio.run(send_to_both(scene, [*NONSENSE.values()] * TIMES))


# Questions


def question(scene: Scene, number: int, *, size: int = 0) -> bytes:
    """About a pod that there is not; as large as that, if a size is given."""
    pod = manifests.pod(f"made-up-{number}", namespace=scene.namespace, claims=["data"])
    body = json.dumps({"Pod": pod, "NodeNames": [] if size else scene.nodes})
    if not size:
        return body.encode()
    entry = f'"example.com/{number:06}-{{:06}}": "1", '
    count = (size - len(body)) // len(entry.format(0)) - 1
    limits = "".join(entry.format(name) for name in range(count))
    body = body.replace('{"requests"', f'{{"limits": {{{limits.rstrip(", ")}}}, "requests"')
    return body.ljust(size).encode()


async def ask(
    target: Target,
    bodies: Iterable[bytes],
    context: ssl.SSLContext | None,
    *,
    at_once: int = AT_ONCE,
) -> Answers:
    """What is answered to questions, of which so many are on their way at a time."""
    assert context is not None
    url = f"https://{HOST}:{target.port}{FILTER}"
    connector = aiohttp.TCPConnector(ssl=context, limit=at_once, force_close=True)
    timeout = aiohttp.ClientTimeout(total=PATIENCE)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:

        async def one(body: bytes) -> str:
            try:
                async with session.post(url, data=body) as answer:
                    text = await answer.text()
            except aiohttp.ClientError:
                return CLOSED
            return NO_SUCH_POD if "no such pod" in text else str(answer.status)

        return Counter(await gather((one(body) for body in bodies), at_once=at_once))


# Connections


async def keep_silent(targets: Iterable[Target], number: int, *, tls: bool) -> Answers:
    """What became of clients that said nothing, a while after the last one had connected."""
    answers: Answers = Counter()
    for target in targets:
        context = target.tls if tls else None
        found = await gather((connect(target, context) for _ in range(number)), at_once=AT_ONCE)
        await asyncio.sleep(HOLD)
        answers.update(STILL_OPEN if is_open(one) else CLOSED for one in found)
        for connection in found:
            if connection is not None and not connection[1].is_closing():
                connection[1].transport.abort()
    return answers


async def connect(target: Target, context: ssl.SSLContext | None) -> Connection | None:
    try:
        return await asyncio.open_connection(HOST, target.port, ssl=context)
    except OSError:
        return None


def is_open(connection: Connection | None) -> bool:
    if connection is None:
        return False
    reader, _ = connection
    return not reader.at_eof() and reader.exception() is None


async def send_to_both(scene: Scene, requests: list[bytes]) -> Answers:
    to_run = (send(scene.run, None, request) for request in requests)
    to_extender = (send(scene.extender, scene.scheduler, request) for request in requests)
    found = [
        *await gather(to_run, at_once=AT_ONCE),
        *await gather(to_extender, at_once=AT_ONCE),
    ]
    return Counter(found)


async def send(target: Target, context: ssl.SSLContext | None, request: bytes) -> str:
    """The status of the answer."""
    connection = await connect(target, context)
    if connection is None:
        return CLOSED
    reader, writer = connection
    try:
        writer.write(request)
        line = await asyncio.wait_for(reader.readline(), PATIENCE)
    except ConnectionError:
        return CLOSED
    finally:
        writer.transport.abort()
    return line.split(b" ")[1].decode() if line.startswith(b"HTTP/") else CLOSED


async def gather(work: Iterable[Awaitable[T]], *, at_once: int) -> list[T]:
    """What came of all of it, so much at a time."""
    rest = iter(work)
    done: list[T] = []

    async def worker() -> None:
        for one in rest:
            done.append(await one)

    await asyncio.gather(*(worker() for _ in range(at_once)))
    return done
