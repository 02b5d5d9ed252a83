"""Mail addresses as Go's net/mail reads them: `a@b`, `Name <a@b>`, comments, a group of one."""

from __future__ import annotations

import ipaddress
import re
from typing import Final

from quarterdeck.errors import QuarterdeckError

_SPECIALS: Final = frozenset('()<>[]:;@\\,"')
_SPACE: Final = " \t"
#: an RFC 2047 word; Go knows three charsets and takes no other
_encoded_word = re.compile(r"=\?([^?]+)\?[bBqQ]\?[^?]*\?=")
_CHARSETS: Final = ("utf-8", "iso-8859-1", "us-ascii")


class _Malformed(QuarterdeckError):
    pass


def is_address(text: str) -> bool:
    """Whether `text` is exactly one address."""
    reader = _Reader(text)
    try:
        count = reader.address(groups=True)
        reader.comments()
    except _Malformed:
        return False
    return reader.at_end() and count == 1


def _is_visible(char: str) -> bool:
    return "!" <= char <= "~" or char >= "\x80"


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0

    def at_end(self) -> bool:
        return self._position >= len(self._text)

    def _peek(self) -> str:
        return self._text[self._position : self._position + 1]

    def _take(self, char: str) -> bool:
        if self._peek() != char:
            return False
        self._position += 1
        return True

    def _space(self) -> None:
        while self._peek() and self._peek() in _SPACE:
            self._position += 1

    def comments(self) -> None:
        self._space()
        while self._take("("):
            self._comment()
            self._space()

    def _comment(self) -> None:
        depth = 1
        while depth:
            char = self._peek()
            if not char:
                raise _Malformed
            if char == "\\" and self._position + 1 < len(self._text):
                self._position += 1
            elif char == "(":
                depth += 1
            elif char == ")":
                depth -= 1
            self._position += 1

    def address(self, *, groups: bool) -> int:
        """Read an address or, if allowed, a group; the number of addresses in it."""
        self._space()
        if self.at_end():
            raise _Malformed
        start = self._position
        try:
            self._spec()
        except _Malformed:
            self._position = start
        else:
            self._space()
            if self._take("("):
                self._comment()
            return 1
        if self._peek() != "<":
            self._phrase()
        self._space()
        if groups and self._take(":"):
            return self._group()
        if not self._take("<"):
            raise _Malformed
        self._spec()
        if not self._take(">"):
            raise _Malformed
        return 1

    def _group(self) -> int:
        self._space()
        if self._take(";"):
            self.comments()
            return 0
        count = 0
        while True:
            count += self.address(groups=False)
            self.comments()
            if self._take(";"):
                self.comments()
                return count
            if not self._take(","):
                raise _Malformed

    def _spec(self) -> None:
        self._space()
        if self._peek() == '"':
            if not self._quoted():
                raise _Malformed
        else:
            self._atom(strict=True)
        if not self._take("@"):
            raise _Malformed
        self._space()
        if self._take("["):
            self._literal()
        else:
            self._atom(strict=True)

    def _literal(self) -> None:
        end = self._text.find("]", self._position)
        if end < 0:
            raise _Malformed
        try:
            ipaddress.ip_address(self._text[self._position : end])
        except ValueError:
            raise _Malformed from None
        if "%" in self._text[self._position : end]:
            raise _Malformed
        self._position = end + 1

    def _phrase(self) -> None:
        words = 0
        while True:
            if words:
                self.comments()
            self._space()
            if self.at_end():
                break
            try:
                if self._peek() == '"':
                    self._quoted()
                else:
                    self._atom(strict=False)
            except _Malformed:
                if not words:
                    raise
                break
            words += 1

    def _quoted(self) -> bool:
        """Read a quoted string; whether there is something in it."""
        position = self._position + 1
        escaped = False
        empty = True
        while True:
            char = self._text[position : position + 1]
            if not char or not (_is_visible(char) or char in _SPACE):
                raise _Malformed
            if escaped:
                escaped = empty = False
            elif char == '"':
                break
            elif char == "\\":
                escaped = True
            else:
                empty = False
            position += 1
        self._position = position + 1
        return not empty

    def _atom(self, *, strict: bool) -> None:
        start = self._position
        while (char := self._peek()) and char not in _SPECIALS and _is_visible(char):
            self._position += 1
        atom = self._text[start : self._position]
        if not atom:
            raise _Malformed
        if strict and (atom.startswith(".") or atom.endswith(".") or ".." in atom):
            raise _Malformed
        if not strict and (word := _encoded_word.fullmatch(atom)) and word[1].lower() not in _CHARSETS:
            raise _Malformed
