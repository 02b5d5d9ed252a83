"""The warnings of one answer: `Warning: 299` headers that stay small however much there is to say."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

#: characters of all texts together; beyond it each text is cut
_LIMIT: Final = 4096
_CUT: Final = 256
_UNSENDABLE: Final = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


class Warnings:
    """Texts in the order they were given, each once; those with control characters are not sent.

    When all together are too long every text is cut, and once the cut ones fill the room the recorder
    takes no more: whoever makes warnings one by one stops making them there.
    """

    __slots__ = ("_cuts", "_known", "_length", "_sent")

    def __init__(self) -> None:
        self._known: set[str] | None = None  # most answers have none
        self._sent: list[str] = []
        self._length = 0
        self._cuts = False

    def __bool__(self) -> bool:
        return bool(self._sent)

    @property
    def is_full(self) -> bool:
        return self._cuts and self._length >= _LIMIT

    def add(self, text: str) -> None:
        if self._known is None:
            self._known = set()
        if not text or self.is_full or text in self._known:
            return
        self._known.add(text)
        if _UNSENDABLE.search(text):
            return
        self._sent.append(text)
        self._length += self._shown(text)
        if self._length > _LIMIT and not self._cuts:
            self._cuts = True
            self._length = sum(map(self._shown, self._sent))

    def add_all(self, texts: Iterable[str]) -> None:
        """Add texts for as long as there is room; those behind are never made."""
        for text in texts:
            self.add(text)
            if self.is_full:
                return

    def headers(self) -> list[tuple[str, str]]:
        cut = _CUT if self._cuts else _LIMIT
        return [("Warning", f'299 - "{_escaped(text[:cut])}"') for text in self._sent]

    def _shown(self, text: str) -> int:
        return min(len(text), _CUT) if self._cuts else len(text)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
