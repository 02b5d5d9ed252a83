"""The cluster on a terminal: the rows of the dashboard as one screen that fits the window.

`render` makes a screen of rich's parts from the sections. `show` keeps it up to date, on the terminal's other
screen, until stopped; `plain` is the same content as lines, for pipes and logs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from quarterdeck.dashboard.text import age, gang_name, plain_lines

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from quarterdeck.dashboard import Board

__all__ = ["plain", "render", "show"]

Json = dict[str, Any]
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
    """Draw until stopped, a few times a second and only if something changed."""
    from rich.console import Console
    from rich.live import Live

    console = console if console is not None else Console()
    changed = asyncio.Event()
    unsubscribe = board.subscribe(lambda _: changed.set())
    try:
        with Live(console=console, screen=True, auto_refresh=False) as live:
            while not stopping.is_set():
                changed.clear()
                live.update(render(board.sections, head, console.width, console.height), refresh=True)
                await asyncio.sleep(_PERIOD)
                try:
                    async with asyncio.timeout(1.0):  # ages grow by themselves, and windows change their size
                        await _first(changed, stopping)
                except TimeoutError:
                    continue
    finally:
        unsubscribe()


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
        Layout(Panel(_events(sections), title="events")),
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


def _gpus(sections: Sections, rows: int) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    nodes = sorted(sections.get("nodes", {}).values(), key=lambda node: (not node["gpus"], node["name"]))
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


def _waiting(sections: Sections) -> RenderableType:
    from rich.text import Text

    text = Text()
    for _, gang in sorted(sections.get("gangs", {}).items(), key=lambda item: str(item[1]["since"])):
        if gang["state"] in ("waiting", "partly"):
            text.append(gang_name(gang["name"]), style="bold yellow")
            text.append(f"  {gang['waiting']} of {gang['pods']} pods, {age(gang['since'])}\n", style="dim")
            text.append("".join(f"  {why.strip()}\n" for why in gang["why"][:2]))
    return text if text else Text("nothing waits", style="dim")


def _queues(sections: Sections) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    queues = sections.get("queues", {})
    if not queues:
        return Text("no queues", style="dim")
    table = Table.grid(padding=(0, 2))
    table.add_row(*(Text(each, style="dim") for each in ("queue", "GPUs", "quota", "fair")))
    for queue in sorted(queues.values(), key=lambda each: (each["depth"] > 0, each["name"])):
        share, fair = queue["gpu"], queue["fairShare"]
        table.add_row(
            "  " * queue["depth"] + queue["title"],
            f"{share['allocated']:g}",
            "∞" if share["quota"] < 0 else f"{share['quota']:g}",
            "" if fair is None else f"{fair:g}",
        )
    return table


def _work(sections: Sections) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    for key, job in sorted(sections.get("trainings", {}).items()):
        progress = "" if job["progress"] is None else f"{job['progress']} %"
        table.add_row(key, Text(job["state"].lower(), style=_STATES.get(job["state"].lower(), "")), progress)
    for key, each in sorted(sections.get("inference", {}).items()):
        order = " → ".join("+".join(stage) for stage in each["stages"])
        table.add_row(key, f"{each['available']} of {each['replicas']} available", Text(order, style="dim"))
    return table


def _events(sections: Sections) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 1))
    newest = sorted(sections.get("events", {}).values(), key=lambda each: str(each["time"]), reverse=True)
    for each in newest[:30]:
        style = "yellow" if each["type"] == "Warning" else "dim"
        line = Text(f"{each['reason']} {each['about']}: {each['message']}", no_wrap=True, overflow="ellipsis")
        table.add_row(Text(age(each["time"]), style=style), line)
    return table
