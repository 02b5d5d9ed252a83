"""Draw a command's output as a terminal window: python tools/picture.py OUT.svg -- COMMAND...

The README's picture is made by
`python tools/picture.py docs/images/demo.svg -- quarterdeck demo --once --operators grove,kai`.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap
from html import escape
from pathlib import Path

CHAR, LINE, PAD, BAR = 8.4, 19, 18, 34
WIDTH = 120


def draw(title: str, text: str) -> str:
    lines = [f"$ {title}"]
    for line in text.rstrip().splitlines():
        # only sentences are that long: tables keep their lines
        lines += textwrap.wrap(line, WIDTH, subsequent_indent="    ") if len(line) > WIDTH else [line]
    width = int(max(map(len, lines)) * CHAR + 2 * PAD)
    height = BAR + len(lines) * LINE + 2 * PAD
    body = []
    for number, line in enumerate(lines):
        color = "#7ee787" if number == 0 else "#ff7b72" if line.startswith("refused") else "#e6edf3"
        y = BAR + PAD + number * LINE + 12
        body.append(f'<text x="{PAD}" y="{y}" fill="{color}" xml:space="preserve">{escape(line)}</text>')
    dots = "".join(
        f'<circle cx="{PAD + index * 18}" cy="17" r="6" fill="{fill}"/>'
        for index, fill in enumerate(("#ff5f57", "#febc2e", "#28c840"))
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'font-family="ui-monospace, Menlo, Consolas, monospace" font-size="14">'
        f'<rect width="100%" height="100%" rx="10" fill="#0d1117"/>{dots}{"".join(body)}</svg>\n'
    )


def main() -> int:
    target, separator, *command = sys.argv[1:]
    if separator != "--" or not command:
        print(__doc__)
        return 2
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    Path(target).write_text(draw(" ".join(command), done.stdout))
    return 0


if __name__ == "__main__":
    sys.exit(main())
