"""CEL rules as CRDs have them: CPU per evaluation, ours and that of cel-expr-python (Google's C++ runtime).

    python -m benchmarks cel [--quick] [--rounds N]

Both get the same compiled rules and the same plain JSON, in the same process, by turns; the best round of
each counts. A small object is a handful of fields, a large one has a list of a hundred. The peer turns an
object into values of its own first. The line of a rule is its evaluation without that; the *object* lines are
what an object costs that has all five rules, converted once, or for every rule; ours reads it as it is. Ours
runs with the cost limit of Kubernetes on, the other one has none. Compiling is done once per CRD.

The peer is not among the development tools: ``pip install --group bench``. Without it our figures stand
alone.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from quarterdeck.cel import Environment, type_from_schema

try:
    from cel_expr_python import cel as peer
except ImportError:
    peer = None

STRING = {"type": "string"}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "replicas": {"type": "integer"},
        "minReplicas": {"type": "integer"},
        "name": {**STRING, "maxLength": 63},
        "mode": STRING,
        "paused": {"type": "boolean"},
        "parts": {
            "type": "array",
            "maxItems": 100,
            "items": {
                "type": "object",
                "properties": {"name": {**STRING, "maxLength": 63}, "size": {"type": "integer"}},
            },
        },
    },
}
RULES = (
    "self.minReplicas <= self.replicas",
    "self.mode in ['Auto', 'Manual'] && (!has(self.paused) || self.replicas > 0)",
    "self.name.startsWith('a') && self.name.size() <= 63",
    "self.parts.all(p, p.size >= 0)",
    "self.parts.exists_one(p, p.name == self.name)",
)


def document(parts: int) -> dict[str, Any]:
    return {
        "replicas": 4,
        "minReplicas": 1,
        "name": "a0",
        "mode": "Auto",
        "paused": False,
        "parts": [{"name": f"a{number}", "size": number} for number in range(parts)],
    }


def cpu(work: Callable[[], object], count: int) -> float:
    """Microseconds of CPU of one call."""
    start = time.process_time()
    for _ in range(count):
        work()
    return (time.process_time() - start) / count * 1e6


class Ours:
    """A compiled rule of this package."""

    def __init__(self, rule: str) -> None:
        self._program = Environment({"self": type_from_schema(SCHEMA)}).compile(rule)

    def read(self, parts: dict[str, Any]) -> Any:
        return parts

    def evaluate(self, ready: Any) -> object:
        return self._program.evaluate(ready)


class Peer:
    """A compiled rule of cel-expr-python."""

    def __init__(self, rule: str) -> None:
        self._environment = peer.NewEnv(variables={"self": peer.Type.DYN})
        self._expression = self._environment.compile(rule)

    def read(self, parts: dict[str, Any]) -> Any:
        return self._environment.Activation(parts)

    def evaluate(self, ready: Any) -> object:
        return self._expression.eval(ready).value()


def measure(kind: type[Ours] | type[Peer], bindings: dict[str, Any], count: int) -> list[float]:
    """Each rule alone, then the whole object, then the object read anew for every rule."""
    rules = [kind(rule) for rule in RULES]
    ready = rules[0].read(bindings)
    for text, rule in zip(RULES, rules, strict=True):
        if rule.evaluate(ready) is not True:
            raise SystemExit(f"{kind.__name__}: {text} should hold")

    def whole() -> None:
        values = rules[0].read(bindings)
        for rule in rules:
            rule.evaluate(values)

    def anew() -> None:
        for rule in rules:
            rule.evaluate(rule.read(bindings))

    alone = [cpu(lambda rule=rule: rule.evaluate(ready), count) for rule in rules]
    return [*alone, cpu(whole, count), cpu(anew, count)]


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="benchmarks cel", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a tenth of the work, for a look")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args(argv)
    count = 50 if options.quick else 500
    kinds = {"ours": Ours} | ({} if peer is None else {"cel-expr-python": Peer})
    print("µs of CPU per evaluation" + ("" if peer else " (cel-expr-python is not installed)"))
    for label, parts in (("small", 2), ("large", 100)):
        rounds = [
            {name: measure(kind, {"self": document(parts)}, count) for name, kind in kinds.items()}
            for _ in range(options.rounds)
        ]
        for number, text in enumerate((*RULES, "object: all five rules", "object: read anew for each")):
            figures = {name: min(each[name][number] for each in rounds) for name in kinds}
            print(f"  {label:8} {_line(figures)}  {text}")
    compiling = {name: cpu(lambda kind=kind: kind(RULES[1]), 50) for name, kind in kinds.items()}
    print(f"  compile  {_line(compiling)}  {RULES[1]}")
    return 0


def _line(figures: Mapping[str, float]) -> str:
    text = f"ours {figures['ours']:7.1f}"
    if "cel-expr-python" in figures:
        other = figures["cel-expr-python"]
        text += f"  cel-expr-python {other:7.1f}  ratio {other / figures['ours']:5.1f}×"
    return text


if __name__ == "__main__":
    sys.exit(main())
