"""Counters, gauges and histograms, and their Prometheus text form.

Why not ``prometheus_client``: it takes a lock on every increment, keeps a global registry, and would be a
dependency for what is a page of code. Here a measurement is one attribute update on the event loop's
thread, cheap enough for every cycle of a work queue, and a registry is a value that two managers in one
process do not share.

Not thread-safe in general: ``Gauge.set`` may be called from any thread, everything else belongs to the
thread that scrapes. Labels must be bounded: a child lives until ``Family.remove``.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from math import inf, isinf, isnan
from typing import Final, Generic, Literal, TypeVar

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
"""Media type of ``Registry.expose``."""

Kind = Literal["counter", "gauge", "histogram"]


class Counter:
    """A number that only grows."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0.0

    def inc(self, amount: float = 1.0) -> None:
        """Add ``amount``, which must not be negative."""
        self.value += amount

    def samples(self) -> Iterator[tuple[str, str, float]]:
        """Suffix, extra label text and value of each line."""
        yield "", "", self.value


class Gauge:
    """A number that goes up and down."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0.0

    def set(self, value: float) -> None:
        """Replace the value."""
        self.value = value

    def inc(self, amount: float = 1.0) -> None:
        """Add ``amount``."""
        self.value += amount

    def dec(self, amount: float = 1.0) -> None:
        """Take ``amount`` away."""
        self.value -= amount

    def samples(self) -> Iterator[tuple[str, str, float]]:
        """Suffix, extra label text and value of each line."""
        yield "", "", self.value


class Histogram:
    """How often a value fell into which range; ``bounds`` are inclusive upper ends."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds: Final = tuple(bounds)
        self.counts: Final = [0] * (len(self.bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        """Count one value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def absorb(self, other: "Histogram") -> None:
        """Count what another one with the same bounds has counted."""
        for place, count in enumerate(other.counts):
            self.counts[place] += count
        self.sum += other.sum

    @property
    def count(self) -> int:
        """How many values were counted."""
        return sum(self.counts)

    def samples(self) -> Iterator[tuple[str, str, float]]:
        """Suffix, extra label text and value of each line."""
        total = 0
        for bound, count in zip((*self.bounds, inf), self.counts, strict=True):
            total += count
            yield "_bucket", f'le="{format_number(bound)}"', total
        yield "_sum", "", self.sum
        yield "_count", "", total


Metric = Counter | Gauge | Histogram
M = TypeVar("M", Counter, Gauge, Histogram)


class Family(Generic[M]):
    """All children of one name, one per combination of label values."""

    def __init__(
        self, name: str, kind: Kind, help: str, labels: Sequence[str], make: Callable[[], M]
    ) -> None:
        self.name: Final = name
        self.kind: Final = kind
        self.help: Final = help
        self.labels: Final = tuple(labels)
        self._make: Final[Callable[[], M]] = make
        self._children: Final[dict[tuple[str, ...], M]] = {}

    def labelled(self, *values: str) -> M:
        """The child with these label values, created at zero on first use."""
        child = self._children.get(values)
        if child is None:
            if len(values) != len(self.labels):
                raise ValueError(f"{self.name} has the labels {self.labels}, got {len(values)} values")
            child = self._children[values] = self._make()
        return child

    def remove(self, *values: str) -> None:
        """Forget a child (its controller, kind or webhook is gone); harmless if there is none."""
        self._children.pop(values, None)

    def clear(self) -> None:
        """Forget all children: for families rebuilt at each scrape."""
        self._children.clear()

    def items(self) -> Iterator[tuple[tuple[str, ...], M]]:
        """Label values and children."""
        yield from self._children.items()

    def expose(self) -> Iterator[str]:
        """The lines of this family; none while it has no child."""
        if not self._children:
            return
        yield f"# HELP {self.name} {_escape_help(self.help)}"
        yield f"# TYPE {self.name} {self.kind}"
        for values, child in sorted(self._children.items()):
            fixed = ",".join(
                f'{key}="{_escape_label(value)}"' for key, value in zip(self.labels, values, strict=True)
            )
            for suffix, extra, value in child.samples():
                labels = f"{fixed},{extra}" if fixed and extra else fixed or extra
                yield (
                    f"{self.name}{suffix}{{{labels}}} {format_number(value)}"
                    if labels
                    else (f"{self.name}{suffix} {format_number(value)}")
                )


class Registry:
    """A set of families, and what to refresh before they are read."""

    def __init__(self) -> None:
        self._families: dict[str, Family[Counter] | Family[Gauge] | Family[Histogram]] = {}
        self._refreshers: list[Callable[[], None]] = []

    def counter(self, name: str, help: str, labels: Sequence[str] = ()) -> Family[Counter]:
        """Register a counter; without labels ``labelled()`` is its one child."""
        family = Family(name, "counter", help, labels, Counter)
        self._add(family)
        return family

    def gauge(self, name: str, help: str, labels: Sequence[str] = ()) -> Family[Gauge]:
        """Register a gauge."""
        family = Family(name, "gauge", help, labels, Gauge)
        self._add(family)
        return family

    def histogram(
        self, name: str, help: str, labels: Sequence[str] = (), *, buckets: Sequence[float]
    ) -> Family[Histogram]:
        """Register a histogram with these upper bounds; ``+Inf`` is implied."""
        bounds = tuple(buckets)
        if list(bounds) != sorted(set(bounds)):
            raise ValueError(f"the buckets of {name} must ascend")
        family = Family(name, "histogram", help, labels, lambda: Histogram(bounds))
        self._add(family)
        return family

    def _add(self, family: Family[Counter] | Family[Gauge] | Family[Histogram]) -> None:
        if family.name in self._families:
            raise ValueError(f"metric {family.name} is registered already")
        self._families[family.name] = family

    @property
    def families(self) -> tuple[Family[Counter] | Family[Gauge] | Family[Histogram], ...]:
        """All families, by name."""
        return tuple(family for _, family in sorted(self._families.items()))

    def family(self, name: str) -> Family[Counter] | Family[Gauge] | Family[Histogram]:
        """One family; raises ``KeyError``."""
        return self._families[name]

    def value(self, name: str, *values: str) -> float:
        """The value of a counter or gauge, the count of a histogram: for tests and checks."""
        child = self._families[name].labelled(*values)
        return float(child.count) if isinstance(child, Histogram) else child.value

    def before_expose(self, refresh: Callable[[], None]) -> Callable[[], None]:
        """Call ``refresh`` before each reading; returns the function that ends it.

        For values that exist anyway (queue ages, cache sizes): they cost nothing between readings.
        """
        self._refreshers.append(refresh)

        def end() -> None:
            if refresh in self._refreshers:
                self._refreshers.remove(refresh)

        return end

    def expose(self) -> bytes:
        """Everything in the Prometheus text format, families by name."""
        for refresh in tuple(self._refreshers):
            refresh()
        lines = [line for family in self.families for line in family.expose()]
        return ("\n".join(lines) + "\n").encode() if lines else b""


@lru_cache(maxsize=1024)
def format_number(value: float) -> str:
    """A number as Go writes it, so that ``le`` labels equal those of a Go program.

    >>> format_number(0.005), format_number(1e-8), format_number(1048576), format_number(12)
    ('0.005', '1e-08', '1.048576e+06', '12')
    """
    if isnan(value):
        return "NaN"
    if isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    if value == int(value) and abs(value) < 1e6:
        return str(int(value))
    if abs(value) < 1e6:
        return repr(float(value))
    mantissa, _, exponent = f"{value:.17e}".partition("e")
    digits = repr(float(value)).replace(".", "").lstrip("-").partition("e")[0].strip("0") or "0"
    sign = "-" if mantissa.startswith("-") else ""
    fraction = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{fraction}e{exponent[0]}{exponent[1:].zfill(2)}"


def _escape_help(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _escape_label(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
