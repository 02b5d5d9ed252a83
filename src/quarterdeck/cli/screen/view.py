"""What of the cluster the screen shows: which view, which item of it, what is filtered. Keys change it.

A view is a list of items. The arrow keys choose one, Enter opens it, `/` leaves those that have a text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple


class View(NamedTuple):
    """A part of the cluster that may have the screen to itself."""

    title: str
    orders: tuple[str, ...] = ()
    """By what its items may be sorted; the first is the usual one."""


OVERVIEW: Final = View("overview")
VIEWS: Final = (
    OVERVIEW,
    View("needs attention", ("severity", "age")),
    View("GPUs", ("name", "free GPUs")),
    View("what waits, and why", ("age", "name")),
    View("queues", ("name", "GPUs in use")),
    View("training and inference", ("name", "state")),
    View("events", ("time", "object")),
)

HELP: Final = """\
1 … 7, ← →, Tab    switch view: overview, needs attention, GPUs, what waits,
                   queues, work, events
↑ ↓, j k           the item before or after
PgUp PgDn, Space   a page up or down
Home End           to the first or last item
Enter              explain the item: what it is, why, what to do
/                  only items with a text; Esc shows all again
s                  sort by something else
?                  this help; any key ends it
q, Ctrl-C          quit"""


class Viewer:
    """The view that is shown. Whoever draws says how high each item is, and how many lines fit."""

    def __init__(self) -> None:
        self.number = 0
        self.selected = 0
        self.filter = ""
        self.is_typing = False
        """Whether keys go into the filter."""
        self.is_open = False
        """Whether the item is explained."""
        self.is_helping = False
        self.has_quit = False
        self._first = 0
        self._orders = dict.fromkeys(range(len(VIEWS)), 0)
        self._items = 0
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

    def fit(self, heights: Sequence[int], page: int) -> tuple[int, int]:
        """The first item to show and the one behind the last, so that the chosen one is seen."""
        self._items = len(heights)
        self.selected = max(0, min(self.selected, self._items - 1))
        first = min(self._first, self.selected)
        while first < self.selected and sum(heights[first : self.selected + 1]) > page:
            first += 1
        while first > 0 and sum(heights[first - 1 :]) <= page:
            first -= 1
        last, used = first, 0
        while last < self._items and (used + heights[last] <= page or last == first):
            used += heights[last]
            last += 1
        self._first, self._page = first, max(1, last - first)
        return first, last

    def press(self, key: str) -> None:
        """Do what a key asks for."""
        if self.is_typing:
            self._type(key)
        elif self.is_helping and key != "q":
            self.is_helping = False
        elif key == "q":
            self.has_quit = True
        elif key in ("?", "h"):
            self.is_helping = True
        elif key == "enter":
            self.is_open = not self.is_open and self._items > 0
        elif key == "escape":
            self.is_open, self.filter = False, self.filter if self.is_open else ""
        elif key == "/":
            self.is_typing, self.is_open = True, False
        elif key == "s" and self.view.orders:
            self._orders[self.number] = (self._orders[self.number] + 1) % len(self.view.orders)
        elif key.isdigit() and 1 <= int(key) <= len(VIEWS):
            self._turn(int(key) - 1)
        elif key in ("left", "right"):
            self._turn((self.number + (1 if key == "right" else -1)) % len(VIEWS))
        else:
            self._move(key)

    def _type(self, key: str) -> None:
        if key in ("enter", "escape"):
            self.is_typing = False
            self.filter = self.filter if key == "enter" else ""
        elif key == "backspace":
            self.filter = self.filter[:-1]
        elif key == "page down":  # the name of the space bar
            self.filter += " "
        elif len(key) == 1 and key.isprintable():
            self.filter += key

    def _turn(self, number: int) -> None:
        self.number, self.selected, self._first, self.is_open = number, 0, 0, False

    def _move(self, key: str) -> None:
        steps = {
            "up": -1,
            "k": -1,
            "down": 1,
            "j": 1,
            "page up": -self._page,
            "page down": self._page,
            "home": -self._items,
            "end": self._items,
        }
        self.selected = max(0, min(self.selected + steps.get(key, 0), self._items - 1))
