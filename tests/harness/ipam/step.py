"""The steps of an ipam case."""

from __future__ import annotations

import operator
import re
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from quarterdeck.operators.ipam.logic.network import Network, parse
from tests.harness.case import CaseFailure
from tests.harness.wire import Answer
from tests.harness.words import Named, Tagged, words

from .casecluster import CaseCluster, pointer
from .measure import Setting

Json = dict[str, Any]

SETTLE_LIMIT: Final = 60.0
LONG_SETTLE_LIMIT: Final = 1800.0
_EXPRESSION: Final = re.compile(r"\$\{([^}]*)\}")
_LOOKS: Final = 3
_RESTART_MS: Final = 1000
"""How often the controllers restart in a step that asks for it without saying how often."""
_TOKEN: Final = re.compile(r"\s*(?:(\d+)|(i\b)|(//|[-+*/%()]))")
_PRECEDENCE: Final[tuple[dict[str, Callable[[int, int], int]], ...]] = (
    {"+": operator.add, "-": operator.sub},
    {"*": operator.mul, "/": operator.floordiv, "//": operator.floordiv, "%": operator.mod},
)


_REF: Final = words("kind", "namespace", "name")
_LIST: Final = words("kind", "namespace", "where")
_MANY: Final = words("count", "parallel", "crashEveryMs", "restart")
STEP: Final = Tagged(
    "op",
    {
        "settle": words(),
        "create": words("object"),
        "create_with": words("object", vars=Named(words("kind", "namespace", "name", "path", ref=_REF))),
        "merge": words("patch", ref=_REF),
        "merge_status": words("patch", ref=_REF),
        "delete": words(ref=_REF),
        "http": words("method", "path"),
        "stop_controllers": words(),
        "start_controllers": words(),
        "crash": words("at", "object"),
        "create_many": words("template", "deleteAfterMs", **_MANY),
        "delete_many": words("template", "from", ref=_REF, list=_LIST, **_REF, **_MANY),
        "preload_subnets": words("pool", "poolRef", "namespace", "size", "blockSize", "count", "parallel"),
        "measure_per_event": words("members", "size", "events"),
    },
)


class Response:
    """What a step was answered."""

    def __init__(self, code: int, text: str) -> None:
        self.code: Final = code
        self.text: Final = text


class Steps:
    """Runs steps one after the other and keeps what they were answered."""

    def __init__(self, cluster: CaseCluster, *, is_long: bool) -> None:
        self._cluster: Final = cluster
        self._limit: Final = LONG_SETTLE_LIMIT if is_long else SETTLE_LIMIT
        self.responses: Final[list[Response | None]] = []
        self.ratio: float | None = None
        self.has_settled = False

    def run(self, step: Json) -> None:
        """One step, whose words ``STEP`` has."""
        handler: Callable[[Json], Answer | Response | None] = getattr(self, f"_{step['op']}")
        answer = handler(step)
        if isinstance(answer, Answer):
            answer = Response(answer.status, answer.text())
        if answer is not None:
            answer = Response(answer.code, self._cluster.told(answer.text))
        self.responses.append(answer)

    def settle(self) -> None:
        """Wait until everything is quiet."""
        if self._cluster.is_running:
            self._cluster.settle(self._limit)
            if not self.has_settled:
                self._cluster.arm()
                self.has_settled = True
        else:
            time.sleep(0.5)

    def _settle(self, step: Json) -> None:
        self.settle()

    def _create(self, step: Json) -> Answer:
        return self._cluster.create(step["object"])

    def _create_with(self, step: Json) -> Answer:
        variables = {name: self._variable(meant) for name, meant in step["vars"].items()}

        def value(expression: str) -> Any:
            name, *parts = [part for part in re.split(r"[./]", expression) if part]
            found = variables[name]
            for part in parts:
                found = found[int(part)] if isinstance(found, list) else (found or {}).get(part)
            return found

        return self._cluster.create(substitute(step["object"], value))

    def _variable(self, meant: Json) -> Any:
        """An object, or with `path` a value in it."""
        found = self._cluster.read(meant.get("ref") or meant)
        return pointer(found, meant["path"]) if "path" in meant else found

    def _merge(self, step: Json) -> Answer:
        return self._cluster.request("PATCH", self._cluster.path(step["ref"]), step["patch"], merge=True)

    def _merge_status(self, step: Json) -> Answer:
        path, patch = f"{self._cluster.path(step['ref'])}/status", step["patch"]
        return self._cluster.request(
            "PATCH", path, patch if "status" in patch else {"status": patch}, merge=True
        )

    def _delete(self, step: Json) -> Answer:
        return self._cluster.request("DELETE", self._cluster.path(step["ref"]))

    def _http(self, step: Json) -> Response:
        path = re.sub(
            r"^(/requeue/subnetpools/)([^/]+)",
            lambda match: match[1] + self._cluster.namespaces.get(match[2], match[2]),
            step["path"],
        )
        return Response(*self._cluster.operator.http(step["method"], path))

    def _stop_controllers(self, step: Json) -> None:
        self._cluster.stop()

    def _start_controllers(self, step: Json) -> None:
        self._cluster.start()

    def _crash(self, step: Json) -> Answer:
        return self._cluster.crash(step["at"], step["object"])

    def _create_many(self, step: Json) -> None:
        template, delay = step["template"], step.get("deleteAfterMs")
        errors: list[str] = []

        def create(index: int) -> None:
            document = expand(template, index)
            answer = self._cluster.create(document)
            if answer.status != 201:
                errors.append(f"create {index}: {answer.status}: {answer.text()}")
            elif delay is not None:
                time.sleep(delay / 1000)
                self._cluster.request("DELETE", self._cluster.path(_ref(document)))

        with self._disturbed(step):
            _in_parallel(create, step["count"], step.get("parallel", 1))
        if errors:
            raise CaseFailure(*errors[:5])

    def _delete_many(self, step: Json) -> None:
        """Objects whose names follow a template, or those of a list."""
        refs = self._listed(step) if "list" in step else _named(step)

        def delete(index: int) -> None:
            self._cluster.request("DELETE", self._cluster.path(refs[index]))

        with self._disturbed(step):
            _in_parallel(delete, len(refs), step.get("parallel", 1))

    def _listed(self, step: Json) -> list[Json]:
        wanted = step["list"]
        kind, namespace = wanted["kind"], wanted.get("namespace")
        names = [item["metadata"]["name"] for item in self._cluster.chosen(wanted)]
        return [{"kind": kind, "namespace": namespace, "name": name} for name in names[: step.get("count")]]

    def _preload_subnets(self, step: Json) -> None:
        """Subnets in address order, while the controllers are stopped."""
        meant = step.get("pool") or step["poolRef"]
        ref = meant if isinstance(meant, dict) else {"name": meant, "namespace": step.get("namespace")}
        name, namespace = ref["name"], ref.get("namespace")
        was_running = self._cluster.is_running
        self._cluster.stop()
        pool = self._cluster.read({"kind": "SubnetPool", "namespace": namespace, "name": name})
        if pool is None:
            raise CaseFailure(f"there is no pool {name} to load")
        network, size = parse(pool["spec"]["cidr"]), step.get("size") or step["blockSize"]

        def create(index: int) -> None:
            address = network.address + (index << (network.width - size))
            spec = {
                "poolRef": name,
                "cidr": str(Network(address, size, network.width)),
                "clusterID": f"c{index}",
            }
            metadata = {"name": f"preload-{index}", "namespace": namespace or "default"}
            document = {
                "apiVersion": pool["apiVersion"],
                "kind": "Subnet",
                "metadata": metadata,
                "spec": spec,
            }
            answer = self._cluster.create(document)
            if answer.status != 201:
                raise CaseFailure(f"preload {index}: {answer.status}: {answer.text()}")

        _in_parallel(create, step["count"], step.get("parallel", 16))
        if was_running:
            self._cluster.start()

    def _measure_per_event(self, step: Json) -> None:
        pools = self._cluster.items("SubnetPool", None)
        cidr = pools[0]["spec"]["cidr"] if pools else "10.0.0.0/8"
        settings = [Setting(count, size=step["size"], cidr=cidr) for count in step["members"]]
        # The least of several looks: other programs on the machine make an event dearer, never cheaper.
        looks = [[setting.measure(step["events"]) for setting in settings] for _ in range(_LOOKS)]
        times = [min(each) for each in zip(*looks, strict=True)]
        self.ratio = max(times) / times[0]

    def _disturbed(self, step: Json) -> _Disturbance:
        period = step.get("crashEveryMs") or (_RESTART_MS if step.get("restart") else 0)
        return _Disturbance(self._cluster, period / 1000)


class _Disturbance:
    """Kills and restarts the controllers every so often while a block runs."""

    def __init__(self, cluster: CaseCluster, period: float) -> None:
        self._cluster: Final = cluster
        self._period: Final = period
        self._over: Final = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> None:
        if self._period:
            self._thread = threading.Thread(target=self._run, name="ipam-disturbance", daemon=True)
            self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(self._period):
            self._cluster.stop(kill=True)
            self._cluster.start()


def _in_parallel(work: Callable[[int], None], count: int, width: int) -> None:
    with ThreadPoolExecutor(max_workers=max(1, width)) as pool:
        for _ in pool.map(work, range(count)):
            pass


def _ref(document: Json) -> Json:
    return {"kind": document["kind"], **document.get("metadata", document)}


def _named(step: Json) -> list[Json]:
    template = _ref(step.get("ref") or step.get("template") or step)
    first = step.get("from", 0)
    return [
        {key: expand(template.get(key), index) for key in ("kind", "namespace", "name")}
        for index in range(first, first + step["count"])
    ]


def expand(value: Any, index: int) -> Any:
    """A template for one index; a value that is only an expression becomes a number."""
    return substitute(value, lambda expression: evaluate(expression, index))


def substitute(value: Any, find: Callable[[str], Any]) -> Any:
    """A document with its `${...}` replaced."""
    if isinstance(value, dict):
        return {key: substitute(each, find) for key, each in value.items()}
    if isinstance(value, list):
        return [substitute(each, find) for each in value]
    if not isinstance(value, str):
        return value
    whole = _EXPRESSION.fullmatch(value)
    if whole is not None:
        return find(whole[1])
    return _EXPRESSION.sub(lambda match: str(find(match[1])), value)


def evaluate(expression: str, index: int) -> int:
    """An integer expression in `i`.

    >>> evaluate("20+i%9", 11)
    22
    """

    # Not by `ast`: cases run in threads, and CPython 3.11 fails at random when two of them parse at once.
    tokens = _tokens(expression)
    place = 0

    def operand() -> int:
        nonlocal place
        token = tokens[place]
        place += 1
        if token == "(":
            value = binary(0)
            if tokens[place] != ")":
                raise CaseFailure(f"expression {expression} is not understood")
            place += 1
            return value
        if token == "i":
            return index
        if not token.isdigit():
            raise CaseFailure(f"expression {expression} is not understood")
        return int(token)

    def binary(level: int) -> int:
        nonlocal place
        if level == len(_PRECEDENCE):
            return operand()
        value = binary(level + 1)
        while (apply := _PRECEDENCE[level].get(tokens[place])) is not None:
            place += 1
            value = apply(value, binary(level + 1))
        return value

    value = binary(0)
    if tokens[place]:
        raise CaseFailure(f"expression {expression} is not understood")
    return value


def _tokens(expression: str) -> list[str]:
    """The words of an expression and an empty one at the end."""
    found: list[str] = []
    place = 0
    while place < len(expression.rstrip()):
        match = _TOKEN.match(expression, place)
        if match is None:
            raise CaseFailure(f"expression {expression} is not understood")
        found.append(match[0].strip())
        place = match.end()
    return [*found, ""]
