"""Regular expressions with Go's syntax and error texts, linear in time on any input.

Backed by RE2, the ancestor of Go's engine. Compiled patterns are kept in a small cache, because the
same few patterns occur again and again in generated schemas.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

import re2

from quarterdeck.errors import QuarterdeckError

#: RE2's error texts in Go's words; what is not listed reads the same
_GO_TEXTS: Final = {
    "missing ]": "missing closing ]",
    "missing )": "missing closing )",
    "trailing \\": "trailing backslash at end of expression",
    "no argument for repetition operator": "missing argument to repetition operator",
    "invalid repetition size": "invalid repeat count",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
    "pattern too large - compile failed": "expression too large",
}

#: answers for texts up to this length are remembered: names and quantities recur from object to object
_SHORT: Final = 64


class RegexError(QuarterdeckError, ValueError):
    """A pattern that does not compile; the text is Go's (`error parsing regexp: ...`)."""


@lru_cache(maxsize=4096)
def compile_regex(pattern: str) -> Callable[[str], bool]:
    """The search function of a pattern: whether a text contains a match. Raises RegexError."""
    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    try:
        search: Any = re2.compile(pattern, options).search
    except (re2.error, UnicodeError) as error:
        raise RegexError(_go_text(error, pattern)) from None

    def matches(text: str) -> bool:
        # Bytes spare the wrapper its table of character offsets. A lone surrogate never gets here
        # from JSON; if one does, it counts as "?".
        return search(text.encode("utf-8", "replace")) is not None

    remembered = lru_cache(maxsize=256)(matches)
    return lambda text: remembered(text) if len(text) <= _SHORT else matches(text)


def _go_text(error: Exception, pattern: str) -> str:
    raw = error.args[0] if error.args else ""
    text = raw.decode("utf-8", "replace") if isinstance(raw, bytes) else str(raw)
    reason, separator, argument = text.partition(": ")
    reason = _GO_TEXTS.get(reason, reason)
    if not separator and reason == "expression too large":
        argument = pattern
    return f"error parsing regexp: {reason}: `{argument}`"
