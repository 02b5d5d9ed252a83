"""Enough of PromQL to try the shipped alert rules on synthetic series.

Selectors with equality matchers, `rate`, `histogram_quantile`, aggregations with `by`, arithmetic and
comparisons between vectors and numbers. Series are written as Prometheus' own rule tests write them
(`0+94x60`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from math import inf, isnan, nan
from typing import Any, Final

Labels = tuple[tuple[str, str], ...]
Vector = dict[Labels, float]
Samples = list[tuple[float, float]]

_LOOKBACK: Final = 300.0
_TOKEN: Final = re.compile(
    r"\s*(?:(?P<number>\d+(?:\.\d+)?)(?![a-zA-Z\d])|(?P<duration>\d+[smhd])|(?P<name>[a-zA-Z_:][\w:]*)"
    r'|"(?P<text>(?:[^"\\]|\\.)*)"|(?P<sign>>=|<=|==|!=|[-+*/<>(){}\[\],=]))'
)
_ITEM: Final = re.compile(r"(?P<start>-?[\d.]+)(?:(?P<step>[-+][\d.]+))?(?:x(?P<times>\d+))?$")
_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_AGGREGATIONS: Final[Mapping[str, Callable[[list[float]], float]]] = {
    "sum": sum,
    "min": min,
    "max": max,
    "count": lambda values: float(len(values)),
    "avg": lambda values: sum(values) / len(values),
}
_COMPARISONS: Final[Mapping[str, Callable[[float, float], bool]]] = {
    ">": lambda a, b: a > b,
    "<": lambda a, b: a < b,
    ">=": lambda a, b: a >= b,
    "<=": lambda a, b: a <= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
}


def seconds(duration: str) -> float:
    """A duration such as `25m` or `1h30m`."""
    return sum(int(number) * _UNITS[unit] for number, unit in re.findall(r"(\d+)([smhd])", duration))


class Store:
    """Series by name and labels."""

    def __init__(self, series: Mapping[str, str], interval: float) -> None:
        self._series: Final[list[tuple[str, dict[str, str], Samples]]] = []
        for selector, notation in series.items():
            name, _, rest = selector.partition("{")
            labels = dict(re.findall(r'(\w+)="([^"]*)"', rest))
            values = list(_values(notation))
            samples = [(i * interval, value) for i, value in enumerate(values) if value is not None]
            self._series.append((name, labels, samples))

    def select(self, name: str, matchers: Mapping[str, str]) -> Iterator[tuple[Labels, Samples]]:
        """The series of a selector."""
        for each, labels, samples in self._series:
            if each == name and all(labels.get(key, "") == value for key, value in matchers.items()):
                yield tuple(sorted(labels.items())), samples


def _values(notation: str) -> Iterator[float | None]:
    for item in notation.split():
        gap = re.fullmatch(r"_(?:x(\d+))?", item)
        if gap is not None:
            yield from [None] * int(gap[1] or 1)
            continue
        found = _ITEM.match(item)
        if found is None:
            raise ValueError(f"series {item} is not understood")
        start, step, times = float(found["start"]), float(found["step"] or 0), found["times"]
        for i in range(int(times) + 1 if times is not None else 1):
            yield start + i * step


class Query:
    """A parsed expression."""

    def __init__(self, text: str) -> None:
        self._tokens: Final = list(_tokens(text))
        self._place = 0
        self._evaluate: Final = self._comparison()
        if self._place != len(self._tokens):
            raise ValueError(f"{text}: {self._tokens[self._place]} is not understood")

    def at(self, store: Store, moment: float) -> Vector:
        """Its value at a time; a number is a vector without labels."""
        found = self._evaluate(store, moment)
        return found if isinstance(found, dict) else {(): found}

    def _peek(self) -> str:
        return self._tokens[self._place][1] if self._place < len(self._tokens) else ""

    def _next(self, wanted: str = "") -> str:
        if self._place >= len(self._tokens) or (wanted and self._peek() != wanted):
            raise ValueError(f"expected {wanted or 'more'}, found {self._peek() or 'the end'}")
        self._place += 1
        return self._tokens[self._place - 1][1]

    def _comparison(self) -> Any:
        left = self._sum()
        if self._peek() not in _COMPARISONS:
            return left
        compare, right = _COMPARISONS[self._next()], self._sum()

        def evaluate(store: Store, moment: float) -> Any:
            limit = right(store, moment)
            return {
                key: value
                for key, value in left(store, moment).items()
                if compare(value, limit.get(key, nan) if isinstance(limit, dict) else limit)
            }

        return evaluate

    def _sum(self) -> Any:
        left = self._product()
        while self._peek() in ("+", "-"):
            sign = self._next()
            left = _arithmetic(sign, left, self._product())
        return left

    def _product(self) -> Any:
        left = self._unary()
        while self._peek() in ("*", "/"):
            sign = self._next()
            left = _arithmetic(sign, left, self._unary())
        return left

    def _unary(self) -> Any:
        kind, word = self._tokens[self._place]
        if word == "(":
            self._next("(")
            inner = self._comparison()
            self._next(")")
            return inner
        self._next()
        if kind == "number":
            number = float(word)
            return lambda store, moment: number
        if word in _AGGREGATIONS:
            return self._aggregation(_AGGREGATIONS[word])
        if word == "rate":
            return self._rate()
        if word == "histogram_quantile":
            return self._quantile()
        name, matchers = word, self._matchers()
        return lambda store, moment: _instant(store, name, matchers, moment)

    def _aggregation(self, combine: Callable[[list[float]], float]) -> Any:
        by = self._by()
        self._next("(")
        inner = self._comparison()
        self._next(")")
        by = self._by() or by

        def evaluate(store: Store, moment: float) -> Vector:
            groups: dict[Labels, list[float]] = {}
            for labels, value in inner(store, moment).items():
                kept = tuple((key, each) for key, each in labels if key in by)
                groups.setdefault(kept, []).append(value)
            return {labels: combine(values) for labels, values in groups.items()}

        return evaluate

    def _by(self) -> list[str]:
        if self._peek() != "by":
            return []
        self._next("by")
        self._next("(")
        names = [self._next()]
        while self._peek() == ",":
            self._next(",")
            names.append(self._next())
        self._next(")")
        return names

    def _rate(self) -> Any:
        self._next("(")
        name, matchers = self._next(), self._matchers()
        self._next("[")
        span = seconds(self._next())
        self._next("]")
        self._next(")")

        def evaluate(store: Store, moment: float) -> Vector:
            found = {}
            for labels, samples in store.select(name, matchers):
                value = rate(samples, moment - span, moment)
                if value is not None:
                    found[labels] = value
            return found

        return evaluate

    def _quantile(self) -> Any:
        self._next("(")
        share = float(self._next())
        self._next(",")
        inner = self._comparison()
        self._next(")")

        def evaluate(store: Store, moment: float) -> Vector:
            groups: dict[Labels, list[tuple[float, float]]] = {}
            for labels, value in inner(store, moment).items():
                bound = dict(labels)["le"]
                rest = tuple(pair for pair in labels if pair[0] != "le")
                groups.setdefault(rest, []).append((inf if bound == "+Inf" else float(bound), value))
            return {labels: quantile(share, sorted(buckets)) for labels, buckets in groups.items()}

        return evaluate

    def _matchers(self) -> dict[str, str]:
        found: dict[str, str] = {}
        if self._peek() != "{":
            return found
        self._next("{")
        while self._peek() != "}":
            name = self._next()
            self._next("=")
            found[name] = self._next()
            if self._peek() == ",":
                self._next(",")
        self._next("}")
        return found


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    place = 0
    while text[place:].strip():
        match = _TOKEN.match(text, place)
        if match is None or match.lastgroup is None:
            raise ValueError(f"{text[place:]} is not understood")
        yield match.lastgroup, match[match.lastgroup]
        place = match.end()


def _arithmetic(sign: str, left: Any, right: Any) -> Any:
    def apply(a: float, b: float) -> float:
        match sign:
            case "+":
                return a + b
            case "-":
                return a - b
            case "*":
                return a * b
            case _:
                return a / b if b else (nan if not a or isnan(a) else inf)

    def evaluate(store: Store, moment: float) -> Any:
        a, b = left(store, moment), right(store, moment)
        if not isinstance(a, dict):
            return {key: apply(a, value) for key, value in b.items()} if isinstance(b, dict) else apply(a, b)
        if not isinstance(b, dict):
            return {key: apply(value, b) for key, value in a.items()}
        return {key: apply(value, b[key]) for key, value in a.items() if key in b}

    return evaluate


def _instant(store: Store, name: str, matchers: Mapping[str, str], moment: float) -> Vector:
    found = {}
    for labels, samples in store.select(name, matchers):
        recent = [value for at, value in samples if moment - _LOOKBACK < at <= moment]
        if recent:
            found[labels] = recent[-1]
    return found


def rate(samples: Samples, start: float, end: float) -> float | None:
    """The per-second increase of a counter in a window, extrapolated as Prometheus does."""
    inside = [(at, value) for at, value in samples if start < at <= end]
    if len(inside) < 2:
        return None
    increase = inside[-1][1] - inside[0][1]
    increase += sum(before for (_, before), (_, after) in pairwise(inside) if after < before)
    covered = inside[-1][0] - inside[0][0]
    gap = covered / (len(inside) - 1)
    before, after = inside[0][0] - start, end - inside[-1][0]
    if increase > 0 and inside[0][1] >= 0:
        before = min(before, covered * inside[0][1] / increase)
    reach = covered
    reach += before if before < gap * 1.1 else gap / 2
    reach += after if after < gap * 1.1 else gap / 2
    return increase * reach / covered / (end - start)


def quantile(share: float, buckets: list[tuple[float, float]]) -> float:
    """The quantile of a histogram, linear inside a bucket."""
    total = buckets[-1][1]
    if len(buckets) < 2 or not total:
        return nan
    rank = share * total
    place = next(i for i, (_, count) in enumerate(buckets) if count >= rank)
    if place == len(buckets) - 1:
        return buckets[-2][0]
    low, below = buckets[place - 1] if place else (0.0, 0.0)
    high, count = buckets[place]
    return low + (high - low) * (rank - below) / (count - below)


def firing(rule: Mapping[str, Any], store: Store, *, step: float, until: float) -> list[dict[str, str]]:
    """The alerts of a rule that fire at a time, by their labels; it is evaluated at every step until then."""
    query, patience = Query(rule["expr"]), seconds(rule.get("for", "0s"))
    since: dict[Labels, float] = {}
    moment = 0.0
    while moment <= until:
        since = {labels: since.get(labels, moment) for labels in query.at(store, moment)}
        moment += step
    return [
        {"alertname": rule["alert"], **dict(labels), **(rule.get("labels") or {})}
        for labels, begin in since.items()
        if moment - step - begin >= patience
    ]
