"""One question to a port of a pod, by way of the API server.

A forwarded port reaches what listens on the pod's loopback only, as `kubectl port-forward` does,
with the right `create pods/portforward`. The protocol is the kubelet's `v4.channel.k8s.io`: each
frame begins with the number of a channel, 0 for data and 1 for errors, and the first frame of each
has the port.
"""

import asyncio

import aiohttp

from tonnage.cluster.errors import ConnectionFailed
from tonnage.cluster.http import HttpTransport

PROTOCOL = "v4.channel.k8s.io"
_DATA, _ERROR = 0, 1


async def get(
    transport: HttpTransport,
    path: str,
    *,
    namespace: str,
    pod: str,
    port: int,
    seconds: float = 10.0,
) -> bytes:
    """The body of an HTTP answer with status 200; anything else is `ConnectionFailed`."""
    where = f"pod {namespace}/{pod}, port {port}"
    forward = f"/api/v1/namespaces/{namespace}/pods/{pod}/portforward"
    try:
        async with (
            asyncio.timeout(seconds),
            transport.websocket(
                forward, query=[("ports", str(port))], protocols=[PROTOCOL]
            ) as socket,
        ):
            await socket.send_bytes(bytes([_DATA]) + _request(path, port))
            answer = await _read(socket, where)
    except TimeoutError:
        raise ConnectionFailed(f"{where}: no answer within {seconds:g} s") from None
    head, _, body = answer.partition(b"\r\n\r\n")
    status = head.split(b"\r\n", 1)[0].decode("latin-1")
    if " 200 " not in f"{status} ":
        raise ConnectionFailed(f"{where}: answered {status or 'nothing'} to {path}")
    return body


def _request(path: str, port: int) -> bytes:
    # HTTP/1.0: the answer comes in one piece, and the connection ends with it.
    lines = (f"GET {path} HTTP/1.0", f"Host: localhost:{port}", "Accept: application/json")
    return "\r\n".join((*lines, "", "")).encode()


async def _read(socket: aiohttp.ClientWebSocketResponse, where: str) -> bytes:
    answer = bytearray()
    opened: set[int] = set()
    async for message in socket:
        if message.type is not aiohttp.WSMsgType.BINARY or not message.data:
            continue
        channel, data = message.data[0], message.data[1:]
        if channel not in opened:
            opened.add(channel)  # Its first frame is the port.
        elif channel == _ERROR and data:
            raise ConnectionFailed(f"{where}: {data.decode(errors='replace').strip()}")
        elif channel == _DATA:
            answer += data
            if _is_whole(answer):
                break
    return bytes(answer)


def _is_whole(answer: bytearray) -> bool:
    head, found, body = answer.partition(b"\r\n\r\n")
    if not found:
        return False
    for line in head.lower().split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.strip() == b"content-length" and value.strip().isdigit():
            return len(body) >= int(value)
    return False
