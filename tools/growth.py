"""Make every list of every kind very long, and see whether the server's work grows faster than the list.

    python tools/growth.py [--kinds Pod,Job] [--elements 2000] [--top 20]

For every list and every map of every kind that can be created, our own definitions included, objects are
sent (dry run) in which it has 2,000 elements: all the same and all different, bare and filled in. A request
that takes more of the server's time than a budget is repeated with a quarter of the elements. What then
takes far more than four times as long is a finding. What the server takes is stored, too, and written again
with its lists the other way round: by PUT, by every kind of patch, by two managers. Exit code 1 when there
are findings.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parent))

from hostile import longlist
from hostile.client import Client, Request
from hostile.longlist import ELEMENTS, Place
from parity import server
from quarterdeck.runtime.operator.operator import installed_operators

BUDGET: Final = 0.5
"""Seconds of the server's work that any object of three mebibytes may cost."""
SLACK: Final = 1.6
"""By how much a measured growth may exceed that of n log n; the square would exceed it by more than three."""
VARIANTS: Final = tuple(itertools.product((False, True), repeat=2))
_JSON: Final = (("Content-Type", "application/json"),)
_DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@dataclass(frozen=True)
class Cost:
    """What one request cost the server."""

    seconds: float
    status: int
    size: int
    what: str

    def __str__(self) -> str:
        return f"{self.seconds * 1e3:7.0f} ms  {self.status}  {self.size:>9,} bytes  {self.what}"


class Scale:
    """A server of its own, with our definitions, and what long lists cost it."""

    def __init__(self, kubeconfig: Path, pid: int) -> None:
        self.client: Final = Client(kubeconfig)
        self._pid = pid

    def prepare(self) -> None:
        """Install our definitions, and what pods need to get as far as their validation."""
        for operator in installed_operators().values():
            for definition in operator.definitions():
                answer = self.client.call("POST", _DEFINITIONS, definition)
                assert answer.status == 201, answer.message
        account = {"metadata": {"name": "default"}}
        answer = self.client.call("POST", "/api/v1/namespaces/default/serviceaccounts", account)
        assert answer.status in (201, 409), answer.message

    def places(self) -> list[Place]:
        return [place for kind in longlist.kinds(self.client) for place in longlist.places(kind)]

    def measure(self, place: Place, count: int, *, is_rich: bool, is_distinct: bool) -> Cost:
        data = longlist.body(place, count=count, is_rich=is_rich, is_distinct=is_distinct)
        how = f"{'filled in' if is_rich else 'bare'}, {'different' if is_distinct else 'the same'}"
        return self.cost(
            Request("growth", "POST", f"{place.kind.path}?dryRun=All", _JSON, data), f"{place} ({how})"
        )

    def revise(self, place: Place, count: int) -> Iterator[Cost]:
        """Store an object with a long list, and write it again in every way, the list the other way round."""
        data = longlist.body(place, count=count, is_rich=True, is_distinct=True)
        document = json.loads(data)
        other = json.dumps(turned_round(document)).encode()
        own = f"{place.kind.path}/{document['metadata']['name']}"
        if self.client.send(Request("growth", "POST", place.kind.path, _JSON, data)).status != 201:
            return
        for media in (
            "application/json",
            "application/merge-patch+json",
            "application/strategic-merge-patch+json",
        ):
            method = "PUT" if media == "application/json" else "PATCH"
            request = Request("growth", method, f"{own}?dryRun=All", (("Content-Type", media),), other)
            yield self.cost(request, f"{place} ({media})")
        for manager, applied in (("one", data), ("two", other)):
            where = f"{own}?fieldManager={manager}&force=true"
            headers = (("Content-Type", "application/apply-patch+yaml"),)
            yield self.cost(
                Request("growth", "PATCH", where, headers, applied), f"{place} (applied by {manager})"
            )
        self.client.call("DELETE", f"{own}?gracePeriodSeconds=0")
        emptied = [{"op": "remove", "path": "/metadata/finalizers"}]
        headers = (("Content-Type", "application/json-patch+json"),)
        self.client.send(Request("growth", "PATCH", own, headers, json.dumps(emptied).encode()))

    def cost(self, request: Request, what: str = "") -> Cost:
        """Send a request, and see how long the server works on it."""
        before = self._worked()
        answer = self.client.send(request)
        seconds = self._worked() - before
        return Cost(seconds, answer.status, len(request.body), what or f"{request.method} {request.path}")

    def peak(self) -> int:
        """The most memory that the server has had, in bytes."""
        lines = Path(f"/proc/{self._pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))

    def finding(self, place: Place, cost: Cost, count: int, *, is_rich: bool, is_distinct: bool) -> str:
        """Why a cost is too high, or nothing. What grows with the square shows in shorter lists as well."""
        budget = BUDGET * (count / ELEMENTS) ** 2

        def looks_steep(whole: Cost, quarter: Cost) -> bool:
            allowed = SLACK * whole.size / quarter.size * math.log(count) / math.log(count // 4)
            return whole.seconds > max(budget, allowed * quarter.seconds)

        def measure(elements: int) -> Cost:
            return self.measure(place, elements, is_rich=is_rich, is_distinct=is_distinct)

        if cost.seconds <= budget or not looks_steep(cost, measure(count // 4)):
            return ""
        again, quarter = (
            min((measure(each) for _ in range(2)), key=lambda found: found.seconds)
            for each in (count, count // 4)
        )
        if not looks_steep(again, quarter):
            return ""
        grown = again.size / quarter.size
        return f"{again}: {again.seconds / quarter.seconds:.1f} times the work for {grown:.1f} times the size"

    def _worked(self) -> float:
        threads = Path(f"/proc/{self._pid}/task").glob("*/schedstat")
        return sum(int(each.read_text().split()[0]) for each in threads) / 1e9


def turned_round(value: Any) -> Any:
    """The same, with every list the other way round."""
    match value:
        case dict():
            return {key: turned_round(each) for key, each in value.items()}
        case list():
            return [turned_round(each) for each in value][::-1]
    return value


@contextmanager
def scale() -> Iterator[Scale]:
    with server.embedded() as running:
        found = Scale(running.kubeconfig, running.pid)
        found.prepare()
        yield found
        found.client.close()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--kinds", default="", help="only these, separated by commas")
    parser.add_argument("--elements", type=int, default=ELEMENTS)
    parser.add_argument("--top", type=int, default=20, help="how many of the dearest are listed")
    options = parser.parse_args(arguments)
    costs, findings = [], []
    with scale() as server:
        places = server.places()
        for place in places:
            if options.kinds and place.kind.name not in options.kinds.split(","):
                continue
            for is_rich, is_distinct in VARIANTS:
                how = {"is_rich": is_rich, "is_distinct": is_distinct}
                cost = server.measure(place, options.elements, **how)
                costs.append(cost)
                findings.append(server.finding(place, cost, options.elements, **how))
            if cost.status == 201:
                revised = list(server.revise(place, options.elements))
                costs += revised
                findings += [f"{each}: above {2 * BUDGET} s" for each in revised if each.seconds > 2 * BUDGET]
    print(*sorted(costs, key=lambda cost: -cost.seconds)[: options.top], sep="\n")
    findings = [each for each in findings if each]
    print(*(f"FINDING {each}" for each in findings), sep="\n")
    print(f"{len(costs)} requests, {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
