"""Validation of a value against a schema.

First the compiled yes-or-no check, which is what nearly every object passes; only when that says no,
the walk that finds out what to say.
"""

from __future__ import annotations

from typing import Any

from quarterdeck.wire.fielderror import FieldError, internal

from .explain import explain
from .issue import field_errors
from .node import ABSENT, SchemaNode
from .quick import quick_check


def validate(value: Any, node: SchemaNode, old: Any = ABSENT, *, prefix: str = "") -> list[FieldError]:
    """Everything the schema has against `value`, as field errors below `prefix`.

    `old` is the stored value on an update (ABSENT: there is none): errors at what did not change are
    dropped. Never raises: what nests deeper than Python can follow is an error of its own.
    """
    try:
        if quick_check(node)(value):
            return []
        return field_errors(explain(node, value, old), prefix)
    except RecursionError:
        return [internal(prefix, "the value is nested too deeply")]
