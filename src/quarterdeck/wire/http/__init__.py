"""One HTTP/1.1 core for servers and clients, on httptools and asyncio.

A server is an ``HttpServer`` with a function that finds who serves a request; a client is a
``ClientConnection`` in somebody's pool.
"""

from .client import Answer, ClientConnection, StaleConnection
from .connection import Connection
from .framing import frame, unframe
from .limit import KIB, MIB, Limits
from .message import ChunkWriter, Find, Handler, Request, Response, Route, Stream, parse_query, text
from .pulled import PulledStream
from .relay import ByteStream, relay
from .server import HttpServer
from .tls import ByteTransport
from .upgrade import RawStream, Takeover

__all__ = [
    "KIB",
    "MIB",
    "Answer",
    "ByteStream",
    "ByteTransport",
    "ChunkWriter",
    "ClientConnection",
    "Connection",
    "Find",
    "Handler",
    "HttpServer",
    "Limits",
    "PulledStream",
    "RawStream",
    "Request",
    "Response",
    "Route",
    "StaleConnection",
    "Stream",
    "Takeover",
    "frame",
    "parse_query",
    "relay",
    "text",
    "unframe",
]
