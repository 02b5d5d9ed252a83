"""The token stream of the parser: looking ahead, and mending mistakes.

Reports and repairs syntax errors like ANTLR's default strategy does: a superfluous token is dropped, a
missing one made up when what follows fits; until a token fits again no further error is reported.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from quarterdeck.cel.error import Issue
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
)

BINARY: Final = frozenset(["||", "&&", "<", "<=", ">", ">=", "==", "!=", "in", "+", "-", "*", "/", "%"])
_CLASSES: Final = frozenset({FLOAT, INT, UINT, STRING, BYTES, IDENT, ESC_IDENT, EOF})
# Token order of the upstream lexer: expected sets are printed in it.
_ORDER: Final = (
    "==",
    "!=",
    "in",
    "<",
    "<=",
    ">=",
    ">",
    "&&",
    "||",
    "[",
    "]",
    "{",
    "}",
    "(",
    ")",
    ".",
    ",",
    "-",
    "!",
    "?",
    ":",
    "+",
    "*",
    "/",
    "%",
    "true",
    "false",
    "null",
    FLOAT,
    INT,
    UINT,
    STRING,
    BYTES,
    IDENT,
    ESC_IDENT,
)
OPERAND: Final = frozenset(
    ["[", "{", "(", ".", "-", "!", "true", "false", "null", FLOAT, INT, UINT, STRING, BYTES, IDENT]
)
# What may come right after an operand.
FOLLOW: Final = BINARY | frozenset([".", "[", "?"])


class TokenStream:
    """Tokens with a position; the base of the parser."""

    def __init__(self, tokens: Sequence[Token], issues: list[Issue]) -> None:
        self._tokens = tokens
        self._at = 0
        self._issues = issues
        # What may come after the expression being parsed, innermost construct last.
        self._closers: list[frozenset[str]] = [frozenset([EOF])]
        self._recovering = False

    @property
    def _token(self) -> Token:
        return self._tokens[self._at]

    def _peek(self, ahead: int = 1) -> Token:
        return self._tokens[min(self._at + ahead, len(self._tokens) - 1)]

    def _issue(self, offset: int, message: str) -> None:
        self._issues.append(Issue(offset, message))

    def _syntax_error(self, token: Token, message: str) -> None:
        # Until a token fits again, further errors are likely consequences of the first.
        if not self._recovering:
            self._issue(token.offset, f"Syntax error: {message}")
        self._recovering = True

    def _advance(self) -> Token:
        """Take a token that fits."""
        self._recovering = False
        self._at += 1
        return self._tokens[self._at - 1]

    def _expect(self, kind: str, *, is_closer: bool = True) -> Token | None:
        """Take a token of `kind`, repairing like ANTLR's single-token deletion and insertion; None if
        impossible."""
        token = self._token
        if token.kind == kind:
            return self._advance()
        wanted = show(frozenset([kind]))
        if self._peek().kind == kind and token.kind != EOF:
            self._syntax_error(token, f"extraneous input '{token.text}' expecting {wanted}")
            self._at += 1
            return self._advance()
        follow = FOLLOW | self._closers[-1] if is_closer else OPERAND
        if token.kind in follow:
            self._syntax_error(token, f"missing {wanted} at '{token.text}'")
            return token
        self._syntax_error(token, f"mismatched input '{token.text}' expecting {wanted}")
        return None

    def _has_operand(self, also: frozenset[str] = frozenset()) -> bool:
        """Whether an operand (or one of `also`) comes next, skipping one misplaced token."""
        token = self._token
        expected = OPERAND | also
        if token.kind in expected:
            return True
        if token.kind != EOF and self._peek().kind in expected:
            self._syntax_error(token, f"extraneous input '{token.text}' expecting {show(expected)}")
            self._at += 1
            return True
        self._syntax_error(token, f"mismatched input '{token.text}' expecting {show(expected)}")
        return False

    def _close(self, kind: str) -> bool:
        """Take the token that ends a list of entries, repairing one mistake; False if impossible."""
        token = self._token
        if token.kind == kind:
            self._advance()
            return True
        expected = show(frozenset([kind, ","]))
        if token.kind != EOF and self._peek().kind == kind:
            self._syntax_error(token, f"extraneous input '{token.text}' expecting {expected}")
            self._at += 1
            self._advance()
            return True
        self._syntax_error(token, f"mismatched input '{token.text}' expecting {expected}")
        return False

    def _skip_to_follower(self) -> None:
        """Drop tokens up to one that may follow an operand or end an open construct."""
        resume = FOLLOW.union(*self._closers)
        while self._token.kind not in resume:
            self._at += 1


def show(expected: frozenset[str]) -> str:
    """A set of expected tokens as it is printed."""
    names = [kind if kind in _CLASSES else f"'{kind}'" for kind in sorted(expected, key=_ORDER.index)]
    return names[0] if len(names) == 1 else "{" + ", ".join(names) + "}"
