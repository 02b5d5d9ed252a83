"""Keys of the terminal, by name, as they are pressed."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

_KEY: Final = re.compile(rb"\x1b\[[0-9;]*[A-Za-z~]|\x1bO[A-Z]|[\x00-\xff]")
_NAMES: Final = {
    b"\x1b[A": "up",
    b"\x1bOA": "up",
    b"\x1b[B": "down",
    b"\x1bOB": "down",
    b"\x1b[C": "right",
    b"\x1bOC": "right",
    b"\x1b[D": "left",
    b"\x1bOD": "left",
    b"\x1b[5~": "page up",
    b"\x1b[6~": "page down",
    b" ": "page down",
    b"\x1b[H": "home",
    b"\x1b[1~": "home",
    b"\x1b[F": "end",
    b"\x1b[4~": "end",
    b"\t": "right",
    b"\x1b[Z": "left",
    b"\x1b": "escape",
    b"\r": "enter",
    b"\n": "enter",
    b"\x7f": "backspace",
    b"\x08": "backspace",
}


def keys_in(data: bytes) -> list[str]:
    """The keys that a terminal sends so: a name of its own, or the character."""
    found = _KEY.findall(data)
    return [_NAMES.get(each, each.decode("latin-1") if len(each) == 1 else "") for each in found]


@contextmanager
def pressed_keys(press: Callable[[str], None]) -> Iterator[None]:
    """While it lasts, ``press`` is told every key; without a terminal to read from, none.

    Ctrl-C stays a signal.
    """
    if not sys.stdin.isatty():
        yield
        return
    import termios
    import tty

    terminal, loop = sys.stdin.fileno(), asyncio.get_running_loop()
    before = termios.tcgetattr(terminal)

    def read() -> None:
        for key in keys_in(os.read(terminal, 1024)):
            press(key)

    tty.setcbreak(terminal)
    loop.add_reader(terminal, read)
    try:
        yield
    finally:
        loop.remove_reader(terminal)
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)
