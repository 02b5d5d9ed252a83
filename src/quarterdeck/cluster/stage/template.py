"""The part of Go's templates that patches of Stages are written in.

Actions are pipelines, variables, ``if``, ``range``, ``with``, ``else``, ``end`` and comments, with trim
marks. Functions are given by the caller; a template that calls another one is refused by name when it is
compiled.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

import msgspec

from quarterdeck.cluster.stage.error import StageError

_TOKEN: Final = re.compile(
    r"""\s*(?: (?P<text>"(?:[^"\\]|\\.)*") | (?P<raw>`[^`]*`) | (?P<number>-?\d+(?:\.\d+)?)
        | (?P<variable>\$\w*) | (?P<field>\.[A-Za-z_]\w*) | (?P<word>[A-Za-z_]\w*)
        | (?P<mark>:=|[=|(),.]) )""",
    re.VERBOSE,
)
_CONSTANTS: Final = {"true": True, "false": False, "nil": None}

Functions: TypeAlias = Mapping[str, Callable[..., Any]]


class _Scope:
    """Variables, and what the dot is."""

    def __init__(self, dot: Any, functions: Functions, outer: _Scope | None = None) -> None:
        self.dot: Final = dot
        self.functions: Final = functions
        self._outer: Final = outer
        self._variables: dict[str, Any] = {} if outer is not None else {"$": dot}

    def inner(self, dot: Any) -> _Scope:
        return _Scope(dot, self.functions, self)

    def declare(self, name: str, value: Any) -> None:
        self._variables[name] = value

    def assign(self, name: str, value: Any) -> None:
        self._owner(name)._variables[name] = value

    def read(self, name: str) -> Any:
        return self._owner(name)._variables[name]

    def _owner(self, name: str) -> _Scope:
        scope: _Scope | None = self
        while scope is not None:
            if name in scope._variables:
                return scope
            scope = scope._outer
        raise StageError(f"template: variable {name} is not declared")


class _Expression(Protocol):
    def __call__(self, scope: _Scope) -> Any: ...


class _Node(Protocol):
    def __call__(self, scope: _Scope, out: list[str]) -> None: ...


class _Pipeline(NamedTuple):
    names: tuple[str, ...]
    declares: bool
    value: _Expression

    def run(self, scope: _Scope) -> Any:
        """The value; variables that it is for are set."""
        value = self.value(scope)
        for name in self.names:
            (scope.declare if self.declares else scope.assign)(name, value)
        return value


class Template:
    """A template that is compiled."""

    def __init__(self, text: str, known: Functions | frozenset[str]) -> None:
        """``known`` are the functions that there will be; raises ``StageError``."""
        parser = _Parser(text.strip(), frozenset(known))
        self._nodes: Final = parser.nodes(ends=())[0]

    def render(self, dot: Any, functions: Functions) -> str:
        """The text; raises ``StageError`` where it cannot be made."""
        out: list[str] = []
        scope = _Scope(dot, functions)
        for node in self._nodes:
            node(scope, out)
        return "".join(out)


def is_true(value: Any) -> bool:
    """As Go's templates see it: nothing, zero and what is empty are false."""
    return bool(value)


def shown(value: Any) -> str:
    """As Go prints it."""
    if value is None:
        return "<no value>"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return f"[{' '.join(map(shown, value))}]"
    if isinstance(value, dict):
        return f"map[{' '.join(f'{key}:{shown(value[key])}' for key in sorted(value))}]"
    return str(value)


def _field(value: Any, name: str) -> Any:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise StageError(f"template: .{name} of {shown(value)!r}, which has no fields")
    return value.get(name)


class _Parser:
    """Parts of the text, read one after the other."""

    def __init__(self, text: str, known: frozenset[str]) -> None:
        self._known: Final = known
        self._parts: Final = _split(text)
        self._place = 0

    def nodes(self, ends: Sequence[str]) -> tuple[list[_Node], str]:
        """All up to an action that begins with one of the words; returns that action, too."""
        found: list[_Node] = []
        while self._place < len(self._parts):
            is_action, text = self._parts[self._place]
            self._place += 1
            if not is_action:
                found.append(_literal(text))
                continue
            word = text.split(None, 1)[0] if text.split() else ""
            if word in ends:
                return found, text
            if word in ("if", "with", "range"):
                found.append(self._block(word, text.removeprefix(word)))
            elif word in ("end", "else", "define", "template", "block", "break", "continue"):
                raise StageError(f"template: {{{{ {text} }}}} is not available here")
            elif text:
                found.append(_output(_ActionParser(text, self._known).pipeline()))
        if ends:
            raise StageError("template: {{ end }} is missing")
        return found, ""

    def _block(self, word: str, condition: str) -> _Node:
        parser = _ActionParser(condition, self._known)
        pipeline = parser.range_clause() if word == "range" else parser.pipeline()
        body, end = self.nodes(("end", "else"))
        other: list[_Node] = []
        if end != "end":
            rest = end.removeprefix("else").strip()
            if rest:  # `else if` is a block of its own, and has no end
                kind = rest.split(None, 1)[0]
                if kind not in ("if", "with"):
                    raise StageError(f"template: {{{{ {end} }}}} is not available here")
                other = [self._block(kind, rest.removeprefix(kind))]
            else:
                other, _ = self.nodes(("end",))
        return _BLOCKS[word](pipeline, body, other)


def _split(text: str) -> list[tuple[bool, str]]:
    """The text between actions, and what is in them, trimmed where they say so; comments are left out."""
    parts: list[tuple[bool, str]] = []
    place, trims = 0, False
    while True:
        start = text.find("{{", place)
        before = text[place:] if start < 0 else text[place:start]
        before = before.lstrip() if trims else before
        if start < 0:
            parts.append((False, before))
            return parts
        place = _end_of(text, start + 2)
        body = text[start + 2 : place - 2]
        parts.append((False, before.rstrip() if body.startswith("- ") else before))
        trims = body.endswith(" -")
        body = body.removeprefix("- ").removesuffix(" -").strip()
        if not body.startswith("/*"):
            parts.append((True, body))


def _end_of(text: str, place: int) -> int:
    """Where an action ends that has begun: texts in it may have braces."""
    while place < len(text):
        char = text[place]
        if text.startswith("}}", place):
            return place + 2
        if char in '"`':
            place += 1
            while place < len(text) and text[place] != char:
                place += 2 if text[place] == "\\" and char == '"' else 1
        place += 1
    raise StageError("template: an action is not closed")


class _ActionParser:
    """What stands in one action."""

    def __init__(self, text: str, known: frozenset[str]) -> None:
        self._text: Final = text.strip()
        self._known: Final = known
        self._tokens: list[tuple[str, str, bool]] = []
        place, end = 0, len(self._text)
        while place < end:
            found = _TOKEN.match(self._text, place)
            if found is None or found.lastgroup is None:
                raise StageError(f"template: {self._text[place:]!r} is not understood")
            word = found[found.lastgroup]
            is_apart = found.start(found.lastgroup) > place or place == 0
            self._tokens.append((found.lastgroup, word, is_apart))
            place = found.end()
        self._place = 0

    def pipeline(self) -> _Pipeline:
        """Everything that is left, as one pipeline."""
        names, declares = self._names()
        if len(names) > 1:
            raise StageError(f"template: too many variables in {self._text!r}")
        return self._ended(_Pipeline(names, declares, self._pipe()))

    def range_clause(self) -> _Pipeline:
        """The same, with two variables at most."""
        names, declares = self._names()
        return self._ended(_Pipeline(names, declares, self._pipe()))

    def _ended(self, found: _Pipeline) -> _Pipeline:
        if self._place < len(self._tokens):
            raise StageError(f"template: {self._tokens[self._place][1]!r} is too much in {self._text!r}")
        return found

    def _names(self) -> tuple[tuple[str, ...], bool]:
        marks = [word for kind, word, _ in self._tokens if kind == "mark"]
        if not any(mark in (":=", "=") for mark in marks):
            return (), False
        names = []
        while True:
            kind, word = self._next()
            if kind != "variable":
                raise StageError(f"template: a variable is missing in {self._text!r}")
            names.append(word)
            _, mark = self._next()
            if mark != ",":
                return tuple(names), mark == ":="

    def _peek(self) -> tuple[str, str, bool]:
        return self._tokens[self._place] if self._place < len(self._tokens) else ("", "", True)

    def _next(self) -> tuple[str, str]:
        kind, word, _ = self._peek()
        self._place += 1
        return kind, word

    def _pipe(self) -> _Expression:
        found = self._command(None)
        while self._peek()[1] == "|" and self._peek()[0] == "mark":
            self._place += 1
            found = self._command(found)
        return found

    def _command(self, last: _Expression | None) -> _Expression:
        kind, word, _ = self._peek()
        is_function = kind == "word" and word not in _CONSTANTS
        if not is_function:
            if last is not None:
                raise StageError(f"template: a pipeline leads into {word!r}, which is no function")
            return self._operand()
        self._place += 1
        if word not in self._known:
            raise StageError(f"template: function {word!r} is not available here")
        arguments: list[_Expression] = []
        while self._peek()[0] and self._peek()[1] not in ("|", ")", ","):
            arguments.append(self._operand())
        return _call(word, [*arguments, last] if last is not None else arguments)

    def _operand(self) -> _Expression:
        kind, word = self._next()
        found: _Expression
        match kind, word:
            case "text", _:
                found = _constant(msgspec.json.decode(word))
            case "raw", _:
                found = _constant(word[1:-1])
            case "number", _:
                found = _constant(msgspec.json.decode(word))
            case "variable", _:
                found = _variable(word)
            case "field", _:
                found = _path(_dot, word[1:])
            case "mark", ".":
                found = _dot
            case "mark", "(":
                found = self._pipe()
                if self._next()[1] != ")":
                    raise StageError(f"template: ')' is missing in {self._text!r}")
            case "word", _ if word in _CONSTANTS:
                found = _constant(_CONSTANTS[word])
            case "word", _ if word in self._known:
                found = _call(word, [])
            case "word", _:
                raise StageError(f"template: function {word!r} is not available here")
            case _:
                raise StageError(f"template: {word!r} is not understood in {self._text!r}")
        while self._peek()[0] == "field" and not self._peek()[2]:
            found = _path(found, self._next()[1][1:])
        return found


def _constant(value: Any) -> _Expression:
    return lambda scope: value


def _dot(scope: _Scope) -> Any:
    return scope.dot


def _variable(name: str) -> _Expression:
    return lambda scope: scope.read(name)


def _path(inner: _Expression, name: str) -> _Expression:
    return lambda scope: _field(inner(scope), name)


def _call(name: str, arguments: Sequence[_Expression]) -> _Expression:
    def value(scope: _Scope) -> Any:
        if name in ("and", "or"):  # those that come after the answer are not looked at
            found = None
            for each in arguments:
                found = each(scope)
                if is_true(found) == (name == "or"):
                    break
            return found
        try:
            return scope.functions[name](*(each(scope) for each in arguments))
        except (TypeError, ValueError, IndexError, KeyError, ZeroDivisionError) as error:
            raise StageError(f"template: function {name!r}: {error}") from error

    return value


def _literal(text: str) -> _Node:
    def node(scope: _Scope, out: list[str]) -> None:
        out.append(text)

    return node


def _output(pipeline: _Pipeline) -> _Node:
    def node(scope: _Scope, out: list[str]) -> None:
        value = pipeline.run(scope)
        if not pipeline.names:
            out.append(shown(value))

    return node


def _run(nodes: Sequence[_Node], scope: _Scope, out: list[str]) -> None:
    for each in nodes:
        each(scope, out)


def _if(pipeline: _Pipeline, body: Sequence[_Node], other: Sequence[_Node]) -> _Node:
    def node(scope: _Scope, out: list[str]) -> None:
        inner = scope.inner(scope.dot)
        _run(body if is_true(pipeline.run(inner)) else other, inner, out)

    return node


def _with(pipeline: _Pipeline, body: Sequence[_Node], other: Sequence[_Node]) -> _Node:
    def node(scope: _Scope, out: list[str]) -> None:
        inner = scope.inner(scope.dot)
        value = pipeline.run(inner)
        _run(*((body, inner.inner(value)) if is_true(value) else (other, inner)), out)

    return node


def _range(pipeline: _Pipeline, body: Sequence[_Node], other: Sequence[_Node]) -> _Node:
    def node(scope: _Scope, out: list[str]) -> None:
        value = pipeline.value(scope)
        if isinstance(value, dict):
            items = [(key, value[key]) for key in sorted(value)]
        elif isinstance(value, int) and not isinstance(value, bool):
            items = [(number, number) for number in range(value)]
        elif value is None or isinstance(value, list):
            items = list(enumerate(value or []))
        else:
            raise StageError(f"template: range over {shown(value)!r}")
        for key, item in items:
            inner = scope.inner(item)
            names = (item,) if len(pipeline.names) == 1 else (key, item)
            for name, each in zip(pipeline.names, names, strict=False):
                inner.declare(name, each)
            _run(body, inner, out)
        if not items:
            _run(other, scope, out)

    return node


_BLOCKS: Final[Mapping[str, Callable[[_Pipeline, Sequence[_Node], Sequence[_Node]], _Node]]] = {
    "if": _if,
    "with": _with,
    "range": _range,
}
