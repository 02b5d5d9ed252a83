"""The cluster on a terminal: the rows of the dashboard as one screen that fits the window.

`render` makes a screen of rich's parts from the sections. `show` keeps it up to date, on the terminal's other
screen, until stopped, and heeds the keys of `screenview`; `plain` is the same content as lines, for pipes and
logs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from quarterdeck.api.jsonobject import Json
from quarterdeck.dashboard.text import age, gang_name, plain_lines

from .keyboard import pressed_keys
from .view import HELP, VIEWS, Viewer

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from quarterdeck.dashboard import Board

Sections = Mapping[str, Mapping[str, Json]]
_PERIOD: Final = 0.25
_COLOURS: Final = (
    "bright_blue",
    "bright_green",
    "bright_magenta",
    "bright_yellow",
    "bright_cyan",
    "bright_red",
    "dodger_blue1",
    "spring_green3",
    "orange1",
    "medium_purple1",
    "deep_pink2",
    "turquoise2",
    "gold1",
    "chartreuse3",
)
_STATES: Final = {"running": "green", "waiting": "yellow", "partly": "yellow", "failed": "red"}


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

    def press(key: str) -> None:
        viewer.press(key)
        changed.set()

    try:
        with pressed_keys(press), Live(console=console, screen=True, auto_refresh=False) as live:
            while not stopping.is_set() and not viewer.has_quit:
                changed.clear()
                drawn = draw(board.sections, f"{head}   ? help   q quit", console, viewer)
                live.update(drawn, refresh=True)
                await asyncio.sleep(_PERIOD)
                try:
                    async with asyncio.timeout(1.0):  # ages grow by themselves, and windows change their size
                        await _first(changed, stopping)
                except TimeoutError:
                    continue
    finally:
        unsubscribe()


def draw(sections: Sections, head: str, console: Console, viewer: Viewer) -> RenderableType:
    """The screen that a viewer asks for."""
    from rich.console import Group
    from rich.panel import Panel
    from rich.segment import Segments
    from rich.text import Text

    if viewer.is_helping:
        return Panel(Text(HELP), title="keys", border_style="blue")
    if viewer.number == 0:
        return render(sections, head, console.width, console.height)
    whole = _PARTS[viewer.view.title](sections, viewer.order)
    options = console.options.update(width=console.width - 4, height=None)
    lines = console.render_lines(whole, options, new_lines=True)
    page = console.height - 6  # the head has four lines, the frame two
    first = viewer.fit(len(lines), page)
    shown = [segment for line in lines[first : first + page] for segment in line]
    title = f"{viewer.number + 1} {viewer.view.title}, by {viewer.order}"
    place = f"lines {first + 1} to {min(len(lines), first + page)} of {len(lines)}"
    return Group(
        Panel(_summary(sections, head), border_style="blue", height=4),
        Panel(Segments(shown), title=title, subtitle=place, height=console.height - 4),
    )


async def _first(*events: asyncio.Event) -> None:
    waiting = [asyncio.ensure_future(each.wait()) for each in events]
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in waiting:
            each.cancel()


def render(sections: Sections, head: str, width: int, height: int) -> RenderableType:
    """One screen of this size."""
    from rich.layout import Layout
    from rich.panel import Panel

    layout = Layout()
    layout.split_column(
        Layout(Panel(_summary(sections, head), border_style="blue"), size=4, name="head"),
        Layout(name="body"),
    )
    body = layout["body"]
    upper, lower = Layout(name="upper", ratio=3), Layout(name="lower", ratio=2)
    if width < 100:
        body.split_column(
            Layout(Panel(_gpus(sections, height // 3), title="GPUs")),
            Layout(Panel(_waiting(sections), title="what waits, and why")),
        )
        return layout
    body.split_column(upper, lower)
    upper.split_row(
        Layout(Panel(_gpus(sections, height * 3 // 5 - 6), title="GPUs"), ratio=3),
        Layout(name="right", ratio=2),
    )
    upper["right"].split_column(
        Layout(Panel(_waiting(sections), title="what waits, and why")),
        Layout(Panel(_queues(sections), title="queues")),
    )
    lower.split_row(
        Layout(Panel(_work(sections), title="training and inference")),
        Layout(Panel(_events(sections, limit=30), title="events")),
    )
    return layout


def _summary(sections: Sections, head: str) -> RenderableType:
    from rich.text import Text

    nodes = sections.get("nodes", {}).values()
    gangs = sections.get("gangs", {}).values()
    gpus = sum(node["gpus"] for node in nodes)
    used = sum(guest["gpus"] for node in nodes for guest in node["guests"])
    waiting = sum(gang["state"] in ("waiting", "partly") for gang in gangs)
    text = Text(no_wrap=True, overflow="ellipsis")
    text.append("Quarterdeck  ", style="bold")
    text.append(f"{used:g} of {gpus} GPUs  ", style="bright_blue")
    text.append(f"{sum(node['ready'] for node in nodes)} of {len(nodes)} nodes ready  ")
    text.append(f"{sum(gang['state'] == 'running' for gang in gangs)} gangs run  ", style="green")
    text.append(f"{waiting} wait", style="yellow" if waiting else "dim")
    text.append(f"\n{head}", style="dim")
    return text


def _colour(gang: str) -> str:
    return _COLOURS[sum(gang.encode()) % len(_COLOURS)]


def _gpus(sections: Sections, rows: int, order: str = "") -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    nodes = sorted(sections.get("nodes", {}).values(), key=lambda node: (not node["gpus"], node["name"]))
    if order == "free GPUs":
        nodes.sort(key=lambda node: sum(guest["gpus"] for guest in node["guests"]) - node["gpus"])
    if not nodes:
        return Text("no nodes yet", style="dim")
    columns = max(1, -(-len(nodes) // max(1, rows)))
    table = Table.grid(padding=(0, 2))
    cells = [_node(node) for node in nodes]
    for row in range(-(-len(cells) // columns)):
        table.add_row(*cells[row * columns : (row + 1) * columns])
    return table


def _node(node: Json) -> RenderableType:
    from rich.text import Text

    text = Text(no_wrap=True)
    text.append(f"{node['name']:<14} ", style="" if node["ready"] else "red")
    shown = 0
    for guest in node["guests"]:
        blocks = max(1, round(guest["gpus"]))
        text.append("■" * blocks, style=_colour(guest["gang"]))
        shown += blocks
    text.append("·" * max(0, node["gpus"] - shown), style="dim")
    return text


def _waiting(sections: Sections, order: str = "") -> RenderableType:
    from rich.text import Text

    text = Text()
    field = "name" if order == "name" else "since"
    for gang in sorted(sections.get("gangs", {}).values(), key=lambda each: str(each[field])):
        if gang["state"] in ("waiting", "partly"):
            text.append(gang_name(gang["name"]), style="bold yellow")
            text.append(f"  {gang['waiting']} of {gang['pods']} pods, {age(gang['since'])}\n", style="dim")
            text.append("".join(f"  {why.strip()}\n" for why in gang["why"][:2]))
    return text if text else Text("nothing waits", style="dim")


def _queues(sections: Sections, order: str = "") -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    queues = sections.get("queues", {})
    if not queues:
        return Text("no queues", style="dim")
    table = Table.grid(padding=(0, 2))
    table.add_row(*(Text(each, style="dim") for each in ("queue", "GPUs", "quota", "fair")))
    ordered = sorted(queues.values(), key=lambda each: (each["depth"] > 0, each["name"]))
    if order == "GPUs in use":
        ordered.sort(key=lambda each: each["gpu"]["allocated"], reverse=True)
    for queue in ordered:
        share, fair = queue["gpu"], queue["fairShare"]
        table.add_row(
            "  " * queue["depth"] + queue["title"],
            f"{share['allocated']:g}",
            "∞" if share["quota"] < 0 else f"{share['quota']:g}",
            "" if fair is None else f"{fair:g}",
        )
    return table


def _work(sections: Sections, order: str = "") -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    trainings = sorted(sections.get("trainings", {}).items())
    if order == "state":
        trainings.sort(key=lambda item: str(item[1]["state"]))
    for key, job in trainings:
        progress = "" if job["progress"] is None else f"{job['progress']} %"
        table.add_row(key, Text(job["state"].lower(), style=_STATES.get(job["state"].lower(), "")), progress)
    for key, each in sorted(sections.get("inference", {}).items()):
        order = " → ".join("+".join(stage) for stage in each["stages"])
        table.add_row(key, f"{each['available']} of {each['replicas']} available", Text(order, style="dim"))
    return table


def _events(sections: Sections, order: str = "", limit: int | None = None) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 1))
    newest = sorted(sections.get("events", {}).values(), key=lambda each: str(each["time"]), reverse=True)
    if order == "object":
        newest.sort(key=lambda each: str(each["about"]))
    for each in newest[:limit]:
        style = "yellow" if each["type"] == "Warning" else "dim"
        line = Text(f"{each['reason']} {each['about']}: {each['message']}", no_wrap=True, overflow="ellipsis")
        table.add_row(Text(age(each["time"]), style=style), line)
    return table


def _all_gpus(sections: Sections, order: str) -> RenderableType:
    return _gpus(sections, len(sections.get("nodes", {})), order)


_PARTS: Final[Mapping[str, Callable[[Sections, str], RenderableType]]] = dict(
    zip((view.title for view in VIEWS[1:]), (_all_gpus, _waiting, _queues, _work, _events), strict=True)
)
