"""The screen fits every window, and says the same as the page."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from quarterdeck.cli.screen.keyboard import keys_in
from quarterdeck.cli.screen.screen import draw, render
from quarterdeck.cli.screen.view import VIEWS, Viewer
from quarterdeck.dashboard.text import age, gang_name, plain_lines

GANG: dict[str, Any] = {
    "state": "waiting",
    "since": "2026-01-01T00:00:00Z",
    "name": "pg-train-8611fa49-e4d9-44b2-a31e-77cfc5f1cb1b",
    "waiting": 4,
    "placed": 0,
    "pods": 4,
    "why": ["no rack has room"],
}
SECTIONS: dict[str, dict[str, Any]] = {
    "nodes": {
        f"node-{number}": {
            "name": f"node-{number}",
            "ready": True,
            "gpus": 8,
            "pods": 1,
            "guests": [{"gang": "default/other", "pod": "p", "gpus": 8}],
        }
        for number in range(40)
    },
    "gangs": {f"default/{GANG['name']}": GANG},
    "queues": {
        "vision": {
            "name": "vision",
            "title": "Vision",
            "depth": 0,
            "fairShare": 16.0,
            "gpu": {"allocated": 8, "quota": 16},
        }
    },
}


@pytest.mark.parametrize(("width", "height"), [(80, 24), (120, 40), (200, 60)])
def test_the_screen_fits_the_window(width: int, height: int) -> None:
    console = Console(width=width, height=height, file=io.StringIO(), force_terminal=False)
    with console.capture() as captured:
        console.print(render(SECTIONS, "https://127.0.0.1:6443", width, height))
    lines = captured.get().rstrip("\n").split("\n")
    assert len(lines) <= height
    assert max(map(len, lines)) <= width
    text = "\n".join(lines)
    assert "320 of 320 GPUs" in text
    assert "no rack has room" in text


def test_lines_say_it_without_a_terminal() -> None:
    assert [*plain_lines(SECTIONS)][-3:] == [
        "queue vision: 8 GPUs, quota 16, fair share 16",
        "gang default/train: waiting, 0 of 4 pods placed",
        "  no rack has room",
    ]


def test_names_and_ages_are_short() -> None:
    assert gang_name("segmentation") == "segmentation"
    assert age("nonsense") == ""
    assert age("2026-01-01T00:00:00Z").endswith("d")


def shown(viewer: Viewer, width: int = 80, height: int = 24) -> list[str]:
    """The lines that a viewer sees."""
    console = Console(width=width, height=height, file=io.StringIO(), force_terminal=False)
    with console.capture() as captured:
        console.print(draw(SECTIONS, "https://127.0.0.1:6443", console, viewer))
    lines = captured.get().rstrip("\n").split("\n")
    assert len(lines) <= height
    assert max(map(len, lines)) <= width
    return lines


def test_keys_have_names_whatever_the_terminal_sends() -> None:
    assert keys_in(b"q\x1b[A\x1bOB\x1b[5~\x1b[6~ s\t\x1b") == [
        *("q", "up", "down", "page up", "page down", "page down", "s", "right", "escape")
    ]
    assert keys_in(b"\x1b[200~") == [""], "an unknown sequence is one key without a name, not its letters"


def test_every_view_has_a_number_and_fits() -> None:
    viewer = Viewer()
    for number, view in enumerate(VIEWS, start=1):
        viewer.press(str(number))
        assert viewer.view is view
        assert number == 1 or f"{number} {view.title}, by {view.orders[0]}" in "\n".join(shown(viewer))
    viewer.press("right")
    assert viewer.number == 0, "after the last comes the first"
    viewer.press("left")
    assert viewer.number == len(VIEWS) - 1


def test_a_long_view_is_scrolled_to_its_ends_and_not_beyond() -> None:
    viewer = Viewer()
    viewer.press("2")
    assert "node-0 " in shown(viewer)[5]
    for key, first in (
        ("down", "node-1 "),
        ("up", "node-0 "),
        ("up", "node-0 "),
        ("page down", "node-25"),
        ("end", "node-29"),
        ("page down", "node-29"),
        ("home", "node-0 "),
    ):
        viewer.press(key)
        assert first in shown(viewer)[5], key
    assert "lines 1 to 18 of 40" in "\n".join(shown(viewer))
    viewer.press("end")
    assert "lines 1 to 40 of 40" in "\n".join(shown(viewer, height=60)), "a bigger window shows more of them"


def test_a_view_is_sorted_by_something_else_and_remembers_it() -> None:
    viewer = Viewer()
    for key in ("2", "s", "3", "2"):
        viewer.press(key)
    assert viewer.order == "free GPUs"
    viewer.press("s")
    assert viewer.order == "name"
    viewer.press("1")
    viewer.press("s")
    assert viewer.order == "", "the overview has no order"


def test_help_is_left_by_any_key_and_q_quits() -> None:
    viewer = Viewer()
    viewer.press("?")
    assert "sort by something else" in "\n".join(shown(viewer))
    viewer.press("2")
    assert (viewer.is_helping, viewer.number) == (False, 0)
    viewer.press("?")
    viewer.press("q")
    assert viewer.has_quit
