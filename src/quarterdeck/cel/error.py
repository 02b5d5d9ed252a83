"""Errors of the CEL engine and their rendering.

Compile problems are collected as `Issue`s with a source location and rendered the way cel-go renders them
(message, source line, marker line); run-time problems are one plain message.

    Exception
    ├── CelCompileError   an expression does not parse, check or validate
    │   └── ProgramError        a constant part of it cannot be evaluated
    └── CelRuntimeError   evaluation failed
        ├── EvalError           a CEL error, which `&&`, `||`, `all` and `exists` may absorb
        └── CostLimitExceeded   evaluation was stopped; nothing absorbs it
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import Final, NamedTuple

from quarterdeck.errors import QuarterdeckError

MAX_REPORTED: Final = 100
_MAX_SNIPPET_BYTES: Final = 16384


class CelCompileError(QuarterdeckError):
    """An expression that cannot be compiled; `message` is the full text, one paragraph per issue."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class ProgramError(CelCompileError):
    """A constant part of an expression cannot be evaluated, so no program can be made of it.

    `message` is the bare problem; upstream prints it after "program instantiation failed: ".
    """


class CelRuntimeError(QuarterdeckError):
    """An expression whose evaluation failed; `message` is what upstream prints for the same failure.

    `cost` is what a metered evaluation had cost by then.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message
        self.cost = 0


class EvalError(CelRuntimeError):
    """A CEL error value; the logical operators may absorb it."""


class CostLimitExceeded(CelRuntimeError):
    """Evaluation was stopped because it became more expensive than its limit."""

    def __init__(self) -> None:
        super().__init__("operation cancelled: actual cost limit exceeded")


class Issue(NamedTuple):
    """One compile problem at a character offset of the source (-1: no location)."""

    offset: int
    message: str


class Source:
    """Expression text with line information."""

    __slots__ = ("_starts", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self._starts = [0]
        at = text.find("\n")
        while at >= 0:
            self._starts.append(at + 1)
            at = text.find("\n", at + 1)

    def position(self, offset: int) -> tuple[int, int]:
        """Line (from 1) and column (from 0) of a character offset; (-1, -1) without one."""
        if offset < 0:
            return -1, -1
        if not self.text:
            return 1, -1
        line = bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1]

    def line(self, number: int) -> str | None:
        """Text of a line, counted from 1."""
        if not self.text or not 1 <= number <= len(self._starts):
            return None
        end = self._starts[number] - 1 if number < len(self._starts) else len(self.text)
        return self.text[self._starts[number - 1] : end]

    def render(self, issues: Iterable[Issue]) -> str:
        """All issues in source order as one text."""
        ordered = sorted(issues, key=lambda issue: self.position(issue.offset))
        shown = [self._render_one(issue) for issue in ordered[:MAX_REPORTED]]
        if len(ordered) > MAX_REPORTED:
            shown.append(f"{len(ordered) - MAX_REPORTED} more errors were truncated")
        return "\n".join(shown)

    def _render_one(self, issue: Issue) -> str:
        line, column = self.position(issue.offset)
        head = f"ERROR: <input>:{line}:{column + 1}: {issue.message}"
        snippet = self.line(line)
        if snippet is None or len(snippet.encode("utf-8", "surrogatepass")) > _MAX_SNIPPET_BYTES:
            return head
        snippet = snippet.replace("\t", " ")
        marker = "".join("．" if ord(c) > 127 else "." for c in snippet[:column])
        wide = column < len(snippet) and ord(snippet[column]) > 127
        return f"{head}\n | {snippet}\n | {marker}{'＾' if wide else '^'}"
