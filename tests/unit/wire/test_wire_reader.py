"""Requests out of bytes: however they are cut, one after the other, and never more than was asked for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarterdeck.wire.http.framing import frame
from quarterdeck.wire.http.headcache import Head, HeadCache
from quarterdeck.wire.http.limit import Limits
from quarterdeck.wire.http.reader import RefusedRequest, RequestReader

PLENTY = 1 << 20
#: bytes that look like the ends of heads and chunks
awkward = st.lists(
    st.sampled_from([b"\r", b"\n", b"\r\n", b"0", b"x", b"0\r\n\r\n", b"GET / HTTP/1.1\r\n"])
).map(b"".join)


@st.composite
def requests(draw: st.DrawFn) -> tuple[bytes, bytes]:
    """A request as it is sent, and its body."""
    body = draw(awkward)
    kind = draw(st.sampled_from(["none", "counted", "chunked"]))
    if kind == "none":
        return b"GET /none HTTP/1.1\r\nHost: x\r\n\r\n", b""
    if kind == "counted":
        head = b"POST /counted HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
        return head % len(body) + body, body
    size = draw(st.integers(1, 5))
    chunks = b"".join(frame(body[start : start + size]) for start in range(0, len(body), size))
    trailer = draw(st.sampled_from([b"", b"X-Trailer: y\r\n"]))
    head = b"POST /chunked HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    return head + chunks + b"0\r\n" + trailer + b"\r\n", body


def read_all(reader: RequestReader, pieces: list[bytes]) -> list[tuple[str, bytes]]:
    """What comes out when everything is taken as soon as it can be."""
    found: list[tuple[str, bytes]] = []
    path: str | None = None
    for piece in pieces:
        reader.receive(piece)
        while True:
            if path is None:
                head = reader.read_head()
                if head is None:
                    break
                path = head.path
                assert "x-trailer" not in head.headers
                reader.start_body(PLENTY)
            if reader.length != 0 and not reader.read_body():
                break
            found.append((path, reader.body()))
            path = None
            if not reader.has_input:
                break
    assert path is None
    return found


@given(st.data(), st.lists(requests(), min_size=1, max_size=5))
def test_requests_are_the_same_however_they_are_cut(
    data: st.DataObject, sent: list[tuple[bytes, bytes]]
) -> None:
    raw = b"".join(each for each, _ in sent)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=20)))
    pieces = [raw[start:end] for start, end in zip([0, *cuts], [*cuts, len(raw)], strict=True)]
    reader = RequestReader(Limits(), HeadCache())
    found = read_all(reader, [piece for piece in pieces if piece])
    assert [body for _, body in found] == [body for _, body in sent]
    assert [path for path, _ in found] == [each.split()[1].decode() for each, _ in sent]
    assert not reader.has_input


def test_a_head_that_comes_byte_by_byte_is_looked_at_once() -> None:
    head = b"GET /a HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 100_000
    reader = RequestReader(Limits(), HeadCache())
    for start in range(len(head)):  # would not end if each byte had everything copied or searched again
        reader.receive(head[start : start + 1])
        assert reader.read_head() is None
    reader.receive(b"\r\n\r\n")
    found = reader.read_head()
    assert found is not None
    assert len(found.headers["x"]) == 100_000


@pytest.mark.parametrize("line", [b"X: y\r\n", b"X: " + b"y" * 10_000 + b"\r\n", b"y" * 100])
def test_an_endless_head_is_refused_before_it_is_kept(line: bytes) -> None:
    limits = Limits(head=50_000)
    reader = RequestReader(limits, HeadCache())
    reader.receive(b"GET /a HTTP/1.1\r\n")
    for _ in range((limits.head - 100) // len(line)):
        reader.receive(line)
        assert reader.read_head() is None
    reader.receive(line * (200 // len(line) + 1))
    with pytest.raises(RefusedRequest) as refused:
        reader.read_head()
    assert refused.value.status == 431


def test_what_is_behind_a_request_stays_bytes() -> None:
    reader = RequestReader(Limits(), HeadCache())
    reader.receive(b"GET /a HTTP/1.1\r\nHost: x\r\n\r\nGET /b HTTP/1.1\r\nHost: x\r\n\r\nrest")
    assert [head.path for head in (reader.read_head(), reader.read_head()) if head] == ["/a", "/b"]
    assert reader.take_rest() == b"rest"
    assert not reader.has_input


def test_repeated_headers_are_joined_and_kept_apart() -> None:
    reader = RequestReader(Limits(), HeadCache())
    reader.receive(b"GET / HTTP/1.1\r\nHost: x\r\nA: 1\r\nB: 2\r\na: 1\r\nA: 3\r\n\r\n")
    head = reader.read_head()
    assert head is not None
    assert head.headers == {"host": "x", "a": "1, 1, 3", "b": "2"}
    assert head.repeated == [("a", "1"), ("a", "1"), ("a", "3")]


def read_one(heads: HeadCache, raw: bytes) -> Head | None:
    reader = RequestReader(Limits(), heads)
    reader.receive(raw)
    return reader.read_head()


def test_headers_that_change_the_connection_are_not_remembered() -> None:
    heads = HeadCache()
    for line in (b"Connection: close", b"Expect: 100-continue", b"Transfer-Encoding: chunked", b"Upgrade: x"):
        raw = b"POST / HTTP/1.1\r\nHost: x\r\n%b\r\n\r\n" % line
        assert read_one(heads, raw) is not None
        assert heads.find(raw) is None, line


def test_known_headers_serve_other_paths_methods_and_lengths() -> None:
    heads = HeadCache()
    raw = b"%b %b HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\nA: b\r\n\r\n"
    first = read_one(heads, raw % (b"POST", b"/a?b", 5))
    assert first is not None
    for method, path, length in ((b"POST", b"/a?b", 5), (b"PUT", b"/c", 17), (b"GET", b"/d?e=f?g", 0)):
        known = heads.find(raw % (method, path, length))
        parsed = read_one(HeadCache(), raw % (method, path, length))
        assert known is not None
        assert parsed is not None
        assert known.headers is first.headers
        assert known == parsed


@pytest.mark.parametrize(
    "line",
    [
        b"GET /a HTTP/1.0",
        b"GET /%61 HTTP/1.1",
        b"GET /a b HTTP/1.1",
        b"GET a HTTP/1.1",
        b"CONNECT /a HTTP/1.1",
        b"GET /\xe9 HTTP/1.1",
        b"GET /#a HTTP/1.1",
        b"GET /\x01 HTTP/1.1",
        b"GET  /a HTTP/1.1",
        b"get /a HTTP/1.1",
    ],
)
def test_a_first_line_that_is_not_plain_is_parsed_whatever_its_headers(line: bytes) -> None:
    heads = HeadCache()
    headers = b"\r\nHost: x\r\n\r\n"
    assert read_one(heads, b"GET /a HTTP/1.1" + headers) is not None
    assert heads.find(b"GET /b HTTP/1.1" + headers) is not None
    assert heads.find(line + headers) is None
