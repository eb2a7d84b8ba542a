"""The one thing of a kubelet that `tonnage why` needs: it forwards a port to a process.

The API server comes here as to any kubelet: with TLS, to the address and port that the Node tells,
and with the websocket of whoever asked. What is behind the port is real.
"""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
from aiohttp import web

_DATA, _ERROR = b"\0", b"\1"


@contextlib.asynccontextmanager
async def forwarding(
    port: int, *, to: int, certificate: Path, key: Path
) -> AsyncIterator[tuple[int, list[str]]]:
    """Forward this port of every pod to one of loopback: where a kubelet listens, who was asked."""
    asked: list[str] = []

    async def forward(request: web.Request) -> web.StreamResponse:
        asked.append(request.path)
        socket = web.WebSocketResponse(protocols=["v4.channel.k8s.io"])
        await socket.prepare(request)
        wanted = int(request.query["port"]).to_bytes(2, "little")
        await socket.send_bytes(_DATA + wanted)
        await socket.send_bytes(_ERROR + wanted)
        if int(request.query["port"]) == port:
            await _copy(socket, to)
        else:
            await socket.send_bytes(_ERROR + b"nobody listens there")
        await socket.close()
        return socket

    application = web.Application()
    application.router.add_get("/portForward/{namespace}/{pod}", forward)
    runner = web.AppRunner(application)
    await runner.setup()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
        await site.start()
        yield runner.addresses[0][1], asked
    finally:
        await runner.cleanup()


async def _copy(socket: web.WebSocketResponse, port: int) -> None:
    """Both ways, until the process has said all."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)

    async def sent() -> None:
        async for message in socket:
            if message.type is aiohttp.WSMsgType.BINARY and message.data[:1] == _DATA:
                writer.write(message.data[1:])

    sending = asyncio.ensure_future(sent())
    try:
        while data := await reader.read(65_536):
            await socket.send_bytes(_DATA + data)
    finally:
        sending.cancel()
        writer.close()
