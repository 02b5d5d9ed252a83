"""What the server's process and the controllers' process tell each other: one JSON document a line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from quarterdeck.cluster.node.profile import NodeSettings


class Assignment(msgspec.Struct, frozen=True, kw_only=True):
    """What the controllers' process is to do, and with what; the first line it reads.

    Keys come this way, and not by argument or environment, which others on the machine can read.
    """

    socket: str
    """The server's private socket; who can open it is an administrator."""
    root_ca: bytes
    authority: bytes
    """Signs certificates that are asked for: certificate and key."""
    service_account_key: bytes
    """Signs the tokens of Secrets, as kube-controller-manager does."""
    operators: tuple[str, ...] = ()
    settings: Mapping[str, Mapping[str, Any]] = {}
    nodes: NodeSettings = NodeSettings()
    controllers: str | None = None
    """Which of the cluster's controllers run, as ``ControllerChoice.parse`` reads it; all, unless given."""
    log_level: str = "WARNING"


class Order(msgspec.Struct, frozen=True, tag="stop"):
    """Stop in an orderly way. A pipe that ends without it means that the server is gone."""


class Request(msgspec.Struct, frozen=True, tag="metrics"):
    """Tell the metrics."""


class State(msgspec.Struct, frozen=True, tag="state"):
    """Why the controllers cannot do their work yet; empty once they can."""

    not_ready: str


class Metrics(msgspec.Struct, frozen=True, tag="exposition"):
    """The metrics, in the Prometheus text format."""

    text: bytes


class Refused(msgspec.Struct, frozen=True, tag="refused"):
    """The controllers end, for a reason that the user can mend."""

    reason: str


Report = State | Metrics | Refused
_encoder = msgspec.json.Encoder()
_orders: msgspec.json.Decoder[Order | Request] = msgspec.json.Decoder(Order | Request)
_reports: msgspec.json.Decoder[Report] = msgspec.json.Decoder(Report)


def encode(message: msgspec.Struct) -> bytes:
    """One line."""
    return _encoder.encode(message) + b"\n"


def decode_order(line: bytes) -> Order | Request:
    return _orders.decode(line)


def decode_report(line: bytes) -> Report:
    return _reports.decode(line)
