"""What of the cluster the screen shows: which view, from which line on, in which order. Keys change it."""

from __future__ import annotations

from typing import Final, NamedTuple


class View(NamedTuple):
    """A part of the cluster that may have the screen to itself."""

    title: str
    orders: tuple[str, ...] = ()
    """By what its lines may be sorted; the first is the usual one."""


OVERVIEW: Final = View("overview")
VIEWS: Final = (
    OVERVIEW,
    View("GPUs", ("name", "free GPUs")),
    View("what waits, and why", ("age", "name")),
    View("queues", ("name", "GPUs in use")),
    View("training and inference", ("name", "state")),
    View("events", ("time", "object")),
)

HELP: Final = """\
1 … 6, ← →, Tab    switch view: overview, GPUs, what waits, queues, work, events
↑ ↓, j k           a line up or down
PgUp PgDn, Space   a page up or down
Home End           to the first or last line
s                  sort by something else
?                  this help; any key ends it
q, Ctrl-C          quit"""


class Viewer:
    """The view that is shown. Whoever draws says how many lines there are, and how many fit."""

    def __init__(self) -> None:
        self.number = 0
        self.offset = 0
        self.is_helping = False
        self.has_quit = False
        self._orders = dict.fromkeys(range(len(VIEWS)), 0)
        self._lines = 0
        self._page = 1

    @property
    def view(self) -> View:
        """The view itself."""
        return VIEWS[self.number]

    @property
    def order(self) -> str:
        """By what it is sorted."""
        orders = self.view.orders
        return orders[self._orders[self.number]] if orders else ""

    def fit(self, lines: int, page: int) -> int:
        """The first line to show, where there are so many and a page has room for so many."""
        self._lines, self._page = lines, max(1, page)
        self.offset = max(0, min(self.offset, lines - self._page))
        return self.offset

    def press(self, key: str) -> None:
        """Do what a key asks for."""
        if self.is_helping and key != "q":
            self.is_helping = False
        elif key == "q":
            self.has_quit = True
        elif key in ("?", "h"):
            self.is_helping = True
        elif key == "s" and self.view.orders:
            self._orders[self.number] = (self._orders[self.number] + 1) % len(self.view.orders)
        elif key.isdigit() and 1 <= int(key) <= len(VIEWS):
            self._turn(int(key) - 1)
        elif key in ("left", "right"):
            self._turn((self.number + (1 if key == "right" else -1)) % len(VIEWS))
        else:
            self._scroll(key)

    def _turn(self, number: int) -> None:
        self.number, self.offset = number, 0

    def _scroll(self, key: str) -> None:
        steps = {
            "up": -1,
            "k": -1,
            "down": 1,
            "j": 1,
            "page up": -self._page,
            "page down": self._page,
            "home": -self._lines,
            "end": self._lines,
        }
        self.offset += steps.get(key, 0)
        self.fit(self._lines, self._page)
