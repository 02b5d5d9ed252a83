"""`quarterdeck top` on a terminal: it obeys keys, and gives the terminal back as it was."""

from __future__ import annotations

import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from fcntl import ioctl
from pathlib import Path

COMMAND = [sys.executable, "-m", "quarterdeck.cli", "top"]


class Terminal:
    """A terminal with a program on it."""

    def __init__(self, command: list[str]) -> None:
        self._ours, self.theirs = pty.openpty()
        ioctl(self.theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
        self.before = termios.tcgetattr(self.theirs)
        self.process = subprocess.Popen(
            command,
            stdin=self.theirs,
            stdout=self.theirs,
            stderr=self.theirs,
            env={**os.environ, "TERM": "xterm", "NO_COLOR": "1"},
        )

    def press(self, keys: bytes) -> None:
        os.write(self._ours, keys)

    def until(self, text: str) -> None:
        """Read what is drawn until a text is in it."""
        seen, deadline = b"", time.monotonic() + 120
        while text.encode() not in seen:
            assert time.monotonic() < deadline, seen[-2000:]
            if select.select([self._ours], [], [], 1.0)[0]:
                seen += os.read(self._ours, 65536)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._ours)
        os.close(self.theirs)


def test_top_obeys_keys_and_leaves_the_terminal_as_it_was(embedded_server: Path) -> None:
    terminal = Terminal([*COMMAND, "--kubeconfig", str(embedded_server)])
    try:
        terminal.until("? help   q quit")
        terminal.press(b"?")
        terminal.until("sort by something else")
        terminal.press(b" ")
        terminal.until("what waits, and why")
        terminal.press(b"5")
        terminal.until("5 queues, by name")
        terminal.press(b"s")
        terminal.until("5 queues, by GPUs in use")
        terminal.press(b"\x1b[C\x1b[C")
        terminal.until("7 events, by time")
        terminal.press(b"q")
        terminal.until("\x1b[?1049l")  # the screen that was there before
        assert terminal.process.wait(timeout=60) == 0
        assert termios.tcgetattr(terminal.theirs) == terminal.before
    finally:
        terminal.close()
