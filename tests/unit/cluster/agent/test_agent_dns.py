"""Names for resolvers: what a question is answered with."""

from __future__ import annotations

import socket
import struct
from typing import Any

import msgspec
import pytest

from quarterdeck.api import decode
from quarterdeck.api.k8s import EndpointSlice, Service
from quarterdeck.cluster.agent.network.dns import AAAA, CNAME, PTR, SRV, A, Record, Zone, answer

SVC = "svc.cluster.local"


def service(name: str, **spec: Any) -> Service:
    ports = [{"name": "web", "port": 80}]
    document = {"metadata": {"name": name, "namespace": "n"}, "spec": {"ports": ports, **spec}}
    return decode(msgspec.json.encode(document), Service)


def endpoints(name: str, *pods: tuple[str, str, bool]) -> EndpointSlice:
    document = {
        "metadata": {"name": name, "namespace": "n", "labels": {"kubernetes.io/service-name": name}},
        "addressType": "IPv4",
        "ports": [{"name": "web", "port": 8080}],
        "endpoints": [
            {"addresses": [address], "hostname": hostname or None, "conditions": {"ready": is_ready}}
            for address, hostname, is_ready in pods
        ],
    }
    return decode(msgspec.json.encode(document), EndpointSlice)


ZONE = Zone(
    [
        service("shop", clusterIP="10.0.0.9"),
        service("crew", clusterIP="None"),
        service("far", type="ExternalName", externalName="shop.n.svc.cluster.local"),
    ],
    [
        endpoints(
            "crew", ("10.244.0.5", "crew-0", True), ("10.244.0.6", "", True), ("10.244.0.7", "late", False)
        )
    ],
)


def question(name: str, kind: int) -> bytes:
    labels = b"".join(bytes([len(each)]) + each.encode() for each in name.split("."))
    return struct.pack(">HHHHHH", 7, 0x0100, 1, 0, 0, 0) + labels + b"\0" + struct.pack(">HH", kind, 1)


@pytest.mark.parametrize(
    ("name", "records"),
    [
        (f"shop.n.{SVC}", [Record(A, "10.0.0.9")]),
        (f"crew.n.{SVC}", [Record(A, "10.244.0.5"), Record(A, "10.244.0.6")]),
        (f"crew-0.crew.n.{SVC}", [Record(A, "10.244.0.5")]),
        (f"10-244-0-6.crew.n.{SVC}", [Record(A, "10.244.0.6")]),
        (f"late.crew.n.{SVC}", None),
        (f"far.n.{SVC}", [Record(CNAME, f"shop.n.{SVC}")]),
        (f"_web._tcp.shop.n.{SVC}", [Record(SRV, f"shop.n.{SVC}", 80)]),
        (f"_web._tcp.crew.n.{SVC}",
         [Record(SRV, f"crew-0.crew.n.{SVC}", 8080), Record(SRV, f"10-244-0-6.crew.n.{SVC}", 8080)]),
        ("9.0.0.10.in-addr.arpa", [Record(PTR, f"shop.n.{SVC}")]),
        ("5.0.244.10.in-addr.arpa", [Record(PTR, f"crew-0.crew.n.{SVC}")]),
        ("10-244-0-5.n.pod.cluster.local", [Record(A, "10.244.0.5")]),
        (f"n.{SVC}", []),
        ("example.org", None),
    ],
)  # fmt: skip
def test_names_of_a_cluster(name: str, records: list[Record] | None) -> None:
    found = ZONE.find(name)
    assert (list(found) if found is not None else None) == records


def test_an_answer_repeats_the_question_and_has_the_address() -> None:
    asked = question(f"Shop.n.{SVC}", A)
    said = answer(asked, ZONE)
    number, flags, questions, answers = struct.unpack_from(">HHHH", said)
    assert (number, questions, answers) == (7, 1, 1)
    assert flags & 0x800F == 0x8000
    assert said[12 : len(asked)] == asked[12:]
    assert said.endswith(socket.inet_aton("10.0.0.9"))


def test_another_name_is_followed() -> None:
    said = answer(question(f"far.n.{SVC}", A), ZONE)
    assert struct.unpack_from(">H", said, 6) == (2,)
    assert said.endswith(socket.inet_aton("10.0.0.9"))


@pytest.mark.parametrize(
    ("asked", "code", "answers"),
    [
        (question("example.org", A), 3, 0),
        (question(f"shop.n.{SVC}", AAAA), 0, 0),
        (struct.pack(">HHHHHH", 7, 0, 2, 0, 0, 0), 1, 0),
        (question("a", A)[:-5] + b"\x50", 1, 0),
    ],
)
def test_what_is_not_there_is_told(asked: bytes, code: int, answers: int) -> None:
    _, flags, _, count = struct.unpack_from(">HHHH", answer(asked, ZONE))
    assert (flags & 15, count) == (code, answers)


def test_what_is_no_question_has_no_answer() -> None:
    assert answer(b"", ZONE) == b""
    assert answer(answer(question("x", A), ZONE), ZONE) == b""


def test_an_answer_that_is_too_long_is_asked_for_again() -> None:
    many = [(f"10.244.1.{number}", "", True) for number in range(1, 100)]
    zone = Zone([service("crew", clusterIP="None")], [endpoints("crew", *many)])
    assert struct.unpack_from(">H", answer(question(f"crew.n.{SVC}", A), zone, 512), 2)[0] & 0x0200
    assert struct.unpack_from(">H", answer(question(f"crew.n.{SVC}", A), zone), 6) == (99,)
