"""README, quick start and each operator's page have a walk-through, and it goes as written: the commands in
order, in one shell, with the wheel in a fresh folder with a fresh HOME.

A walk-through is the block after ``<!-- walk-through -->``, or several such blocks one after the other. Where
the page shows what a command prints, that is what it must print, but for ages, the random ends of names, and
ports, and lines or ends of words left out where it shows ``…``.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "docs" / "quickstart.md",
    *sorted((ROOT / "docs" / "operators").glob("*.md")),
    ROOT / "docs" / "schedulers.md",
]
BLOCK = re.compile(r"<!-- walk-through -->\n+```console\n(.*?)```", re.DOTALL)
MARK = "-- end of step --"
AGE = r"(?:\d+[smh])+"


class Step(NamedTuple):
    """A command, and the lines that the page shows after it."""

    command: str
    shown: list[str]


def steps(page: Path) -> list[Step]:
    """The walk-through of a page."""
    blocks = BLOCK.findall(page.read_text())
    assert blocks
    found: list[Step] = []
    for line in "".join(blocks).splitlines():
        if line.startswith("$ "):
            found.append(Step(line.removeprefix("$ "), []))
        else:
            found[-1].shown.append(line)
    return found


def pattern(lines: list[str]) -> re.Pattern[str]:
    """What fits the lines that a page shows."""
    made = []
    for line in lines:
        if line.strip() == "…":
            made.append(r"(?:.*\n)*?")
            continue
        text = r"\s+".join(re.escape(word).replace("…", r"\S*") for word in line.split())
        text = re.sub(r"(?<=127\\.0\\.0\\.1:)\d+", lambda _: r"\d+", text)
        text = re.sub(rf"(?<![\w.]){AGE}(?![\w.])", lambda _: AGE, text)
        text = re.sub(r"\\-(?=[a-z0-9]*\d)[a-z0-9]{5}\b", lambda _: r"\-[a-z0-9]{5}", text)
        made.append(rf"\s*{text}\s*?\n")
    return re.compile("".join(made))


@pytest.mark.skipif(not shutil.which("kubectl"), reason="kubectl is not installed")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_walk_through_goes_as_written(page: Path, tmp_path: Path, wheel_programs: Path) -> None:
    wanted = steps(page)
    assert wanted[-1].command.startswith("quarterdeck down"), "nothing is left running"
    environment = {
        **{name: value for name, value in os.environ.items() if name != "KUBECONFIG"},
        "HOME": str(tmp_path),
        "XDG_STATE_HOME": str(tmp_path),
        "PATH": f"{wheel_programs}:{os.environ['PATH']}",
        # distributions are built with what is installed here, without a network; pip reads a 0 as "none"
        "PIP_NO_INDEX": "1",
        "PIP_NO_DEPS": "1",
        "PIP_NO_BUILD_ISOLATION": "0",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }
    script = "".join(f"{{ {step.command}\n}} 2>&1; echo '{MARK}'\n" for step in wanted)
    try:
        done = subprocess.run(
            ["bash"],
            input=script,
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
        )
    finally:
        stop = [str(wheel_programs / "quarterdeck"), "down"]
        subprocess.run(stop, env=environment, capture_output=True, check=False)
    printed = done.stdout.split(f"{MARK}\n")
    for step, output in zip(wanted, printed, strict=False):
        if step.shown:
            assert pattern(step.shown).fullmatch(output), f"$ {step.command}\n{output}"
        if not any("rror" in line for line in step.shown):
            assert "rror" not in output, f"$ {step.command}\n{output}"
    assert len(printed) == len(wanted) + 1
