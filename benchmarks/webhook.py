"""Our webhook server beside controller-runtime's and kopf's: work per core-second of the server's process.

    python -m benchmarks webhook [--quick] [--only admission|conversion] [--connections N]

All servers run the same check and the same conversion, are called by the same client over TLS with keep-alive
connections, and are measured by the CPU time of their process. The Go peer is built by
`tools/kube/peers/build.sh`; without it only our figures (and kopf's) are printed.
"""

from __future__ import annotations

import argparse
import json
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple

import uvloop

from quarterdeck.wire.certificate import issue, make_authority, to_pem

from . import wire
from .contestant import find_peer
from .webhookreview import OBJECTS, admission_review, conversion_review
from .webhookserver import DROPPED_VERSION

PATH: Final = "/validate-scheduling-run-ai-v2alpha2-podgroup"
Json = dict[str, Any]


def _post(path: str, document: Json) -> bytes:
    return wire.render("POST", path, json.dumps(document, separators=(",", ":")).encode())


class Server(NamedTuple):
    name: str
    command: list[str]
    path: str = PATH
    converts: bool = True


def _servers() -> list[Server]:
    python = [sys.executable, "-m", "benchmarks.webhookserver"]
    servers = [Server("quarterdeck", [*python, "quarterdeck"])]
    if (peer := find_peer("webhook")) is not None:
        servers.append(Server("controller-runtime", [str(peer)]))
    else:
        print("the Go peer is not built (tools/kube/peers/build.sh): our figures only")
    return [*servers, Server("kopf", [*python, "kopf"], path="/check", converts=False)]


class Running(NamedTuple):
    server: Server
    target: wire.Target
    pid: int


class Start:
    def __init__(self, server: Server, certs: Path) -> None:
        self._server, self._certs = server, certs

    def __enter__(self) -> Running:
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        command = [*self._server.command, "--cert-dir", str(self._certs), "--port", str(port)]
        # Errors of a server that does not start must be seen; a running one says nothing.
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        if not self._process.stdout.readline().startswith(b"ready"):
            raise RuntimeError(f"{self._server.name} did not start")
        context = ssl.create_default_context(cafile=str(self._certs / "ca.crt"))
        return Running(self._server, wire.Target("localhost", port, context), self._process.pid)

    def __exit__(self, *exc: object) -> None:
        self._process.terminate()
        self._process.wait()


def write_certificates(directory: Path) -> None:
    now = datetime.now(UTC)
    authority, key = make_authority("benchmark", now=now, life=timedelta(days=1))
    certificate, leaf_key = issue(authority, key, ["localhost"], now=now, life=timedelta(days=1))
    (directory / "ca.crt").write_bytes(to_pem([authority]))
    (directory / "tls.crt").write_bytes(certificate)
    (directory / "tls.key").write_bytes(leaf_key)


class Figure(NamedTuple):
    per_core_second: float
    per_second: float


def _repeat(count: int, request: bytes) -> Iterator[bytes]:
    for _ in range(count):
        yield request


async def _measure(running: Running, count: int, request: bytes, connections: int) -> Figure:
    before, start = wire.cpu_seconds([running.pid]), time.monotonic()
    await wire.load(running.target, _repeat(count, request), connections)
    cpu, wall = wire.cpu_seconds([running.pid]) - before, time.monotonic() - start
    return Figure(count / max(cpu, 1e-9), count / wall)


def _check_answers(running: Running) -> None:
    """A benchmark of wrong answers is worth nothing: one good and one bad request first."""

    def ask(path: str, document: Json) -> Json:
        request = urllib.request.Request(
            f"https://localhost:{running.target.port}{path}",
            json.dumps(document).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, context=running.target.context) as answer:
            response: Json = json.load(answer)["response"]
        return response

    good, bad = admission_review(), admission_review()
    bad["request"]["object"]["spec"]["subGroups"][0]["parent"] = "worker-group-19"
    assert ask(running.server.path, good)["allowed"] is True, running.server.name
    refused = ask(running.server.path, bad)
    assert refused["allowed"] is False, running.server.name
    assert refused["status"]["message"] == "cycle detected in subgroups", refused
    if running.server.converts:
        converted = ask("/convert", conversion_review())["convertedObjects"]
        assert len(converted) == OBJECTS
        assert converted[7]["spec"]["cri"] == {"type": "Docker", "maxConcurrentDownloads": 4}
        assert converted[7]["metadata"]["annotations"][DROPPED_VERSION] == "1.16"


def _compare(what: str, figures: dict[str, list[Figure]], unit: str, scale: float) -> None:
    ours = statistics.median(figure.per_core_second for figure in figures["quarterdeck"])
    for name, measured in figures.items():
        core = statistics.median(figure.per_core_second for figure in measured)
        wall = statistics.median(figure.per_second for figure in measured)
        ratio = "" if name == "quarterdeck" else f"   quarterdeck does {ours / core:.2f}x the work"
        print(
            f"{what:12}{name:20}{core:>10,.1f} {unit}/core-s {1e3 / core * scale:>9.3f} ms CPU each"
            f"{wall:>10,.1f}/s wall{ratio}",
            flush=True,
        )


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks webhook", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the work, for a look")
    parser.add_argument("--only", choices=["admission", "conversion"], action="append", default=[])
    parser.add_argument("--connections", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3, help="servers take turns this often; medians count")
    options = parser.parse_args(argv)
    scale = 0.1 if options.quick else 1.0
    chosen = options.only or ["admission", "conversion"]
    convert = _post("/convert", conversion_review())
    size = len(_post(PATH, admission_review()))
    print(f"admission review {size:,} bytes, conversion review {len(convert):,} bytes, HTTP head included")
    with tempfile.TemporaryDirectory(prefix="quarterdeck-bench-") as directory, ExitStack() as stack:
        certs = Path(directory)
        write_certificates(certs)
        running = [stack.enter_context(Start(server, certs)) for server in _servers()]
        for each in running:
            _check_answers(each)
        if "admission" in chosen:
            figures: dict[str, list[Figure]] = {}
            for _ in range(options.rounds):
                for each in running:
                    admit = _post(each.server.path, admission_review())
                    count = int((4000 if each.server.name == "kopf" else 16000) * scale)
                    uvloop.run(_measure(each, count // 8, admit, options.connections))
                    figure = uvloop.run(_measure(each, count, admit, options.connections))
                    figures.setdefault(each.server.name, []).append(figure)
            _compare("admission", figures, "requests", 1.0)
        if "conversion" in chosen:
            figures = {}
            for _ in range(options.rounds):
                for each in running:
                    if each.server.converts:
                        uvloop.run(_measure(each, 3, convert, 1))
                        figure = uvloop.run(_measure(each, max(10, int(60 * scale)), convert, 1))
                        figures.setdefault(each.server.name, []).append(figure)
            _compare("conversion", figures, "reviews", 1.0)
    return 0


if __name__ == "__main__":
    sys.exit(main())
