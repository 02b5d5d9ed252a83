"""The cluster on a terminal: the rows of the dashboard as one screen that fits the window, problems first.

`draw` makes a screen of rich's parts from the sections and a viewer. `show` keeps it up to date, on the
terminal's other screen, until stopped, and heeds the keys of `view`; `plain` is the same as lines, for
pipes and logs.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Final

from quarterdeck.api.jsonobject import Json
from quarterdeck.dashboard.text import gang_name, natural, plain_lines
from quarterdeck.errors import QuarterdeckError
from quarterdeck.health.field import plural

from .item import ITEMS, Item, Line, Sections, gpu_bar, shortened
from .keyboard import pressed_keys
from .view import HELP, Viewer

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.text import Text

    from quarterdeck.dashboard import Board

_PERIOD: Final = 0.25
_HEAD: Final = 4
"""Lines of the head, with its frame."""
_FRAME: Final = 2
_WIDE: Final = 100
"""Columns from which parts are side by side."""


def plain(board: Board) -> str:
    """The same content as lines."""
    return "\n".join(plain_lines(board.sections))


async def show(board: Board, head: str, stopping: asyncio.Event, console: Console | None = None) -> None:
    """Draw until stopped or quit, a few times a second and only if something changed."""
    from rich.console import Console
    from rich.live import Live

    console = console if console is not None else Console()
    changed = asyncio.Event()
    unsubscribe = board.subscribe(lambda _: changed.set())
    viewer = Viewer()
    advice = _Advice(board.explain, changed)

    def press(key: str) -> None:
        viewer.press(key)
        changed.set()

    try:
        with pressed_keys(press), Live(console=console, screen=True, auto_refresh=False) as live:
            while not stopping.is_set() and not viewer.has_quit:
                changed.clear()
                title = f"{head}   ? help   q quit"
                live.update(draw(board.sections, title, console, viewer, advice.about), refresh=True)
                await asyncio.sleep(_PERIOD)
                try:
                    async with asyncio.timeout(1.0):  # ages grow by themselves, and windows change their size
                        await _first(changed, stopping)
                except TimeoutError:
                    continue
    finally:
        unsubscribe()
        await advice.stop()


class _Advice:
    """What the scheduler says of the gang that is explained, asked once for each that is opened."""

    def __init__(self, explain: Callable[[str, str], Awaitable[Json]], changed: asyncio.Event) -> None:
        self._explain: Final = explain
        self._changed: Final = changed
        self._gang = ""
        self._lines: tuple[str, ...] = ()
        self._asking: asyncio.Task[None] | None = None

    def about(self, gang: str) -> tuple[str, ...]:
        """What is known so far."""
        if gang != self._gang:
            self._gang, self._lines = gang, ("asking the scheduler…",)
            if self._asking is not None:
                self._asking.cancel()
            self._asking = asyncio.create_task(self._ask(gang), name="advice")
        return self._lines

    async def _ask(self, gang: str) -> None:
        namespace, _, name = gang.partition("/")
        try:
            found = await self._explain(namespace, name)
            self._lines = tuple(_advice_lines(found))
        except QuarterdeckError as error:
            self._lines = (str(error),)
        self._changed.set()

    async def stop(self) -> None:
        """Ask no more."""
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.wait([self._asking])


def _advice_lines(found: Json) -> Iterable[str]:
    if found.get("missing"):
        yield f"it needs {found['missing']}; next cycle: {found['outcome']}"
    if found.get("verdict"):
        yield found["verdict"]
    if found.get("remedies"):
        yield "what would start it:"
    for each in found.get("remedies", ()):
        evicts = ", ".join(gang_name(name) for name in each["evicts"])
        yield f"  {each['text']}" + (f"; would evict {evicts}" if evicts else "")


async def _first(*events: asyncio.Event) -> None:
    waiting = [asyncio.ensure_future(each.wait()) for each in events]
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in waiting:
            each.cancel()


def draw(
    sections: Sections,
    head: str,
    console: Console,
    viewer: Viewer,
    advice: Callable[[str], tuple[str, ...]] = lambda gang: (),
) -> RenderableType:
    """The screen that a viewer asks for. ``advice`` tells what the scheduler says of a gang."""
    from rich.panel import Panel
    from rich.text import Text

    if viewer.is_helping:
        return Panel(Text(HELP), title="keys", border_style="blue")
    found = ITEMS[viewer.number](sections, viewer.order)
    items = [each for each in found if viewer.filter.lower() in each.text.lower()]
    if viewer.number == 0:
        viewer.fit([1] * len(items), console.height)
        if viewer.is_open and items:
            return _explained(items[viewer.selected], sections, head, console, advice)
        return _overview(sections, head, console, viewer, items, len(found))
    page = console.height - _HEAD - _FRAME
    first, last = viewer.fit([len(each.lines) for each in items], page)
    if viewer.is_open and items:
        return _explained(items[viewer.selected], sections, head, console, advice)
    place = f"{first + 1} to {last} of {len(items)}" if items else "none"
    title = f"{viewer.number + 1} {viewer.view.title}, by {viewer.order}"
    body = _listed(items[first:last], viewer.selected - first) if items else _nothing(found, viewer)
    return _framed(sections, head, console, body, title, place + _filtered(viewer, len(found) - len(items)))


def _filtered(viewer: Viewer, hidden: int) -> str:
    """A filter says what it hides, and that it is there."""
    if viewer.is_typing:
        return f", with {viewer.filter}▏ ({hidden} hidden)"
    return f", with {viewer.filter!r} ({hidden} hidden)" if viewer.filter else ""


def _nothing(found: list[Item], viewer: Viewer) -> Text:
    from rich.text import Text

    if found:
        return Text(f"none of {len(found)} has the text {viewer.filter!r}; Esc shows all")
    return Text(_EMPTY[viewer.number], style="dim")


_EMPTY: Final = (
    "nothing is wrong",
    "nothing is wrong",
    "no nodes yet",
    "nothing waits",
    "no queues: they are the gang scheduler's",
    "no trainings and no inference services",
    "no events",
)


def _framed(
    sections: Sections, head: str, console: Console, body: RenderableType, title: str, place: str
) -> RenderableType:
    from rich.console import Group
    from rich.panel import Panel

    return Group(
        Panel(_summary(sections, head), border_style="blue", height=_HEAD),
        Panel(body, title=title, subtitle=place, height=console.height - _HEAD),
    )


def _explained(
    item: Item, sections: Sections, head: str, console: Console, advice: Callable[[str], tuple[str, ...]]
) -> RenderableType:
    from rich.text import Text

    lines = [*item.detail, *(("", *advice(item.gang)) if item.gang else ())]
    return _framed(sections, head, console, Text("\n".join(lines)), "explained", "Enter or Esc goes back")


def _listed(items: list[Item], selected: int) -> Text:
    from rich.text import Text

    whole = Text(no_wrap=True, overflow="ellipsis")
    for place, item in enumerate(items):
        for number, line in enumerate(item.lines):
            whole.append("▸ " if place == selected and number == 0 else "  ", style="bold")
            _append(whole, line, bold=place == selected)
            whole.append("\n")
    return whole


def _append(text: Text, line: Line, *, bold: bool = False) -> None:
    for piece, style in line:
        text.append(piece, style=f"{style} bold".strip() if bold else style)


def _overview(
    sections: Sections, head: str, console: Console, viewer: Viewer, items: list[Item], all_items: int
) -> RenderableType:
    """Problems first, then where the GPUs are, what waits, and, where there is room, the rest."""
    from rich.layout import Layout
    from rich.panel import Panel

    width, height = console.width, console.height
    layout = Layout()
    parts = [Layout(Panel(_summary(sections, head), border_style="blue"), size=_HEAD)]
    left = height - _HEAD
    if all_items:
        most = max(1, min(len(items) or 1, left // 3))
        first = max(0, min(viewer.selected - most + 1, len(items) - most)) if items else 0
        body = (
            _listed(items[first : first + most], viewer.selected - first) if items else _nothing([], viewer)
        )
        title = f"needs attention: {all_items}{_filtered(viewer, all_items - len(items))}"
        parts.append(Layout(Panel(body, title=title, border_style="red"), size=most + _FRAME))
        left -= most + _FRAME
    wide = width >= _WIDE
    upper = left * 3 // 5
    gpus = Panel(_gpus(sections, width * 3 // 5 - 4 if wide else width - 4, upper - _FRAME), title="GPUs")
    waits = Panel(_short(3, sections, left), title="what waits, and why")
    body_layout = Layout()
    if wide:
        right = Layout(ratio=2)
        right.split_column(Layout(waits), Layout(Panel(_short(4, sections, left), title="queues")))
        top, bottom = Layout(size=upper), Layout()
        top.split_row(Layout(gpus, ratio=3), right)
        bottom.split_row(
            Layout(Panel(_short(5, sections, left), title="training and inference")),
            Layout(Panel(_short(6, sections, left), title="events")),
        )
        body_layout.split_column(top, bottom)
    else:
        body_layout.split_column(Layout(gpus, size=upper), Layout(waits))
    layout.split_column(*parts, body_layout)
    return layout


def _short(number: int, sections: Sections, rows: int) -> Text:
    """As much of a view as may fit, without a choice."""
    from rich.text import Text

    items = ITEMS[number](sections, "")
    if not items:
        return Text(_EMPTY[number], style="dim")
    whole = Text(no_wrap=True, overflow="ellipsis")
    for item in items[:rows]:
        for line in item.lines:
            _append(whole, line)
            whole.append("\n")
    return whole


def _summary(sections: Sections, head: str) -> RenderableType:
    from rich.text import Text

    nodes = sections.get("nodes", {}).values()
    gangs = sections.get("gangs", {}).values()
    health: Json = sections.get("health", {}).get("health", {})
    gpus = sum(node["gpus"] for node in nodes)
    used = sum(guest["gpus"] for node in nodes for guest in node["guests"])
    waiting = sum(bool(gang["waiting"]) for gang in gangs)
    down = sum(not node["ready"] for node in nodes)
    text = Text(no_wrap=True, overflow="ellipsis")
    if since := health.get("unreachableSince"):
        text.append(f"NO ANSWER since {since}  ", style="bold red")
    elif health:
        style = "bold red" if health["critical"] else "yellow" if health["warning"] else "green"
        text.append(f"{health['summary']}  ", style=style)
    text.append(f"{used:g} of {plural(gpus, 'GPU')}  ", style="bright_blue")
    ready = f"{len(nodes) - down} of {plural(len(nodes), 'node')} ready  "
    text.append(ready, style="red" if down else "")
    text.append(f"{plural(sum(bool(gang.get('runs')) for gang in gangs), 'gang')} run  ", style="green")
    text.append(f"{waiting} wait", style="yellow" if waiting else "dim")
    text.append(f"\n{head}", style="dim")
    return text


def _gpus(sections: Sections, width: int, rows: int) -> RenderableType:
    """Every node where all of them fit, else a line for each rack or zone, those with trouble first."""
    from rich.table import Table
    from rich.text import Text

    nodes = sorted(
        sections.get("nodes", {}).values(), key=lambda node: (not node["gpus"], natural(node["name"]))
    )
    if not nodes:
        return Text(_EMPTY[2], style="dim")
    names = min(24, max(len(node["name"]) for node in nodes))
    bars = min(16, max(node["gpus"] for node in nodes))
    columns = max(1, (width + 2) // (names + 1 + bars + 2))
    lines = -(-len(nodes) // columns)
    if lines > rows:
        return _domains(nodes, width, rows)
    table = Table.grid(padding=(0, 2))
    cells = []
    for node in nodes:
        text = Text(
            f"{shortened(node['name'], names):<{names}} ",
            style="" if node["ready"] else "bold red",
            no_wrap=True,
        )
        _append(text, gpu_bar(node))
        cells.append(text)
    for row in range(lines):
        table.add_row(*cells[row * columns : (row + 1) * columns])
    return table


def _domains(nodes: list[Json], width: int, rows: int) -> Text:
    from rich.text import Text

    by_domain: dict[str, list[Json]] = defaultdict(list)
    for node in nodes:
        by_domain["/".join(node.get("domain") or ()) or "elsewhere"].append(node)
    if len(by_domain) == 1:  # nothing says where they are: so many after each other
        size = -(-len(nodes) // max(1, rows - 1))
        parts = [nodes[start : start + size] for start in range(0, len(nodes), size)]
        by_domain = {f"{part[0]['name']} … {part[-1]['name']}": part for part in parts}
    ordered = sorted(
        by_domain.items(), key=lambda item: (-sum(not each["ready"] for each in item[1]), natural(item[0]))
    )
    names = min(max(map(len, by_domain)), max(12, width - 44))
    text = Text(no_wrap=True, overflow="ellipsis")
    shown = ordered if len(ordered) <= rows else ordered[: max(1, rows - 1)]
    for name, members in shown:
        gpus = sum(each["gpus"] for each in members)
        used = sum(guest["gpus"] for each in members for guest in each["guests"])
        down = sum(not each["ready"] for each in members)
        filled = round(10 * used / gpus) if gpus else 0
        text.append(f"{shortened(name, names):<{names}} ", style="bold red" if down else "")
        text.append("■" * filled, style="bright_blue")
        text.append("·" * (10 - filled), style="dim")
        text.append(f" {used:g} of {plural(gpus, 'GPU')}, {plural(len(members), 'node')}")
        text.append(f", {down} not ready\n" if down else "\n", style="bold red")
    if len(shown) < len(ordered):
        text.append(f"and {len(ordered) - len(shown)} more: 3 lists every node", style="dim")
    return text
