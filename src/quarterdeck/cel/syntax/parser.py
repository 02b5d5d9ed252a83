"""Parser: text to syntax tree, with macros expanded.

A recursive-descent parser with precedence climbing. Problems are collected as issues in the words of the
upstream (ANTLR) parser for the common mistakes; like there, parsing goes on behind a mistake. Nesting deeper
than 250 and texts longer than 100 000 characters are refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from quarterdeck.cel.error import CelCompileError, Issue, Source
from quarterdeck.cel.recursion import stack_room
from quarterdeck.cel.syntax.lexer import (
    BYTES,
    EOF,
    ESC_IDENT,
    FLOAT,
    IDENT,
    INT,
    STRING,
    UINT,
    Token,
    tokenize,
)
from quarterdeck.cel.syntax.macro import MACROS, Builder, MacroError
from quarterdeck.cel.syntax.token_stream import TokenStream, show
from quarterdeck.cel.syntax.tree import (
    Call,
    Expr,
    Ident,
    ListExpr,
    Literal,
    MapEntry,
    MapExpr,
    Select,
    StructExpr,
    StructField,
    Unspecified,
    qualified_name,
)
from quarterdeck.cel.syntax.unescape import UnescapeError, unescape
from quarterdeck.cel.type.schema import KEYWORDS
from quarterdeck.cel.value.value import MAX_INT, MAX_UINT, MIN_INT, UInt, Value
from quarterdeck.errors import QuarterdeckError
from quarterdeck.wire.gonumber import parse_float

MAX_LENGTH: Final = 100_000
MAX_DEPTH: Final = 250
_MAX_RECOVERIES: Final = 30
_MAX_NODES: Final = 100_000

_BINARY: Final = {
    "||": (1, "_||_"),
    "&&": (2, "_&&_"),
    "<": (3, "_<_"),
    "<=": (3, "_<=_"),
    ">": (3, "_>_"),
    ">=": (3, "_>=_"),
    "==": (3, "_==_"),
    "!=": (3, "_!=_"),
    "in": (3, "@in"),
    "+": (4, "_+_"),
    "-": (4, "_-_"),
    "*": (5, "_*_"),
    "/": (5, "_/_"),
    "%": (5, "_%_"),
}


class _Abort(QuarterdeckError):
    """Parsing cannot go on."""


def parse(text: str) -> tuple[Expr, Source]:
    """Parse `text`; CelCompileError with all problems found."""
    source = Source(text)
    if len(text) > MAX_LENGTH:
        raise CelCompileError(
            source.render(
                [
                    Issue(
                        -1, f"expression code point size exceeds limit: size: {len(text)}, limit {MAX_LENGTH}"
                    )
                ]
            )
        )
    tokens, issues = tokenize(text)
    nested = sum(1 for token in tokens if token.kind in "([{?")
    parser = _Parser(tokens, issues)
    try:
        with stack_room(nested > 30 or len(tokens) > 250):
            root = parser.parse_start()
    except _Abort:
        root = None
    if issues or root is None:
        raise CelCompileError(source.render(issues))
    return root, source


class _Parser(TokenStream):
    def __init__(self, tokens: Sequence[Token], issues: list[Issue]) -> None:
        super().__init__(tokens, issues)
        self._ids = 0
        self._expr_depth = 0
        self._recoveries = 0
        self._rule_depth = [0, 0, 0, 0, 0, 0]
        self._visits: dict[int, int] = {}

    def _next_id(self) -> int:
        self._ids += 1
        if self._ids > _MAX_NODES:
            # optMap and the like copy their operand: chains of them grow exponentially.
            raise self._too_deep(f"expression size limit exceeded after macro expansion: {_MAX_NODES}")
        return self._ids

    def _within(self, *closers: str) -> Expr:
        """An expression that one of `closers` ends."""
        self._closers.append(frozenset(closers))
        result = self._expr()
        self._closers.pop()
        return result

    def _recover(self) -> Expr:
        """Skip to a token that may follow, and stand in for what could not be parsed."""
        self._recoveries += 1
        if self._recoveries > _MAX_RECOVERIES:
            text = f"error recovery attempt limit exceeded: {_MAX_RECOVERIES}"
            self._issue(self._token.offset, f"Syntax error: {text}")
            raise _Abort
        self._skip_to_follower()
        return Unspecified(self._next_id(), self._token.offset)

    def _sized(self, node: Expr, *parts: Expr, own: int = 0) -> Expr:
        """Remember how deep upstream's tree walk would be below `node`."""
        level = own + max((self._visits.get(part.id, 0) for part in parts), default=0)
        if level > MAX_DEPTH:
            raise self._too_deep("max recursion depth exceeded")
        if level:
            self._visits[node.id] = level
        return node

    def _too_deep(self, message: str) -> _Abort:
        self._issue(-1, message)
        return _Abort()

    def parse_start(self) -> Expr:
        root = self._expr()
        token = self._token
        if token.kind != EOF:
            how = "extraneous" if self._peek().kind == EOF else "mismatched"
            self._syntax_error(token, f"{how} input '{token.text}' expecting <EOF>")
        return root

    def _expr(self) -> Expr:
        self._expr_depth += 1
        if self._expr_depth > MAX_DEPTH:
            raise self._too_deep(f"expression recursion limit exceeded: {MAX_DEPTH}")
        result = self._binary(1)
        token = self._token
        if token.kind == "?":
            self._advance()
            self._closers.append(frozenset(":"))
            if_true = self._binary(1)
            self._closers.pop()
            if self._expect(":", is_closer=False) is None:
                result = self._recover()
            else:
                if_false = self._expr()
                node = Call(self._next_id(), token.offset, "_?_:_", [result, if_true, if_false])
                result = self._sized(node, result, if_true, if_false, own=1)
        self._expr_depth -= 1
        return result

    def _binary(self, level: int) -> Expr:
        rule = min(level, 4)
        self._rule_depth[rule] += 1
        if self._rule_depth[rule] > MAX_DEPTH:
            raise self._too_deep(f"expression recursion limit exceeded: {MAX_DEPTH}")
        left = self._unary()
        while True:
            token = self._token
            entry = _BINARY.get(token.kind)
            if entry is None or entry[0] < level:
                break
            if entry[0] <= 2:
                left = self._logic(left, token.kind)
                continue
            self._advance()
            right = self._binary(entry[0] + 1)
            left = self._sized(
                Call(self._next_id(), token.offset, entry[1], [left, right]), left, right, own=1
            )
        self._rule_depth[rule] -= 1
        return left

    def _logic(self, first: Expr, operator: str) -> Expr:
        """A run of `&&` or `||` as a balanced tree."""
        level, function = _BINARY[operator]
        terms, offsets = [first], []
        while self._token.kind == operator:
            offsets.append(self._advance().offset)
            terms.append(self._binary(level + 1))

        def balance(low: int, high: int) -> Expr:
            middle = (low + high + 1) // 2
            left = terms[middle] if middle == low else balance(low, middle - 1)
            right = terms[middle + 1] if middle == high else balance(middle + 1, high)
            node = Call(self._next_id(), offsets[middle], function, [left, right])
            return self._sized(node, left, right)

        return balance(0, len(offsets) - 1)

    def _unary(self) -> Expr:
        if not self._has_operand():
            return self._recover()
        token = self._token
        count = 0
        if token.kind == "!" or (token.kind == "-" and self._peek().kind not in (INT, FLOAT)):
            while self._token.kind == token.kind:
                count += 1
                self._advance()
        operand = self._member()
        if count % 2 == 0:
            return operand
        function = "!_" if token.kind == "!" else "-_"
        return self._sized(Call(self._next_id(), token.offset, function, [operand]), operand)

    def _member(self) -> Expr:
        if not self._has_operand():
            return self._recover()
        start = self._token
        result = self._primary()
        plain = start.kind in (IDENT, ".")
        while True:
            token = self._token
            if token.kind == ".":
                result, simple = self._selection(result)
                plain = plain and simple
            elif token.kind == "[":
                result = self._index(result)
                plain = False
            elif token.kind == "{" and plain and (name := qualified_name(result)) is not None:
                result = self._struct(name)
                plain = False
            else:
                return result

    def _selection(self, operand: Expr) -> tuple[Expr, bool]:
        dot = self._advance()
        optional = self._token.kind == "?"
        if optional:
            self._advance()
        token = self._token
        if token.kind == ESC_IDENT:
            self._advance()
            self._issue(token.offset, "unsupported syntax: '`'")
            return Unspecified(self._next_id(), token.offset), False
        if token.kind != IDENT:
            if token.kind in ("true", "false", "null"):
                self._syntax_error(token, f"mismatched input '{token.text}' expecting IDENTIFIER")
            else:
                mark = "?" if optional else ""
                text = "" if token.kind == EOF else token.text
                self._syntax_error(token, f"no viable alternative at input '.{mark}{text}'")
            return self._recover(), False
        self._advance()
        if optional:
            field = Literal(self._next_id(), token.offset, token.text)
            node = Call(self._next_id(), dot.offset, "_?._", [operand, field])
            return self._sized(node, operand, own=1), False
        if self._token.kind == "(":
            return self._call(token.text, operand), False
        return self._sized(Select(self._next_id(), dot.offset, operand, token.text), operand, own=1), True

    def _index(self, operand: Expr) -> Expr:
        bracket = self._advance()
        if not self._has_operand(frozenset("?")):
            return self._recover()
        optional = self._token.kind == "?"
        if optional:
            self._advance()
        index = self._within("]")
        if self._expect("]") is None:
            return self._recover()
        function = "_[?_]" if optional else "_[_]"
        node = Call(self._next_id(), bracket.offset, function, [operand, index])
        return self._sized(node, operand, index, own=1)

    def _call(self, function: str, target: Expr | None) -> Expr:
        opening = self._advance()
        args: list[Expr] = []
        if self._token.kind != ")":
            if not self._has_operand(frozenset(")")):
                return self._recover()
            if self._token.kind != ")":
                args.append(self._within(",", ")"))
                while self._token.kind == ",":
                    self._advance()
                    args.append(self._within(",", ")"))
        if self._expect(")") is None:
            return self._recover()
        parts = args if target is None else [target, *args]
        expand = MACROS.get((function, len(args), target is not None))
        if expand is None:
            node: Expr = Call(self._next_id(), opening.offset, function, args, target)
        else:
            try:
                node = expand(Builder(self._next_id, opening.offset), target, args)
            except MacroError as problem:
                self._issue(problem.offset, problem.message)
                node = Unspecified(self._next_id(), opening.offset)
        return self._sized(node, *parts, own=0 if target is None else 1)

    def _primary(self) -> Expr:
        token = self._token
        if token.kind == "(":
            self._advance()
            inner = self._within(")")
            return inner if self._expect(")") is not None else self._recover()
        if token.kind == "[":
            return self._list()
        if token.kind == "{":
            return self._map()
        if token.kind in (IDENT, "."):
            return self._name()
        return self._literal()

    def _name(self) -> Expr:
        start = self._token
        prefix = ""
        if start.kind == ".":
            prefix = "."
            self._advance()
        token = self._token
        if token.kind != IDENT:
            text = "" if token.kind == EOF else token.text
            self._syntax_error(token, f"no viable alternative at input '.{text}'")
            return self._recover()
        self._advance()
        if token.text in KEYWORDS and not self._starts_message():
            self._issue(start.offset, f"reserved identifier: {token.text}")
            if self._token.kind == "(":
                self._call(token.text, None)
            return Unspecified(self._next_id(), token.offset)
        if self._token.kind == "(":
            return self._call(prefix + token.text, None)
        return Ident(self._next_id(), token.offset, prefix + token.text)

    def _starts_message(self) -> bool:
        ahead = 0
        while self._peek(ahead).kind == "." and self._peek(ahead + 1).kind == IDENT:
            ahead += 2
        return self._peek(ahead).kind == "{"

    def _list(self) -> Expr:
        opening = self._advance()
        elements: list[Expr] = []
        optional: set[int] = set()
        if self._token.kind == ",":
            self._advance()
        elif self._token.kind != "]":
            if not self._has_operand(frozenset("]?,")):
                return self._recover()
            while True:
                if self._token.kind == "?":
                    self._advance()
                    optional.add(len(elements))
                elements.append(self._within(",", "]"))
                if not self._more("]"):
                    break
        if not self._close("]"):
            return self._recover()
        node = ListExpr(self._next_id(), opening.offset, elements, frozenset(optional))
        return self._sized(node, *elements)

    def _map(self) -> Expr:
        opening = self._advance()
        entries: list[MapEntry] = []
        if self._token.kind == ",":
            self._advance()
        elif self._token.kind != "}":
            if not self._has_operand(frozenset("}?,")):
                return self._recover()
            while True:
                is_optional = self._token.kind == "?"
                if is_optional:
                    self._advance()
                key = self._within(":")
                colon = self._expect(":", is_closer=False)
                if colon is None:
                    return self._recover()
                value = self._within(",", "}")
                entries.append(MapEntry(self._next_id(), colon.offset, key, value, is_optional))
                if not self._more("}"):
                    break
        if not self._close("}"):
            return self._recover()
        node = MapExpr(self._next_id(), opening.offset, entries)
        return self._sized(node, *node.children())

    def _struct(self, name: str) -> Expr:
        opening = self._advance()
        fields: list[StructField] = []
        if self._token.kind == ",":
            self._advance()
        elif self._token.kind != "}":
            while True:
                field = self._struct_field()
                if field is None:
                    return self._recover()
                fields.append(field)
                if not self._more("}"):
                    break
        if not self._close("}"):
            return self._recover()
        node = StructExpr(self._next_id(), opening.offset, name, fields)
        return self._sized(node, *node.children())

    def _struct_field(self) -> StructField | None:
        is_optional = self._token.kind == "?"
        if is_optional:
            self._advance()
        token = self._token
        if token.kind == ESC_IDENT:
            self._issue(token.offset, "unsupported syntax: '`'")
        elif token.kind != IDENT:
            expected = show(frozenset([IDENT, ESC_IDENT]))
            self._syntax_error(token, f"mismatched input '{token.text}' expecting {expected}")
            return None
        self._advance()
        colon = self._expect(":", is_closer=False)
        if colon is None:
            return None
        value = self._within(",", "}")
        return StructField(self._next_id(), colon.offset, token.text, value, is_optional)

    def _more(self, closer: str) -> bool:
        """Whether another entry follows; a comma before the closer is allowed."""
        if self._token.kind != ",":
            return False
        self._advance()
        return self._token.kind != closer

    def _literal(self) -> Expr:
        start = self._token
        sign = ""
        if start.kind == "-":
            sign = "-"
            self._advance()
        token = self._advance()
        offset = start.offset
        value: Value
        if token.kind == INT:
            body = token.text
            value = int(
                sign + (body[2:] if body.startswith("0x") else body), 16 if body.startswith("0x") else 10
            )
            if not MIN_INT <= value <= MAX_INT:
                return self._bad_literal(offset, "invalid int literal")
        elif token.kind == UINT:
            body = token.text[:-1]
            value = UInt(body[2:], 16) if body.startswith("0x") else UInt(body)
            if value > MAX_UINT:
                return self._bad_literal(offset, "invalid uint literal")
        elif token.kind == FLOAT:
            value = parse_float(sign + token.text)
            if value is None:
                return self._bad_literal(offset, "invalid double literal")
        elif token.kind in (STRING, BYTES):
            try:
                value = unescape(token.text, is_bytes=token.kind == BYTES)
            except UnescapeError as problem:
                return self._bad_literal(offset, str(problem))
        elif token.kind in ("true", "false"):
            value = token.kind == "true"
        elif token.kind == "null":
            value = None
        else:
            self._at -= 1
            text = token.text
            self._syntax_error(token, f"no viable alternative at input '{sign}{'' if text == EOF else text}'")
            return self._recover()
        return Literal(self._next_id(), offset, value)

    def _bad_literal(self, offset: int, message: str) -> Expr:
        self._issue(offset, message)
        return Unspecified(self._next_id(), offset)
