"""Histories with the real server's answers, as a file: JSON lines, compressed.

One line is one history: its seed, steps, answers, and the numbers of steps that the real server does not
answer the same way twice. Steps are kept with the answers: a recording outlives changes of the generator. By
xz, since histories resemble each other over longer distances than gzip sees.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

Json = dict[str, Any]
FOLDER: Final = Path(__file__).resolve().parents[2] / "tests" / "histories"
RECORDED: Final = FOLDER / "recorded.jsonl.xz"


@dataclass(frozen=True)
class Recorded:
    """name: the seed, or what a shrunk history is about."""

    name: str
    steps: list[Json]
    answers: dict[int, Any]
    volatile: list[int]

    def line(self) -> str:
        answers = [self.answers.get(step["i"]) for step in self.steps]
        content = {"name": self.name, "steps": self.steps, "answers": answers, "volatile": self.volatile}
        return json.dumps(content, separators=(",", ":"), sort_keys=True)


def _parse(line: str) -> Recorded:
    content = json.loads(line)
    numbers = [step["i"] for step in content["steps"]]
    answers = dict(zip(numbers, content["answers"], strict=True))
    return Recorded(content["name"], content["steps"], answers, content["volatile"])


def save(recordings: Iterable[Recorded], path: Path = RECORDED) -> None:
    text = "".join(f"{each.line()}\n" for each in recordings)
    path.write_bytes(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))


def load(path: Path = RECORDED) -> Iterator[Recorded]:
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            yield _parse(line)


def save_case(recorded: Recorded, folder: Path = FOLDER) -> Path:
    """A shrunk history, readable: it becomes a test as it is."""
    path = folder / f"{recorded.name}.json"
    path.write_text(json.dumps(json.loads(recorded.line()), indent=1, sort_keys=True) + "\n")
    return path


def load_cases(folder: Path = FOLDER) -> list[Recorded]:
    return [_parse(path.read_text()) for path in sorted(folder.glob("*.json"))]
