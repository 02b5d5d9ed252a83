"""Throw bad input at an API server for a while and report what it does not survive as it should.

    python tools/fuzz.py --seconds 60 --seed 1                    an embedded server of its own
    python tools/fuzz.py --seconds 60 --seed 1 --kubeconfig FILE  a server that runs already
    python tools/fuzz.py --seconds 60 --seed 1 --real             the same requests to the real one beside it

A finding is an internal error that the real server does not give, an answer after more than 5 s or none, a
refused write that changed something, or memory that grows beyond a limit. The requests depend on the seed and
their number alone: ``--first N --count 1`` repeats one. Exit code 1 when there are findings.

With ``--real`` a 500 counts only if the real server gives none, and ``--differences`` lists where the two
answer with different status codes.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import itertools
import random
import socket
import ssl
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Final, Self

sys.path.insert(0, str(Path(__file__).resolve().parent))

from hostile import attack, oracle, wire
from hostile.client import PATIENCE, Client, Gone, Request, Response, Unanswered
from hostile.corpus import Corpus
from parity import server

MIB: Final = 1 << 20
#: how many requests lie between two looks at the memory and two clearings
ROUND: Final = 250
#: connections that say nothing, held open all the time
IDLERS: Final = 30


@dataclass
class Report:
    """What a run did and found."""

    requests: int = 0
    statuses: collections.Counter[int] = field(default_factory=collections.Counter)
    findings: list[str] = field(default_factory=list)
    #: (generator, our status, the real status, our message) -> example
    differences: dict[tuple[str, int, int, str], str] = field(default_factory=dict)
    memory_before: int = 0
    memory_peak: int = 0

    def __str__(self) -> str:
        counts = ", ".join(f"{status}: {count}" for status, count in sorted(self.statuses.items()))
        lines = [f"{self.requests} requests ({counts})"]
        if self.memory_peak:
            lines.append(f"memory {self.memory_before // MIB} MiB, at most {self.memory_peak // MIB} MiB")
        lines += [f"FINDING {finding}" for finding in self.findings]
        return "\n".join([*lines, f"{len(self.findings)} findings"])


class Fuzzer:
    """Sends numbered requests to one server, and if there is a judge, to the real one too.

    growth: bytes that the process may grow by, seen from the end of the preparations.
    """

    def __init__(
        self,
        kubeconfig: Path,
        *,
        seed: int,
        pid: int | None = None,
        judge: Path | None = None,
        growth: int = 300 * MIB,
    ) -> None:
        self._seed = seed
        self._pid = pid
        self._growth = growth
        self._client = Client(kubeconfig)
        self._judge = Client(judge) if judge else None
        self._corpus = Corpus(f"fuzz-{seed}")
        names, weights = zip(
            *((name, weight) for name, (weight, _) in attack.GENERATORS.items()), strict=True
        )
        self._names: list[str] = list(names)
        self._weights: list[int] = list(weights)
        self._idlers: list[ssl.SSLSocket] = []
        self._seen: set[tuple[str, str]] = set()
        self.report = Report()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for idler in self._idlers:
            with contextlib.suppress(OSError):
                idler.shutdown(socket.SHUT_RDWR)
            idler.close()
        for client in self._clients():
            client.close()

    def run(self, *, seconds: float, first: int = 0, count: int | None = None) -> Report:
        """Work for that long, or for that many requests."""
        for client in self._clients():
            self._corpus.prepare(client)
        self.report.memory_before = oracle.resident(self._pid) if self._pid else 0
        deadline = time.monotonic() + seconds
        for number in itertools.islice(itertools.count(first), count):
            if time.monotonic() > deadline:
                break
            try:
                self.step(number)
            except Gone:
                self._find(number, self.request(number), "the server has ended, here or shortly before")
                return self.report
            if number % ROUND == ROUND - 1:
                self._pause()
        self._pause()
        return self.report

    def request(self, number: int) -> Request:
        """The request of that number; the same for the same seed."""
        rng = random.Random(f"{self._seed}:{number}")
        name = rng.choices(self._names, self._weights)[0]
        return self._corpus.spare(attack.GENERATORS[name][1](rng, self._corpus))

    def step(self, number: int) -> None:
        """One request, or now and then one attack on the connection."""
        rng = random.Random(f"{self._seed}:{number}:wire")
        if rng.random() < 0.04:
            self.attack(wire.attack(rng), number)
            return
        request = self.request(number)
        try:
            self._try(request, number)
        except Gone:
            raise
        except Unanswered as error:
            self._find(number, request, f"no answer: {error}")
        except (OSError, ssl.SSLError) as error:
            self._find(number, request, f"no connection: {error}")

    def attack(self, raw: wire.Raw, number: int) -> None:
        """Send raw bytes on a connection of their own; others must not notice."""
        self.report.requests += 1
        started = time.monotonic()
        try:
            with contextlib.suppress(TimeoutError, ConnectionError):
                answer = self._client.send_raw(raw.data, half_close=raw.half_close, tls=raw.tls)
                if (good := answer.count(b"HTTP/1.1 200")) < raw.answers:
                    self._find(number, raw, f"{good} of {raw.answers} answers")
                if (
                    b"HTTP/1.1 5" in answer
                    and b"HTTP/1.1 505" not in answer
                    and b"HTTP/1.1 501" not in answer
                ):
                    self._find(number, raw, f"answered {answer[:200]!r}")
            if (taken := time.monotonic() - started) > 2 * PATIENCE:
                self._find(number, raw, f"took {taken:.1f} s")
            if (alive := self._client.call("GET", "/livez")).status != 200 or alive.seconds > PATIENCE:
                self._find(number, raw, f"afterwards /livez: {alive.status} in {alive.seconds:.1f} s")
        except Gone:
            raise
        except (Unanswered, OSError) as error:
            self._find(number, raw, f"afterwards no answer: {error}")

    def _try(self, request: Request, number: int) -> None:
        self.report.requests += 1
        before = oracle.Snapshot(self._client, request)
        response = self._send(self._client, request)
        self.report.statuses[response.status] += 1
        real = self._ask_judge(request)
        if real is not None:
            self._compare(request, response, real)
        if problem := oracle.check(request, response, real=real.status if real else None):
            self._find(number, request, problem)
        is_collection = request.method == "DELETE" and response.status >= 500
        if response.status >= 400 and not is_collection and (problem := before.changes()):
            self._find(number, request, f"{problem} (status {response.status})")

    def _ask_judge(self, request: Request) -> Response | None:
        if self._judge is None:
            return None
        try:
            return self._send(self._judge, request)
        except (Unanswered, OSError):
            # The real server drops the connection at times; ours has to answer all the same.
            return Response(0, "", b"", 0.0)

    def _compare(self, request: Request, ours: Response, real: Response) -> None:
        if ours.status != real.status:
            key = (request.kind, ours.status, real.status, ours.message[:60])
            self.report.differences.setdefault(
                key, f"{request}\n    ours {ours.message[:300]}\n    real {real.message[:300]}"
            )

    @staticmethod
    def _send(client: Client, request: Request) -> Response:
        return client.send_anonymously(request) if request.kind == "stranger" else client.send(request)

    def _pause(self) -> None:
        """Look at the memory, clear what was made, and keep some silent connections open."""
        if self._pid:
            now = oracle.resident(self._pid)
            self.report.memory_peak = max(self.report.memory_peak, now)
            if (growth := now - self.report.memory_before) > self._growth:
                self.report.findings.append(f"memory grew by {growth // MIB} MiB to {now // MIB} MiB")
        for client in self._clients():
            with contextlib.suppress(Unanswered):
                self._corpus.clear(client)
        with contextlib.suppress(OSError, Unanswered):
            while len(self._idlers) < IDLERS:
                idler = self._client.connect()
                idler.sendall(b"GET /api HTTP/1.1\r\nHost: x\r\nA: ")
                self._idlers.append(idler)

    def _find(self, number: int, what: Request | wire.Raw, problem: str) -> None:
        text = str(what) if isinstance(what, Request) else f"{what.name} {what.data[:200]!r}"
        kind = what.kind if isinstance(what, Request) else "wire"
        # Hundreds of requests may fail for one reason; the first is example enough.
        if (kind, problem) in self._seen:
            return
        self._seen.add((kind, problem))
        self.report.findings.append(f"#{number} {kind}: {problem}\n    {text}")

    def _clients(self) -> Iterator[Client]:
        yield self._client
        if self._judge is not None:
            yield self._judge


def main() -> int:
    parser = argparse.ArgumentParser(description="fuzz the HTTP surface of an API server")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long to run (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="default: %(default)s")
    parser.add_argument("--kubeconfig", type=Path, help="a server that runs already (default: start one)")
    parser.add_argument("--pid", type=int, help="the process of that server, to watch its memory")
    parser.add_argument("--first", type=int, default=0, help="the number of the first request")
    parser.add_argument("--count", type=int, help="send only that many")
    parser.add_argument("--real", action="store_true", help="send everything to the real server too")
    parser.add_argument(
        "--differences", action="store_true", help="list other status codes than the real one's"
    )
    options = parser.parse_args()
    try:
        return _run(options)
    except server.ServerError as error:
        print(f"FINDING the server {error}")
        return 1


def _run(options: argparse.Namespace) -> int:
    with contextlib.ExitStack() as stack:
        kubeconfig, pid = options.kubeconfig, options.pid
        if kubeconfig is None:
            running = stack.enter_context(server.embedded())
            kubeconfig, pid = running.kubeconfig, running.pid
        judge = stack.enter_context(server.real()) if options.real else None
        fuzzer = stack.enter_context(Fuzzer(kubeconfig, seed=options.seed, pid=pid, judge=judge))
        report = fuzzer.run(seconds=options.seconds, first=options.first, count=options.count)
        if options.differences:
            for (kind, ours, real, _), example in sorted(report.differences.items()):
                print(f"DIFFERENCE {kind}: {ours}, real {real}\n    {example}")
        print(report)
    return 1 if report.findings else 0


if __name__ == "__main__":
    sys.exit(main())
