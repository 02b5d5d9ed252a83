"""Warnings about ports of one pod that stand in each other's way.

Every two ports that clash make a warning, so a small pod can have very many: they are made one by one,
in upstream's order, and each port is only held against those it clashes with.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from heapq import merge
from typing import Any

from quarterdeck.wire.gostyle import quote

Document = Mapping[str, Any]
#: a port met before: its number in the order of the pod, and the path of its field
_Met = tuple[int, str]


def port_warnings(ports: Sequence[tuple[str, Document]]) -> Iterator[str]:
    """For the ports of all containers, each with the path of its field."""
    by_target: dict[tuple[int, str], _SameTarget] = {}
    for number, (where, port) in enumerate(ports):
        ip, host = port.get("hostIP") or "", port.get("hostPort") or 0
        if ip and not host:
            yield f"{where}: hostIP set without hostPort: {_go_port(port)}"
        target = port.get("containerPort") or 0, port.get("protocol") or ""
        same = by_target.setdefault(target, _SameTarget())
        for verdict, place in same.clashes(ip, host):
            yield f"{where}: {verdict} port definition with {place}"
        same.add((number, where), ip, host)
    names: dict[str, str] = {}
    for where, port in ports:
        if (name := port.get("name")) and (first := names.setdefault(name, where)) is not where:
            yield (
                f"{where}: duplicate port name {quote(name)} with {first}, services and probes that "
                f"select ports by name will use {first}"
            )


class _SameTarget:
    """Ports of one number and protocol, by what they ask of the host."""

    def __init__(self) -> None:
        self._all: list[tuple[_Met, str, int]] = []
        self._by_host: dict[int, list[tuple[_Met, str, int]]] = {}
        self._by_address: dict[tuple[int, str], list[tuple[_Met, str, int]]] = {}

    def add(self, met: _Met, ip: str, host: int) -> None:
        entry = met, ip, host
        self._all.append(entry)
        self._by_host.setdefault(host, []).append(entry)
        self._by_address.setdefault((host, ip), []).append(entry)

    def clashes(self, ip: str, host: int) -> Iterator[tuple[str, str]]:
        """What a port that asks for this address clashes with, in the order of the pod."""
        for (_, place), other_ip, other_host in self._rivals(ip, host):
            if (ip, host) == (other_ip, other_host):
                yield "duplicate", place
            elif not host or not other_host:
                yield "overlapping", place
            else:
                yield "dangerously ambiguous", place

    def _rivals(self, ip: str, host: int) -> Iterator[tuple[_Met, str, int]]:
        if not host:  # no address at all clashes with every other
            return iter(self._all)
        unbound = self._by_host.get(0, ())
        if not ip:  # every address of the host
            return merge(unbound, self._by_host.get(host, ()))
        exact, everywhere = self._by_address.get((host, ip), ()), self._by_address.get((host, ""), ())
        return merge(unbound, exact, everywhere)


def _go_port(port: Document) -> str:
    """A port as Go's `%+v` prints it."""
    shown = (
        ("Name", port.get("name") or ""),
        ("HostPort", port.get("hostPort") or 0),
        ("ContainerPort", port.get("containerPort") or 0),
        ("Protocol", port.get("protocol") or ""),
        ("HostIP", port.get("hostIP") or ""),
    )
    return "{" + " ".join(f"{key}:{value}" for key, value in shown) + "}"
