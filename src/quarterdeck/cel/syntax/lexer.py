"""Tokens of CEL.

Longest match like the upstream lexer; characters that start no token become "token recognition error"
issues and are skipped, so that later problems are still found.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from quarterdeck.cel.error import Issue

EOF: Final = "<EOF>"
IDENT: Final = "IDENTIFIER"
ESC_IDENT: Final = "ESC_IDENTIFIER"
INT: Final = "NUM_INT"
UINT: Final = "NUM_UINT"
FLOAT: Final = "NUM_FLOAT"
STRING: Final = "STRING"
BYTES: Final = "BYTES"

KEYWORDS: Final = frozenset({"in", "true", "false", "null"})


class Token(NamedTuple):
    """`kind` is the token class, for punctuation and keywords the text itself."""

    kind: str
    text: str
    offset: int


_ESC = r"\\(?:[abfnrtv\"'\\?`]|[0-3][0-7][0-7]|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})"
_STRING_FORMS = (
    r'[rR]"""(?:(?!""").)*"""',
    r"[rR]'''(?:(?!''').)*'''",
    rf'"""(?:{_ESC}|(?!""")[^\\])*"""',
    rf"'''(?:{_ESC}|(?!''')[^\\])*'''",
    r'[rR]"[^"\n\r]*"',
    r"[rR]'[^'\n\r]*'",
    rf'"(?:{_ESC}|[^\\"\n\r])*"',
    rf"'(?:{_ESC}|[^\\'\n\r])*'",
)
_STRING = "(?:" + "|".join(_STRING_FORMS) + ")"
_TOKEN: Final = re.compile(
    rf"""
    (?P<space>[\t \r\n\f]+|//[^\n]*)
  | (?P<BYTES>[bB]{_STRING})
  | (?P<STRING>{_STRING})
  | (?P<NUM_FLOAT>(?:[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|\.[0-9]+(?:[eE][+-]?[0-9]+)?))
  | (?P<NUM_UINT>0x[0-9a-fA-F]+[uU]|[0-9]+[uU])
  | (?P<NUM_INT>0x[0-9a-fA-F]+|[0-9]+)
  | (?P<IDENTIFIER>[A-Za-z_][A-Za-z0-9_]*)
  | (?P<ESC_IDENTIFIER>`[A-Za-z0-9_.\-/\ ]+`)
  | (?P<op>==|!=|<=|>=|&&|\|\||[\[\]{{}}().,\-!?:+*/%<>])
    """,
    re.VERBOSE | re.DOTALL,
)
# What an unfinished string still matches before the character that breaks it.
_OPEN_STRING: Final = re.compile(
    rf"""[bB]?(?:[rR](?:"[^"\n\r]*|'[^'\n\r]*)
       |(?:"(?:{_ESC}|[^\\"\n\r])*|'(?:{_ESC}|[^\\'\n\r])*)
        (?:\\(?:[0-3][0-7]?|[xX][0-9a-fA-F]?|u[0-9a-fA-F]{{0,3}}|U[0-9a-fA-F]{{0,7}})?)?)""",
    re.VERBOSE,
)


def tokenize(text: str) -> tuple[list[Token], list[Issue]]:
    """Split `text`; the token list always ends with an EOF token."""
    tokens: list[Token] = []
    issues: list[Issue] = []
    at, end = 0, len(text)
    while at < end:
        match = _TOKEN.match(text, at)
        if match is None:
            at = _skip_unknown(text, at, issues)
            continue
        kind = match.lastgroup
        word = match.group()
        if kind == "op" or (kind == IDENT and word in KEYWORDS):
            tokens.append(Token(word, word, at))
        elif kind != "space":
            assert kind is not None
            tokens.append(Token(kind, word, at))
        at = match.end()
    tokens.append(Token(EOF, EOF, end))
    return tokens, issues


def _skip_unknown(text: str, at: int, issues: list[Issue]) -> int:
    stop = at + 1
    match = _OPEN_STRING.match(text, at)
    if match is not None:
        stop = match.end() + 1
    elif text[at] in "&|=" or text[at] == "`":
        stop = at + 2
        while text[at] == "`" and stop <= len(text) and re.fullmatch(r"[A-Za-z0-9_.\-/ ]", text[stop - 1]):
            stop += 1
    issues.append(Issue(at, f"Syntax error: token recognition error at: '{text[at:stop]}'"))
    return stop
