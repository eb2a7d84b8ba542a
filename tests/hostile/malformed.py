"""Bytes that are no HTTP request, and requests whose headers lie about their body."""

import gzip
import zlib

from tests.hostile.served import request

JSON = b'{"a": 1}'
LIES = {
    "gzip that is none": ({"Content_Encoding": "gzip"}, JSON),
    "gzip that is cut off": ({"Content_Encoding": "gzip"}, gzip.compress(JSON)[:-4]),
    "gzip that unpacks to a gigabyte": (
        {"Content_Encoding": "gzip"},
        gzip.compress(bytes(2**20)) * 1024,
    ),
    "deflate that is none": ({"Content_Encoding": "deflate"}, JSON),
    "deflate that is gzip": ({"Content_Encoding": "deflate"}, gzip.compress(JSON)),
    "deflate as it should be": ({"Content_Encoding": "deflate"}, zlib.compress(JSON)),
    "an encoding there is not": ({"Content_Encoding": "snappy, gzip"}, JSON),
    "chunks that are none": ({"Transfer_Encoding": "chunked", "Content_Length": ""}, JSON),
    "a chunk that is too long": (
        {"Transfer_Encoding": "chunked", "Content_Length": ""},
        b"FFFFFFFFFFFFFFFFFF\r\nabc",
    ),
    "a chunk that is too short": (
        {"Transfer_Encoding": "chunked", "Content_Length": ""},
        b"1\r\nabc\r\n0\r\n\r\n",
    ),
    "a transfer in gzip": ({"Transfer_Encoding": "gzip", "Content_Length": ""}, JSON),
}

NONSENSE = {
    "no HTTP": b"\x00\x01\x02\x03\r\n\r\n",
    "TLS for a port without": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"x" * 60,
    "a version there is not": b"GET / HTTP/9.9\r\n\r\n",
    "a header without a colon": b"GET / HTTP/1.1\r\nHost localhost\r\n\r\n",
    "a header of 100 KB": b"GET / HTTP/1.1\r\nX: " + b"x" * 100_000 + b"\r\n\r\n",
    "10,000 headers": b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 10_000 + b"\r\n",
    "a path of 100 KB": b"GET /" + b"x" * 100_000 + b" HTTP/1.1\r\n\r\n",
    "two lengths": b"POST /echo HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n12",
    "a length below zero": b"POST /echo HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
    "a length that is no number": b"POST /echo HTTP/1.1\r\nContent-Length: many\r\n\r\n",
    "a length and chunks": request("/echo", method="POST", Transfer_Encoding="chunked"),
}


def posted(headers: dict[str, str], body: bytes, *, path: str = "/echo") -> bytes:
    """A request with these headers; a length that is empty is left out."""
    made = request(path, method="POST", body=body, **headers)
    return made.replace(b"Content-Length: \r\n", b"")
