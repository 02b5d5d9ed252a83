"""The screen fits every window, and says the same as the page."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from quarterdeck.cli.screen import render
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
