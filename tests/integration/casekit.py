"""Cases that are written in a test and played by the case runner."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.harness.case import load
from tests.harness.command import Report, execute
from tests.harness.run import Run


def play(system: str, cases: list[dict[str, Any]], run: Run, folder: Path) -> Report:
    """Run them one after the other; what fails is printed."""
    file = folder / f"{system}.json"
    file.write_text(json.dumps({"system": system, "cases": cases}))
    report = Report()
    execute(load(file), run, jobs=1, report=report)
    return report
