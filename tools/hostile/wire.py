"""Attacks below HTTP's rules: broken requests, broken connections, and more than one at a time."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Raw:
    """Bytes for a fresh connection. answers: how many good responses must come back, at least."""

    name: str
    data: bytes
    half_close: bool = True
    tls: bool = True
    answers: int = 0


_CHUNKED: Final = b"Transfer-Encoding: chunked"
_CHUNK: Final = b"10000\r\n" + b" " * 65536 + b"\r\n"
_WATCH: Final = b"GET /api/v1/configmaps?watch=1&timeoutSeconds=1 HTTP/1.1"
_WEBSOCKET: Final = (
    b"Connection: Upgrade",
    b"Upgrade: websocket",
    b"Sec-WebSocket-Version: 13",
    b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
)
_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
_GET: Final = b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"


def _request(line: bytes = b"GET /livez HTTP/1.1", *fields: bytes, body: bytes = b"") -> bytes:
    return b"\r\n".join([line, b"Host: x", *fields, b"", b""]) + body


def _get(*fields: bytes, body: bytes = b"") -> bytes:
    return _request(b"GET /livez HTTP/1.1", *fields, body=body)


def _post(*fields: bytes, body: bytes = b"") -> bytes:
    return _request(b"POST /api/v1/namespaces HTTP/1.1", *fields, body=body)


def _cases(rng: random.Random) -> list[Callable[[], Raw]]:
    return [
        lambda: Raw("garbage", rng.randbytes(rng.randrange(1, 3000))),
        lambda: Raw("not TLS", _GET, tls=False),
        lambda: Raw("garbage instead of TLS", rng.randbytes(500), tls=False),
        lambda: Raw("nothing", b""),
        lambda: Raw("half a line", b"GET /liv"),
        lambda: Raw("half a header", b"GET /livez HTTP/1.1\r\nHos"),
        lambda: Raw("half a body", _post(b"Content-Length: 100", body=b"{")),
        lambda: Raw("half a chunk", _post(_CHUNKED, body=b"64\r\n{")),
        lambda: Raw("bad version", _request(b"GET /livez HTTP/9.9")),
        lambda: Raw("no version", b"GET /livez\r\n\r\n"),
        lambda: Raw("unknown method", _request(b"BREW /livez HTTP/1.1")),
        lambda: Raw("connect", _request(b"CONNECT example.com:443 HTTP/1.1")),
        lambda: Raw("absolute", _request(b"GET http://example.com/livez HTTP/1.1")),
        lambda: Raw("asterisk", _request(b"OPTIONS * HTTP/1.1")),
        lambda: Raw("no host", b"GET /livez HTTP/1.1\r\n\r\n"),
        lambda: Raw("two hosts", _get(b"Host: y")),
        lambda: Raw("bare newlines", b"GET /livez HTTP/1.1\nHost: x\n\n"),
        lambda: Raw("no colon", _get(b"nonsense")),
        lambda: Raw("folded", _get(b"A: b", b" c")),
        lambda: Raw("nul in a header", _get(b"A: b\x00c")),
        lambda: Raw("space before colon", _get(b"Content-Length : 5", body=b"aaaaa")),
        lambda: Raw("huge header", _get(b"A: " + b"b" * rng.choice([70_000, 2_000_000]))),
        lambda: Raw("many headers", _get(*[b"A%d: b" % n for n in range(20_000)])),
        lambda: Raw("huge path", _request(b"GET /" + b"a" * rng.choice([70_000, 2_000_000]) + b" HTTP/1.1")),
        lambda: Raw("endless line", b"GET /" + b"a" * 3_000_000, half_close=True),
        lambda: Raw("negative length", _post(b"Content-Length: -1")),
        lambda: Raw("length is a word", _post(b"Content-Length: ten")),
        lambda: Raw("length is huge", _post(b"Content-Length: " + b"9" * 30)),
        lambda: Raw("two lengths", _post(b"Content-Length: 2", b"Content-Length: 5", body=b"{}aaa")),
        lambda: Raw("length and chunks", _post(b"Content-Length: 2", _CHUNKED, body=b"0\r\n\r\n")),
        lambda: Raw("unknown encoding", _post(b"Transfer-Encoding: gzip, x", body=b"x")),
        lambda: Raw("chunk is garbage", _post(_CHUNKED, body=b"zz\r\n{}\r\n0\r\n\r\n")),
        lambda: Raw("chunk is huge", _post(_CHUNKED, body=b"FFFFFFFFFFFFFFFFFF\r\n{}")),
        lambda: Raw("chunks without end", _post(_CHUNKED, body=_CHUNK * 61)),
        lambda: Raw(
            "content encoding",
            _post(b"Content-Encoding: gzip", b"Content-Length: 4", body=b"\x1f\x8b\x08\x00"),
        ),
        lambda: Raw("upgrade", _request(_WATCH, *_WEBSOCKET)),
        lambda: Raw("http2 preface", _PREFACE),
        lambda: Raw("pipelined", _GET * 30, half_close=False, answers=30),
        lambda: Raw("pipelined, then garbage", _GET * 5 + rng.randbytes(200), half_close=False, answers=5),
        lambda: Raw(
            "pipelined with a body",
            _post(b"Content-Length: 2", body=b"{}") + _GET,
            half_close=False,
            answers=1,
        ),
        lambda: Raw("watch, then garbage", _request(_WATCH) + rng.randbytes(100)),
        lambda: Raw("expect", _post(b"Expect: 100-continue", b"Content-Length: 2", body=b"{}")),
        lambda: Raw("expect something else", _post(b"Expect: a miracle", b"Content-Length: 2", body=b"{}")),
    ]


def attack(rng: random.Random) -> Raw:
    return rng.choice(_cases(rng))()


def everything(rng: random.Random) -> list[Raw]:
    """One of each, for a run that must not miss any."""
    return [make() for make in _cases(rng)]
