"""The expressions of device selectors, evaluated: which devices of a slice does one mean?

The language is the API server's, so its implementation is borrowed from the embedded one. What was found out
about a slice is kept as long as the slice stays the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from quarterdeck.cel import BOOL, DYN, CelCompileError, CelRuntimeError, Environment, Program
from quarterdeck.cel.library import quantity, semver
from quarterdeck.errors import SchemaError
from quarterdeck.scheduler.deviceintake import Slice

Document = Mapping[str, Any]
_COST_LIMIT: Final = 1_000_000
_ENVIRONMENT: Final = Environment({"device": DYN})


@lru_cache(maxsize=512)
def _compiled(expression: str) -> Program:
    try:
        program = _ENVIRONMENT.compile(expression)
    except CelCompileError as error:
        raise SchemaError(f"selector {expression!r}: {error}") from error
    if program.result_type not in (BOOL, DYN):
        raise SchemaError(f"selector {expression!r}: must be a condition, true or false")
    return program


class DeviceSelectors:
    """Evaluates selectors; ``SchemaError`` for one that cannot be."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Slice, dict[str, tuple[bool, ...]]]] = {}

    def accepts(self, expression: str, part: Slice) -> Sequence[bool]:
        """For each device of a slice, whether an expression accepts it."""
        known = self._known.get(part.name)
        if known is None or known[0] is not part:
            known = self._known[part.name] = (part, {})
        verdicts = known[1].get(expression)
        if verdicts is None:
            program = _compiled(expression)
            verdicts = tuple(_evaluate(program, each.document, part.driver) for each in part.devices)
            known[1][expression] = verdicts
        return verdicts

    def forget_others(self, names: set[str]) -> None:
        """Keep only what is known of these slices."""
        self._known = {name: known for name, known in self._known.items() if name in names}


def _evaluate(program: Program, device: Document, driver: str) -> bool:
    try:
        value = {
            "driver": driver,
            "attributes": _by_domain(device.get("attributes") or {}, driver, _attribute),
            "capacity": _by_domain(device.get("capacity") or {}, driver, _capacity),
            "allowMultipleAllocations": bool(device.get("allowMultipleAllocations")),
        }
        return program.evaluate({"device": value}, cost_limit=_COST_LIMIT) is True
    except CelRuntimeError as error:
        raise SchemaError(f"selector {program.expression!r} on device {device['name']}: {error}") from error


def _by_domain(values: Document, driver: str, read: Callable[[Document], Any]) -> dict[str, dict[str, Any]]:
    """Names without a domain are the driver's."""
    found: dict[str, dict[str, Any]] = {driver: {}}
    for name, value in values.items():
        domain, _, short = name.rpartition("/")
        found.setdefault(domain or driver, {})[short] = read(value)
    return found


def _attribute(value: Document) -> Any:
    for kind in ("int", "bool", "string", "ints", "bools", "strings"):
        if kind in value:
            return value[kind]
    if "version" in value:
        return semver.parse(value["version"])
    return [semver.parse(each) for each in value.get("versions") or ()]


def _capacity(value: Document) -> Any:
    return quantity.parse(str(value.get("value", "0")))
