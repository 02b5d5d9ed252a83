"""The screen fits every window, and says the same as the page."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from quarterdeck.cli.screen.item import colour, shortened
from quarterdeck.cli.screen.keyboard import keys_in
from quarterdeck.cli.screen.screen import draw
from quarterdeck.cli.screen.view import VIEWS, Viewer
from quarterdeck.dashboard.text import age, gang_name, natural, plain_lines, queue_tree

GANG: dict[str, Any] = {
    "state": "waiting",
    "since": "2026-01-01T00:00:00Z",
    "name": "pg-train-8611fa49-e4d9-44b2-a31e-77cfc5f1cb1b",
    "waiting": 4,
    "runs": False,
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
    "health": {"health": {"summary": "1 critical", "critical": 1, "warning": 0, "unreachableSince": ""}},
    "problems": {
        "node-silent: x": {
            "place": 0,
            "severity": "critical",
            "head": "Node node-7",
            "reason": "it has stopped reporting",
            "since": "2026-01-01T00:00:00Z",
            "remedy": "look at the machine",
            "count": 1,
            "subjects": [{"kind": "Node", "namespace": "", "name": "node-7", "detail": ""}],
        }
    },
}


@pytest.mark.parametrize(("width", "height"), [(80, 24), (120, 40), (200, 60)])
def test_the_screen_fits_the_window_and_problems_come_first(width: int, height: int) -> None:
    lines = shown(Viewer(), width, height)
    text = "\n".join(lines)
    assert "320 of 320 GPUs" in text
    assert "1 critical" in lines[1]
    problem = next(number for number, line in enumerate(lines) if "Node node-7: it has stopped" in line)
    assert problem < next(number for number, line in enumerate(lines) if "■" in line)
    assert "no rack has room" in text


def test_lines_say_it_without_a_terminal() -> None:
    lines = [*plain_lines(SECTIONS)]
    assert lines[:3] == [
        "health: 1 critical",
        "critical: Node node-7: it has stopped reporting",
        "  to do: look at the machine",
    ]
    assert lines[-3:] == [
        "queue vision: 8 GPUs, quota 16, fair share 16",
        "gang default/train: waiting, 0 of 4 pods placed",
        "  no rack has room",
    ]


def many_nodes(count: int, racks: int = 0, down: int = -1) -> dict[str, dict[str, Any]]:
    return {
        f"gpu-node-{number}": {
            "name": f"gpu-node-{number}",
            "ready": number != down,
            "gpus": 8,
            "pods": 1,
            "domain": [f"rack-{number % racks}"] if racks else [],
            "guests": [{"gang": "default/other", "pod": "p", "gpus": 8}],
        }
        for number in range(count)
    }


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
def test_two_hundred_nodes_are_racks_with_the_bad_one_first(size: tuple[int, int]) -> None:
    nodes = many_nodes(200, racks=10, down=57)
    lines = shown(Viewer(), *size, sections={**SECTIONS, "nodes": nodes})
    racks = [line for line in lines if "rack-" in line and "GPU" in line]
    assert "rack-7" in racks[0]
    assert "160 of 160 GPUs, 20 nodes, 1 not ready" in racks[0]
    unplaced = shown(Viewer(), *size, sections={**SECTIONS, "nodes": many_nodes(200)})
    assert any("gpu-node-0 … gpu-node-" in line for line in unplaced)


def test_every_name_can_be_read_and_is_in_natural_order() -> None:
    viewer = Viewer()
    viewer.press("3")
    lines = shown(viewer, sections={**SECTIONS, "nodes": many_nodes(200)})
    names = [line.split("■")[0].strip("│▸ ") for line in lines if "■" in line]
    assert names == [f"gpu-node-{number}" for number in range(len(names))]
    assert len(names) > 10
    assert sorted(["node-10", "node-2", "node"], key=natural) == ["node", "node-2", "node-10"]
    assert shortened("a-very-long-name-of-a-node-17", 12) == "a-ve…node-17"


def test_queues_are_under_their_own_parent() -> None:
    def row(name: str, parent: str, used: float) -> dict[str, Any]:
        share = {"allocated": used, "quota": 4}
        return {"name": name, "title": name, "parent": parent, "depth": 0, "fairShare": None, "gpu": share}

    rows = [row("a", "", 5), row("b", "", 9), row("b1", "a", 1), row("a1", "b", 2), row("a2", "b", 3)]
    queues = {each["name"]: each for each in rows}
    assert [each["name"] for each in queue_tree(queues)] == ["a", "b1", "b", "a1", "a2"]
    assert [each["name"] for each in queue_tree(queues, by_use=True)] == ["b", "a2", "a1", "a", "b1"]
    circle = {"x": row("x", "y", 0), "y": row("y", "x", 0)}
    assert {each["name"] for each in queue_tree(circle)} == {"x", "y"}, "nobody is lost"
    viewer = Viewer()
    viewer.press("5")
    text = "\n".join(shown(viewer, sections={**SECTIONS, "queues": queues}))
    assert text.count("over quota") == 2


def test_a_gang_has_its_colour_by_name() -> None:
    first = colour("default/pg-train-8611fa49-e4d9-44b2-a31e-77cfc5f1cb1b")
    assert first == colour("default/pg-train-00000000-e4d9-44b2-a31e-77cfc5f1cb1b"), (
        "also when it is made anew"
    )
    assert len({colour(f"default/gang-{number}") for number in range(100)}) == 13


def test_enter_explains_and_the_scheduler_is_asked_about_a_gang() -> None:
    viewer = Viewer()
    shown(viewer)
    viewer.press("enter")
    text = "\n".join(shown(viewer))
    assert "to do: look at the machine" in text
    viewer.press("escape")
    viewer.press("4")
    gang = {**SECTIONS["gangs"][f"default/{GANG['name']}"], "grouped": True}
    sections = {**SECTIONS, "gangs": {"default/train": gang}}
    shown(viewer, sections=sections)
    viewer.press("enter")
    asked: list[str] = []

    def advice(gang: str) -> tuple[str, ...]:
        asked.append(gang)
        return ("2 more nodes like node-1",)

    assert "2 more nodes like node-1" in "\n".join(shown(viewer, sections=sections, advice=advice))
    assert asked == ["default/train"]


def test_a_filter_says_what_it_hides_and_never_that_there_is_nothing() -> None:
    viewer = Viewer()
    for key in ("4", "/", *"zzz"):
        viewer.press(key)
    text = "\n".join(shown(viewer))
    assert "none of 1 has the text 'zzz'" in text
    assert "1 hidden" in text
    assert "nothing waits" not in text
    assert "1 critical" in text, "the head tells trouble whatever is filtered"
    viewer.press("enter")
    viewer.press("escape")
    assert "no rack has room" in "\n".join(shown(viewer))


def test_without_an_answer_of_the_server_the_screen_says_so() -> None:
    health = {
        "health": {"summary": "", "critical": 1, "warning": 0, "unreachableSince": "2026-01-01T00:00:00Z"}
    }
    assert (
        "NO ANSWER since 2026-01-01T00:00:00Z" in shown(Viewer(), sections={**SECTIONS, "health": health})[1]
    )


def test_names_and_ages_are_short() -> None:
    assert gang_name("segmentation") == "segmentation"
    assert age("nonsense") == ""
    assert age("2026-01-01T00:00:00Z").endswith("d")


def shown(
    viewer: Viewer,
    width: int = 80,
    height: int = 24,
    sections: dict[str, dict[str, Any]] = SECTIONS,
    **options: Any,
) -> list[str]:
    """The lines that a viewer sees."""
    console = Console(width=width, height=height, file=io.StringIO(), force_terminal=False)
    with console.capture() as captured:
        console.print(draw(sections, "https://127.0.0.1:6443", console, viewer, **options))
    lines = captured.get().rstrip("\n").split("\n")
    assert len(lines) <= height
    assert max(map(len, lines)) <= width
    return lines


def test_keys_have_names_whatever_the_terminal_sends() -> None:
    assert keys_in(b"q\x1b[A\x1bOB\x1b[5~\x1b[6~ s\t\x1b") == [
        *("q", "up", "down", "page up", "page down", "page down", "s", "right", "escape")
    ]
    assert keys_in(b"\r\n\x7f/") == ["enter", "enter", "backspace", "/"]
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


def test_a_long_view_follows_the_choice_to_its_ends_and_not_beyond() -> None:
    viewer = Viewer()
    viewer.press("3")
    assert "▸ node-0 " in shown(viewer)[5]
    for key, chosen, first in (
        ("down", "node-1", "node-0"),
        ("up", "node-0", "node-0"),
        ("up", "node-0", "node-0"),
        ("page down", "node-18", "node-1"),
        ("end", "node-39", "node-22"),
        ("page down", "node-39", "node-22"),
        ("home", "node-0", "node-0"),
    ):
        viewer.press(key)
        lines = shown(viewer)
        assert any(f"▸ {chosen} " in line for line in lines), key
        assert f" {first} " in lines[5], key
    assert "1 to 18 of 40" in "\n".join(shown(viewer))
    viewer.press("end")
    assert "1 to 40 of 40" in "\n".join(shown(viewer, height=60)), "a bigger window shows more of them"


def test_a_view_is_sorted_by_something_else_and_remembers_it() -> None:
    viewer = Viewer()
    for key in ("3", "s", "4", "3"):
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
