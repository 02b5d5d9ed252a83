"""Check the subject of a commit message, as git's commit-msg hook: ``python tools/subject.py FILE``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

LIMIT: Final = 72


def problems(message: str) -> list[str]:
    """What is wrong with a commit message; comment lines are git's."""
    lines = [line for line in message.splitlines() if not line.startswith("#")]
    subject = lines[0] if lines else ""
    found = []
    if not subject.strip():
        found.append("the subject is empty")
    if len(subject) > LIMIT:
        found.append(
            f"the subject has {len(subject)} characters, at most {LIMIT} fit: move the rest into the body"
        )
    if subject.endswith("."):
        found.append("the subject ends with a full stop")
    if len(lines) > 1 and lines[1].strip():
        found.append("a blank line belongs between subject and body")
    return found


def main() -> int:
    found = problems(Path(sys.argv[1]).read_text())
    for problem in found:
        print(problem, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
